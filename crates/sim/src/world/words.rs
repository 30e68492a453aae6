//! Calls and what became of them, in words.

use plan::{Call, Ref};

use crate::server::{Answer, Refusal};

pub fn line(call: &Call, reference: &Ref) -> String {
    match call {
        Call::Create(object) => {
            let value = crate::server::encode(object);
            format!("creates {reference} {} {}", value["metadata"]["annotations"], value["spec"])
        }
        Call::Patch { status, body, .. } => {
            format!("patches {}{reference} {body}", if *status { "the status of " } else { "" })
        }
        Call::Delete { .. } => format!("deletes {reference}"),
        Call::Read(_) | Call::Tell(_) | Call::Trace(_) => String::new(),
    }
}

pub fn outcome(done: &Result<Answer, Refusal>) -> String {
    match done {
        Ok(Answer::Object(object)) => {
            format!("version {}", object.meta().resource_version.as_deref().unwrap_or_default())
        }
        Ok(Answer::Gone { .. }) => "gone".to_owned(),
        Err(Refusal::Stale(words)) => format!("STALE {words}"),
        Err(Refusal::Refused(words)) => format!("REFUSED {words}"),
    }
}
