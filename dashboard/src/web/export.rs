//! Tables of everything, to clients of any speed.
//!
//! A table is some megabytes of text, which is never made as a whole: each piece is made when the client has read the one
//! before, and nothing else waits for it. Few are under way at once; one whose client reads nothing ends with the
//! connection ([`super::patience`]), so slow clients hold little memory, and not for long.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many are under way at once.
const AT_ONCE: usize = 4;

/// The exports under way.
#[derive(Clone, Debug)]
pub struct Exports(Arc<Semaphore>);

impl Exports {
    /// None is under way.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Begins one, unless as many are under way as may be.
    pub fn begin(&self) -> Option<Export> {
        Arc::clone(&self.0).try_acquire_owned().ok().map(Export)
    }
}

/// One of them. Over when it is dropped.
#[derive(Debug)]
pub struct Export(#[expect(dead_code, reason = "its end is what counts")] OwnedSemaphorePermit);

impl Export {
    /// Hands on one piece after the other, until there is none.
    pub fn body(self, next: impl FnMut() -> Option<String> + Send + 'static) -> Body {
        Body::from_stream(futures::stream::unfold((self, next), async |(export, mut next)| {
            // Whoever asks for a page in the meantime comes first.
            tokio::task::yield_now().await;
            let piece = next()?;
            Some((Ok::<_, Infallible>(piece), (export, next)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn pieces_are_made_as_they_are_read_and_the_end_frees_the_place() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let exports = Exports::new();
        let next = || {
            let made = MADE.fetch_add(1, Ordering::Relaxed);
            (made < 3).then(|| format!("piece {made}\n"))
        };
        let mut body = exports.begin().unwrap().body(next);
        assert_eq!(MADE.load(Ordering::Relaxed), 0, "made before anybody reads");
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((&*first, MADE.load(Ordering::Relaxed)), (&b"piece 0\n"[..], 1));
        assert_eq!(exports.0.available_permits(), AT_ONCE - 1);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "piece 1\npiece 2\n");
        assert_eq!(exports.0.available_permits(), AT_ONCE);
    }

    #[tokio::test]
    async fn few_are_under_way_and_one_that_is_dropped_makes_room() {
        let exports = Exports::new();
        let mut bodies: Vec<_> =
            (0..AT_ONCE).map(|_| exports.begin().unwrap().body(|| Some(String::new()))).collect();
        assert!(exports.begin().is_none(), "another one while as many are under way as may be");
        bodies.pop();
        assert!(exports.begin().is_some());
    }
}
