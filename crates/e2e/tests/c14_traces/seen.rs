//! What a real Jaeger has of the traces of one stage, held against the trees that docs/tracing.md draws.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use api::wellknown::TRACEPARENT;
use devcluster::{Controller, Jaeger, workspace};
use kube::ResourceExt;
use serde_json::Value;

use crate::rig::{self, Stage};

/// Trees, by what stands above them in docs/tracing.md.
pub const RESERVED: &str = "A claim gets an address that did not exist";
pub const ASSOCIATED: &str = "A Service gets the address";
pub const DISASSOCIATED: &str = "A Service gives it back";
pub const LOST_BY_SERVICE: &str = "A Service loses it";
pub const RECLAIMED: &str = "A claim is deleted";
pub const CONFLICT: &str = "An address was in `Conflict`";

/// A span as Jaeger has it; times in microseconds.
#[derive(Debug)]
pub struct Span {
    pub name: String,
    pub service: String,
    pub id: String,
    pub parent: Option<String>,
    /// The traces that it is linked to.
    pub links: Vec<String>,
    pub start: i64,
    pub end: i64,
    pub tags: BTreeMap<String, Value>,
}

impl Span {
    fn read(span: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let references = |kind: &'static str, field: &'static str| {
            let all = span["references"].as_array().into_iter().flatten();
            all.filter(move |reference| reference["refType"] == kind).map(move |one| text(&one[field]))
        };
        let start = span["startTime"].as_i64().unwrap();
        let tags = span["tags"].as_array().into_iter().flatten();
        Self {
            name: text(&span["operationName"]),
            service: text(&span["process"]["serviceName"]),
            id: text(&span["spanID"]),
            parent: references("CHILD_OF", "spanID").next(),
            links: references("FOLLOWS_FROM", "traceID").collect(),
            start,
            end: start + span["duration"].as_i64().unwrap(),
            tags: tags.map(|tag| (text(&tag["key"]), tag["value"].clone())).collect(),
        }
    }
}

/// The spans of a trace, in the order in which they begin.
pub async fn spans(jaeger: &Jaeger, trace: &str) -> Vec<Span> {
    let mut spans: Vec<_> = jaeger.spans(trace).await.unwrap().iter().map(Span::read).collect();
    spans.sort_by_key(|span| (span.start, span.end));
    spans
}

/// As docs/tracing.md draws it. A root is what has no parent in the trace.
pub fn tree(spans: &[Span]) -> String {
    let mut text = String::new();
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.id).collect();
    let is_root = |span: &&Span| span.parent.as_ref().is_none_or(|parent| !ids.contains(parent));
    let (roots, below): (Vec<_>, Vec<_>) = spans.iter().partition(is_root);
    for root in roots {
        writeln!(text, "{} {}", root.service, root.name).unwrap();
        for span in below.iter().filter(|span| span.parent.as_ref() == Some(&root.id)) {
            writeln!(text, "  {} {}", span.service, span.name).unwrap();
        }
    }
    text
}

/// The tree that docs/tracing.md draws below these words.
pub fn drawn(above: &str) -> String {
    let text = std::fs::read_to_string(workspace().join("docs/tracing.md")).unwrap();
    let below = text.split_once(&format!("\n{above}")).and_then(|(_, rest)| rest.split_once("```text\n"));
    below.and_then(|(_, tree)| tree.split_once("```")).unwrap().0.to_owned()
}

/// A tree whose last two lines come the other way round.
fn last_two_swapped(tree: &str) -> String {
    let mut lines: Vec<_> = tree.lines().collect();
    let count = lines.len();
    lines.swap(count - 1, count - 2);
    lines.join("\n") + "\n"
}

/// The trace that a claim's annotation names.
pub async fn trace_of_claim(stage: &Stage, claim: &str) -> String {
    let claim = stage.claims().get(claim).await.unwrap();
    claim.annotations()[TRACEPARENT].split('-').nth(1).unwrap().to_owned()
}

/// The traces of a stage that were seen, by id, with what was drawn of each.
pub struct Seen<'a> {
    jaeger: &'a Jaeger,
    stage: &'a Stage,
    traces: BTreeMap<String, String>,
}

impl<'a> Seen<'a> {
    pub fn none(jaeger: &'a Jaeger, stage: &'a Stage) -> Self {
        Self { jaeger, stage, traces: BTreeMap::new() }
    }

    /// Waits until Jaeger has as many spans of the trace as are drawn, and they are as drawn, each with the attributes
    /// that all have; returns the root.
    pub async fn as_drawn(&mut self, trace: &str, above: &str, claim: &str) -> Span {
        self.seen(trace, above, claim, false).await
    }

    /// The same where two processes write last, and either may be the first of them.
    pub async fn as_drawn_but_for_the_last_two(&mut self, trace: &str, above: &str, claim: &str) -> Span {
        self.seen(trace, above, claim, true).await
    }

    async fn seen(&mut self, trace: &str, above: &str, claim: &str, either: bool) -> Span {
        let drawn = drawn(above);
        let what = format!("{} spans of {trace}: {above}", drawn.lines().count());
        let mut spans = rig::eventually(&what, async || {
            let spans = spans(self.jaeger, trace).await;
            (spans.len() >= drawn.lines().count()).then_some(spans)
        })
        .await;
        let tree = tree(&spans);
        assert!(
            tree == drawn || (either && tree == last_two_swapped(&drawn)),
            "{tree}\nand not\n{drawn}: {spans:#?}"
        );
        let name = &self.stage.name;
        for (tag, value) in
            [("k8s.namespace.name", name.as_str()), ("ipam.claim", claim), ("ipam.class", name)]
        {
            let without: Vec<_> =
                spans.iter().filter(|span| span.tags.get(tag).is_none_or(|it| it != value)).collect();
            assert!(without.is_empty(), "not of {tag}={value}: {without:#?}");
        }
        self.traces.insert(trace.to_owned(), drawn);
        let root = spans.iter().position(|span| span.parent.is_none()).unwrap();
        spans.swap_remove(root)
    }

    /// Nothing came later to the traces that were seen, and the stage has no other. Spans are handed over in the order in
    /// which they end: when those of a further reservation, of both controllers, have come, all before them have.
    pub async fn and_no_more(mut self) {
        self.stage.claim("last").await;
        self.stage.bound("last").await;
        let last = trace_of_claim(self.stage, "last").await;
        self.as_drawn(&last, RESERVED, "last").await;
        for (trace, drawn) in &self.traces {
            let spans = spans(self.jaeger, trace).await;
            assert_eq!(tree(&spans), *drawn, "{spans:#?}");
        }
        let mut found = BTreeSet::new();
        for controller in [Controller::Core, Controller::Driver] {
            let tag = ("k8s.namespace.name", self.stage.name.as_str());
            found.extend(self.jaeger.traces(controller.name(), tag).await.unwrap());
        }
        assert_eq!(found, self.traces.into_keys().collect());
    }
}
