//! Actions as text that people can read.

use api::wellknown::driver;
use plan::Action;
use serde_json::{Value, json};

use sim::server::encode;

/// One line an action.
pub fn line(action: &Action) -> String {
    match action {
        Action::Create { object, .. } => {
            let mut body = encode(object);
            if let Some(fields) = body.as_object_mut() {
                fields.remove("apiVersion");
                fields.remove("kind");
                let meta = fields["metadata"].as_object_mut().unwrap();
                meta.remove("name");
                meta.remove("namespace");
                if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
                    annotations.remove(driver::DESCRIPTION);
                }
            }
            format!("create {} {}", object.reference(), plain(&body))
        }
        Action::Patch { target, status, body, .. } => {
            let part = if *status { "/status" } else { "" };
            format!("patch {}{part} {}", target.reference, plain(body))
        }
        Action::Delete { target } => format!("delete {}", target.reference),
        Action::ConfirmAbsent { reference, uid } => {
            format!("confirm absent {reference}{}", if uid.is_some() { " (of that uid)" } else { "" })
        }
        Action::Trace(span) => format!("trace {}", span.name),
        Action::Emit(event) => format!("emit {} about {}: {}", event.reason, event.regarding, event.note),
    }
}

/// JSON without what differs between runs.
fn plain(value: &Value) -> String {
    let mut value = value.clone();
    redact(&mut value);
    value.to_string()
}

fn redact(value: &mut Value) {
    match value {
        Value::String(text) => {
            if text.len() == 36 && text.starts_with("iad-") {
                *value = json!("<key>");
            } else if text.starts_with("2026-") {
                *value = json!("<time>");
            } else if text.starts_with("00000000-0000-4000") {
                *value = json!("<uid>");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => fields.values_mut().for_each(redact),
        _ => {}
    }
}
