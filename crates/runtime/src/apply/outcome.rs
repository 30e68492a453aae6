//! What an answer of the API server means for a plan.

use std::time::Duration;

use kube::core::Status;
use plan::Verdict;

use crate::explain::with_causes;

/// How the server's words end when all cluster IPs, or all node ports, are taken.
const FULL: &str = "range is full";

/// Judges an error. `create`: whether the call was to make an object, which no other write can have taken
/// away.
pub(crate) fn judge(error: &kube::Error, create: bool) -> Verdict {
    let kube::Error::Api(status) = error else {
        return Verdict::Failed(with_causes(error), Duration::ZERO);
    };
    let words = if status.message.is_empty() { status.reason.clone() } else { status.message.clone() };
    match status.code {
        409 => Verdict::Stale(words),
        404 if !create => Verdict::Stale(words),
        422 if names_another_incarnation(status) => Verdict::Stale(words),
        // Not who we are, but what we want is judged by these; 401 is a token about to be renewed.
        400 | 402..=407 | 410..=428 | 431..=499 => {
            Verdict::Refused { words, quiet: namespace_terminates(error) }
        }
        // The server has no other status for it: no IP or port of the cluster's Services is left until somebody gives one back.
        500 if words.ends_with(FULL) => Verdict::Refused { words, quiet: false },
        429 | 503 => Verdict::Failed(words, retry_after(status)),
        _ => Verdict::Failed(words, Duration::ZERO),
    }
}

/// A patch that carries the uid of an object deleted and made again: the server reads it as an attempt to
/// change the uid.
fn names_another_incarnation(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    causes.iter().any(|cause| cause.field == "metadata.uid")
}

fn retry_after(status: &Status) -> Duration {
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(u64::from(seconds.clamp(1, 60)))
}

/// Whether the server refused because the namespace is about to go: nobody needs to be told.
pub(crate) fn namespace_terminates(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    status.code == 403 && causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use kube::core::response::{StatusCause, StatusDetails};
    use rstest::rstest;

    use super::*;

    fn error(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("words", "Reason").with_code(code).boxed())
    }

    #[rstest]
    #[case(409, true, "stale")]
    #[case(409, false, "stale")]
    #[case(404, false, "stale")]
    #[case(404, true, "refused")]
    #[case(400, false, "refused")]
    #[case(403, true, "refused")]
    #[case(413, true, "refused")]
    #[case(422, false, "refused")]
    #[case(401, false, "failed")]
    #[case(408, false, "failed")]
    #[case(429, false, "failed")]
    #[case(500, false, "failed")]
    #[case(503, true, "failed")]
    #[case(504, true, "failed")]
    fn verdicts(#[case] code: u16, #[case] create: bool, #[case] expected: &str) {
        let verdict = match judge(&error(code), create) {
            Verdict::Stale(words) => ("stale", words),
            Verdict::Refused { words, .. } => ("refused", words),
            Verdict::Failed(words, _) => ("failed", words),
        };
        assert_eq!(verdict, (expected, "words".to_owned()));
    }

    #[rstest]
    #[case("failed to allocate a serviceIP for Service \"iad-1-v4\": range is full")]
    #[case("failed to allocate a nodePort: range is full")]
    fn k1_a_full_range_is_a_refusal(#[case] why: &str) {
        let status =
            Status::failure(&format!("Internal error occurred: {why}"), "InternalError").with_code(500);
        let verdict = judge(&kube::Error::Api(status.boxed()), true);
        assert!(matches!(&verdict, Verdict::Refused { words, quiet: false } if words.contains(why)));
    }

    #[test]
    fn another_uid_is_a_lost_race() {
        let cause = StatusCause {
            reason: "FieldValueInvalid".into(),
            message: "field is immutable".into(),
            field: "metadata.uid".into(),
        };
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: vec![cause],
            retry_after_seconds: 0,
        };
        let status = Status::failure("words", "Invalid").with_code(422).with_details(details);
        assert!(matches!(judge(&kube::Error::Api(status.boxed()), false), Verdict::Stale(_)));
    }
}
