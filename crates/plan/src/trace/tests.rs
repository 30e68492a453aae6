use rstest::rstest;

use super::*;
use crate::Action;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[rstest]
#[case::plain(PARENT, Some(true))]
#[case::not_sampled("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", Some(false))]
#[case::other_flags("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03", Some(true))]
#[case::a_later_version("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", Some(true))]
#[case::more_than_this_version_has("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", None)]
#[case::no_version("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None)]
#[case::no_trace("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None)]
#[case::no_span("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", None)]
#[case::upper_case("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", None)]
#[case::short("00-4bf92f35-00f067aa0ba902b7-01", None)]
#[case::signs("00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None)]
#[case::nothing("", None)]
#[case::anything("\u{1F41F} -- ;;;", None)]
fn c14_only_a_traceparent_is_one(#[case] text: &str, #[case] sampled: Option<bool>) {
    let context = Context::parse(text);
    assert_eq!(context.map(|context| context.sampled), sampled);
    if text == PARENT {
        assert_eq!(context.unwrap().to_string(), text);
    }
}

/// Who begins it and who goes on with it find the same ids, and the user's trace if there is one.
#[test]
fn c14_an_operation_is_found_again_by_what_stands_on_the_object() {
    let user = Context::parse(PARENT);
    for user in [None, user, user.map(|user| Context { sampled: false, ..user })] {
        let begun = Operation::begin(Some(Sampler::ParentBased(1.0)), "x", &["uid", "1"], user).unwrap();
        let written = Context::parse(&begun.context.to_string()).unwrap();
        assert_eq!(Operation::of_context(written, "x", &["uid", "1"], user), Some(begun));
        assert_eq!(Operation::of_context(written, "x", &["uid", "2"], user), None);
        let Action::Trace(root) = begun.end(Timestamp::UNIX_EPOCH, None, Vec::new()) else { panic!() };
        let sampled = user.is_some_and(|user| user.sampled);
        assert_eq!(root.parent, user.filter(|_| sampled).map(|user| user.span));
        assert_eq!(root.link, user.filter(|_| !sampled));
        assert_eq!(Some(root.context.trace) == user.map(|user| user.trace), sampled);
    }
}

#[test]
fn c14_samplers() {
    let ids = (0..2000).map(|index| TraceId::of(&["trace", &index.to_string()])).collect::<Vec<_>>();
    let count = |sampler: Sampler, parent| ids.iter().filter(|id| sampler.admits(**id, parent)).count();
    assert_eq!(count(Sampler::Always, Some(false)), 2000);
    assert_eq!(count(Sampler::Never, Some(true)), 0);
    assert_eq!(count(Sampler::ParentBased(0.0), Some(true)), 2000);
    assert_eq!(count(Sampler::ParentBased(1.0), Some(false)), 0);
    assert_eq!(count(Sampler::ParentBased(1.0), None), 2000);
    let quarter = count(Sampler::Ratio(0.25), None);
    assert!((400..600).contains(&quarter), "{quarter}");
    assert!(Operation::begin(None, "x", &["uid"], None).is_none());
    assert!(Operation::begin(Some(Sampler::Never), "x", &["uid"], Context::parse(PARENT)).is_none());
}
