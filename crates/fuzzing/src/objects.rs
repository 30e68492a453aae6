//! Whole objects in JSON, as the API server could send them: one a line. A `-` before one says that it is gone.

use metallb::Config;
use plan::{Change, Object};

use crate::brains::{self, Look, Start};
use crate::wire;

/// The bytes as lines of JSON.
pub fn hold(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut history = Vec::new();
    for line in text.lines() {
        let (gone, line) = line.strip_prefix('-').map_or((false, line), |rest| (true, rest));
        let Some(object) = wire::object(line) else { continue };
        see_read_as_written(&object);
        history.push(if gone { Change::Deleted(object) } else { Change::Applied(object) });
    }
    if !history.is_empty() {
        brains::look(Look::of(data.len()), Start::Furnished, &history, &Config::default());
    }
}

/// What was read and is written is read as the same.
fn see_read_as_written(object: &Object) {
    let text = wire::encode(object).expect("an object has a text");
    let again = wire::decode(object.kind(), &text).expect("a text of ours is read");
    assert_eq!(&again, object);
}
