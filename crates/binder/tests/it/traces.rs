//! Contract §14: what the core says of its operations to whoever collects traces.

use api::ClaimKey;
use api::wellknown::{TRACEPARENT, TRACEPARENT_KUBERNETES};
use binder::{Binder, Key};
use plan::trace::{Context, Sampler, Span};
use plan::{Action, Brain};
use serde_json::{Value, json};

use crate::lab::{Lab, lab};
use crate::world::claim_ref;

const USER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn traced() -> Lab {
    let mut lab = lab();
    lab.binder = Binder::new().traced(Some(Sampler::ParentBased(1.0)));
    lab
}

fn spans(lab: &mut Lab) -> Vec<Span> {
    lab.deliver();
    let key = Key::Claim(ClaimKey::new("a", "web"));
    let plan = lab.decide(&key);
    // Looked at, and not carried out.
    lab.binder.settle(&key);
    let spans = plan.actions.into_iter().filter_map(|action| match action {
        Action::Trace(span) => Some(span),
        _ => None,
    });
    spans.collect()
}

fn annotation(lab: &Lab) -> Value {
    lab.get(&claim_ref("web"))["metadata"]["annotations"][TRACEPARENT].clone()
}

/// The context goes out with the finalizer and the stamp, and is the root of what is said at the end.
#[test]
fn c14_a_claim_carries_the_root_of_its_reservation() {
    let mut lab = traced();
    lab.claim("web", json!({})).rest();
    let written = Context::parse(annotation(&lab).as_str().unwrap()).unwrap();
    lab.address("192.0.2.1", json!({}));
    let spans = spans(&mut lab);
    let [bind, root] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((bind.name, bind.parent), ("claim.bind", Some(written.span)));
    assert_eq!((root.name, root.context, root.parent, root.link), ("claim.reserve", written, None, None));
    lab.rest();
    assert_eq!(annotation(&lab), written.to_string());
    // The end of it is another trace, which is linked to this one.
    lab.delete(&claim_ref("web"));
    let spans = self::spans(&mut lab);
    let [root] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((root.name, root.link), ("claim.reclaim", Some(written)));
    assert_ne!(root.context.trace, written.trace);
}

/// What somebody else wrote stays; a sampled context is the parent, one that is not is a link, what is none is nothing.
#[test]
fn c14_a_claim_of_a_user_who_traces() {
    let unsampled = USER.replace("-01", "-00");
    for (name, text, parent, link) in [
        (TRACEPARENT, USER, true, false),
        (TRACEPARENT_KUBERNETES, USER, true, false),
        (TRACEPARENT, unsampled.as_str(), false, true),
        (TRACEPARENT, "nonsense", false, false),
    ] {
        let mut lab = traced();
        lab.claim("web", json!({}));
        lab.edit(&claim_ref("web"), &json!({ "metadata": { "annotations": { name: text } } }));
        lab.address("192.0.2.1", json!({}));
        let spans = spans(&mut lab);
        let [bind, root] = &spans[..] else { panic!("{spans:?}") };
        let user = Context::parse(text);
        assert_eq!(root.parent, user.filter(|_| parent).map(|user| user.span), "{name} {text}");
        assert_eq!(root.link, user.filter(|_| link));
        assert_eq!(bind.parent, Some(root.context.span));
        lab.rest();
        assert_eq!(lab.get(&claim_ref("web"))["metadata"]["annotations"][name], text);
    }
}
