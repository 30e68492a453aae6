//! What the API server makes of our own kinds and of pools by their schemas: defaults, rules, what may change.

use api::Ip;
use plan::Kind;
use serde_json::{Value, json};

use crate::server::try_decode;

/// Fills in and checks an object about to be stored.
///
/// # Errors
/// The words of a 422.
pub fn check(kind: Kind, old: Option<&Value>, new: &mut Value) -> Result<(), String> {
    fill_in(kind, new);
    let unchanged = |name: &str| old.is_some_and(|old| old.get(name) == new.get(name));
    if unchanged("spec") && unchanged("status") {
        return Ok(());
    }
    try_decode(kind, new)?;
    let was = old.map_or(&Value::Null, |old| &old["spec"]);
    match kind {
        Kind::Class => class(was, &new["spec"]),
        Kind::Address => address(was, &new["spec"]),
        Kind::Claim => claim(old, was, &new["spec"]),
        _ => Ok(()),
    }
}

fn fill_in(kind: Kind, new: &mut Value) {
    let defaults = match kind {
        Kind::Class | Kind::Address => json!({ "reclaimPolicy": "Retain" }),
        Kind::Claim => json!({ "family": "IPv4" }),
        Kind::Pool => json!({ "autoAssign": true, "avoidBuggyIPs": false }),
        _ => return,
    };
    let (Some(spec), Value::Object(defaults)) = (new["spec"].as_object_mut(), defaults) else { return };
    for (name, value) in defaults {
        spec.entry(name).or_insert(value);
    }
}

fn class(was: &Value, spec: &Value) -> Result<(), String> {
    not_empty(spec, "provisioner")?;
    if !was.is_null() && was["provisioner"] != spec["provisioner"] {
        return Err("spec.provisioner cannot be changed; create another class".to_owned());
    }
    Ok(())
}

fn address(was: &Value, spec: &Value) -> Result<(), String> {
    let text = spec["address"].as_str().unwrap_or_default();
    if Ip::canonical(text).is_err() {
        return Err("spec.address must be one IP address in canonical form".to_owned());
    }
    if !was.is_null() && was["address"] != spec["address"] {
        return Err("spec.address cannot be changed; create another IPAddress".to_owned());
    }
    let source = |name: &str| spec["source"].get(name).is_some();
    if source("fromClass") == source("providerRef") {
        return Err("spec.source must have exactly one of fromClass and providerRef".to_owned());
    }
    not_empty(&spec["claimRef"], "namespace")?;
    not_empty(&spec["claimRef"], "name")
}

fn claim(old: Option<&Value>, was: &Value, spec: &Value) -> Result<(), String> {
    not_empty(spec, "className")?;
    not_empty(spec, "addressName")?;
    if spec.get("addressName").is_some() && spec["family"] == "Dual" {
        return Err("spec.addressName names one address and cannot be used with family Dual".to_owned());
    }
    if was.get("addressName").is_some_and(|name| spec["addressName"] != *name) {
        return Err("spec.addressName cannot be changed once set; create another claim".to_owned());
    }
    if !was.is_null() && was["family"] != spec["family"] && spec["family"] != "Dual" {
        return Err("spec.family can only be widened to Dual; create another claim".to_owned());
    }
    let phase = old.map_or(&Value::Null, |old| &old["status"]["phase"]);
    if !phase.is_null() && phase != "Pending" && was["className"] != spec["className"] {
        return Err("spec.className cannot be changed once the claim is bound".to_owned());
    }
    Ok(())
}

fn not_empty(fields: &Value, name: &str) -> Result<(), String> {
    match fields[name].as_str() {
        Some("") => Err(format!("{name}: should be at least 1 chars long")),
        _ => Ok(()),
    }
}
