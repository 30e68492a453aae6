//! Changes of hands.

use api::address::{HandoffDirection, HandoffMode};
use serde::Serialize;

use super::{Eye, Named, When, words};
use crate::world::{AddressRow, HandoffRow};

/// A change of hands.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HandoffView {
    /// The address.
    pub address: String,
    /// The name of its object.
    pub name: String,
    /// Who had it before: a Service, or nobody but the hold.
    pub from: Option<Named>,
    /// Who has it after: a Service, or nobody but the hold.
    pub to: Option<Named>,
    /// `Overlap` or `Gap`.
    pub mode: &'static str,
    /// When it began.
    pub started: When,
    /// When it was done; none while under way.
    pub finished: Option<When>,
    /// How long nobody had the address.
    pub unheld_milliseconds: Option<i64>,
    /// The same in words.
    #[serde(skip)]
    pub unheld: String,
    /// Its trace.
    pub trace_id: Option<String>,
    /// Where the trace can be looked at.
    pub trace_url: Option<String>,
}

impl Eye<'_> {
    /// A change of hands, if the visitor may see both sides of it.
    pub fn handoff(&self, row: &AddressRow, handoff: &HandoffRow) -> Option<HandoffView> {
        let (service, hold) = match handoff.direction {
            HandoffDirection::Associate => (&handoff.to, &handoff.from),
            HandoffDirection::Disassociate => (&handoff.from, &handoff.to),
        };
        let service = self.named_text(service)?;
        // The other side is a placeholder, or the Service that had it before or comes next.
        let other = self.other_side(hold)?;
        let (from, to) = match handoff.direction {
            HandoffDirection::Associate => (other, Some(service)),
            HandoffDirection::Disassociate => (Some(service), other),
        };
        Some(HandoffView {
            address: row.text.to_string(),
            name: row.name.to_string(),
            from,
            to,
            mode: match handoff.mode {
                HandoffMode::Overlap => "Overlap",
                HandoffMode::Gap => "Gap",
            },
            started: self.when(handoff.started),
            finished: handoff.finished.map(|at| self.when(at)),
            unheld_milliseconds: handoff.unheld_ms,
            unheld: unheld(handoff),
            trace_id: handoff.trace.as_ref().map(ToString::to_string),
            trace_url: handoff.trace.as_ref().and_then(|trace| self.trace(trace)),
        })
    }

    fn named_text(&self, text: &str) -> Option<Named> {
        let (namespace, name) = text.split_once('/')?;
        let named = || Named { namespace: namespace.to_owned(), name: name.to_owned() };
        self.scope.sees(namespace).then(named)
    }

    /// `Some(None)` for a placeholder, `None` for what the visitor may not see.
    fn other_side(&self, text: &str) -> Option<Option<Named>> {
        let name = text.split_once('/').map_or(text, |(_, name)| name);
        let namespace = text.split_once('/').map_or("", |(namespace, _)| namespace);
        if text.is_empty() || (self.world.is_placeholder_namespace(namespace) && name.starts_with("iad-")) {
            return Some(None);
        }
        self.named_text(text).map(Some)
    }
}

fn unheld(handoff: &HandoffRow) -> String {
    match (handoff.finished, handoff.mode, handoff.unheld_ms) {
        (None, _, _) => "under way".to_owned(),
        (_, HandoffMode::Overlap, _) => "shared, never unheld".to_owned(),
        (_, HandoffMode::Gap, Some(ms)) => format!("gap, unheld {}", words::took(ms)),
        (_, HandoffMode::Gap, None) => "gap".to_owned(),
    }
}
