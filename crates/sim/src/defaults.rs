//! What the API server makes of a Service by itself: defaults, what goes with a change of type, what it refuses.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

type Spec = Map<String, Value>;

/// Fills in and checks a Service about to be stored. `dual`: whether the cluster has both families.
///
/// # Errors
/// The words of a 422.
pub fn service(old: Option<&Value>, new: &mut Value, dual: bool) -> Result<(), String> {
    let was = old.and_then(|old| old.get("spec")).and_then(Value::as_object);
    let fields = new.as_object_mut().unwrap();
    let spec = fields.entry("spec").or_insert_with(|| json!({})).as_object_mut().unwrap();
    if was == Some(&*spec) {
        return Ok(());
    }
    fill_in(spec);
    if let Some(was) = was {
        drop_what_goes_with_the_type(was, spec);
    }
    families(was, spec, dual)?;
    check_ports(spec)?;
    check_type(was, spec)?;
    if spec["type"] != "LoadBalancer" {
        fields.remove("status");
    }
    Ok(())
}

/// Checks a Service whose status is about to be stored.
///
/// # Errors
/// The words of a 422.
pub fn service_status(new: &Value) -> Result<(), String> {
    let ingress = new["status"]["loadBalancer"]["ingress"].as_array();
    let Some(ingress) = ingress.filter(|ingress| !ingress.is_empty()) else { return Ok(()) };
    if new["spec"]["type"] != "LoadBalancer" {
        return Err("status.loadBalancer.ingress: may only be used when type is LoadBalancer".to_owned());
    }
    let mut texts = ingress.iter().filter_map(|entry| entry["ip"].as_str());
    match texts.find(|text| text.parse::<IpAddr>().is_err()) {
        Some(text) => Err(format!("status.loadBalancer.ingress: {text} must be a valid IP address")),
        None => Ok(()),
    }
}

/// Whether it is reached from outside of the cluster.
fn is_accessible(spec: &Spec) -> bool {
    let names_ips = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    spec["type"] == "LoadBalancer" || spec["type"] == "NodePort" || names_ips
}

fn fill_in(spec: &mut Spec) {
    spec.entry("type").or_insert(json!("ClusterIP"));
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let port = port.as_object_mut().unwrap();
        port.entry("protocol").or_insert(json!("TCP"));
        let number = port["port"].clone();
        port.entry("targetPort").or_insert(number);
    }
    for name in ["selector", "externalIPs"] {
        let is_empty = |value: &Value| *value == json!({}) || *value == json!([]);
        if spec.get(name).is_some_and(is_empty) {
            spec.remove(name);
        }
    }
    if is_accessible(spec) {
        spec.entry("externalTrafficPolicy").or_insert(json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        spec.entry("allocateLoadBalancerNodePorts").or_insert(json!(true));
    }
}

/// What came with the old type, and was not changed in the same write.
fn drop_what_goes_with_the_type(was: &Spec, spec: &mut Spec) {
    let mut goes = Vec::new();
    if was["type"] == "LoadBalancer" && spec["type"] != "LoadBalancer" {
        goes.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if is_accessible(was) && !is_accessible(spec) {
        goes.push("externalTrafficPolicy");
    }
    for name in goes {
        if was.get(name) == spec.get(name) {
            spec.remove(name);
        }
    }
}

fn families(was: Option<&Spec>, spec: &mut Spec, dual: bool) -> Result<(), String> {
    let old = |name: &str| was.and_then(|was| was.get(name)).cloned();
    if !spec.contains_key("ipFamilyPolicy") {
        spec.insert("ipFamilyPolicy".into(), old("ipFamilyPolicy").unwrap_or(json!("SingleStack")));
    }
    let policy = spec["ipFamilyPolicy"].as_str().unwrap_or_default().to_owned();
    if !["SingleStack", "PreferDualStack", "RequireDualStack"].contains(&policy.as_str()) {
        return Err(format!("spec.ipFamilyPolicy: {policy} is not supported"));
    }
    let texts = |value: Option<Value>| -> Vec<String> {
        value.map(|value| serde_json::from_value(value).unwrap()).unwrap_or_default()
    };
    let before = texts(old("ipFamilies"));
    let mut families = texts(spec.get("ipFamilies").cloned());
    if families.is_empty() {
        families.clone_from(&before);
    }
    if policy == "SingleStack" && families == before {
        families.truncate(1);
    }
    check_families(&before, &families, &policy, dual)?;
    if families.is_empty() {
        families.push("IPv4".to_owned());
    }
    if policy != "SingleStack" && families.len() == 1 && dual {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.to_owned());
    }
    let cluster_ip = |family: &String| if family == "IPv4" { "10.0.0.1" } else { "fd00::1" };
    spec.insert("clusterIPs".into(), families.iter().map(cluster_ip).collect());
    spec.insert("ipFamilies".into(), json!(families));
    Ok(())
}

fn check_families(before: &[String], families: &[String], policy: &str, dual: bool) -> Result<(), String> {
    let known = |family: &String| family == "IPv4" || family == "IPv6";
    if !families.iter().all(known)
        || families.len() > 2
        || (families.len() == 2 && families[0] == families[1])
    {
        return Err(format!("spec.ipFamilies: {families:?} is not supported"));
    }
    if before.first().is_some_and(|first| families.first() != Some(first)) {
        return Err("spec.ipFamilies[0]: may not change once set".to_owned());
    }
    if policy == "SingleStack" && families.len() == 2 {
        let words = "must be RequireDualStack or PreferDualStack when multiple IP families are specified";
        return Err(format!("spec.ipFamilyPolicy: {words}"));
    }
    if policy != "SingleStack" && families.len() < before.len() {
        return Err("spec.ipFamilyPolicy: must be SingleStack to release the secondary IP family".to_owned());
    }
    if !dual && (policy == "RequireDualStack" || families.iter().any(|family| family == "IPv6")) {
        return Err("spec.ipFamilies[0]: not configured on this cluster".to_owned());
    }
    Ok(())
}

fn check_ports(spec: &Spec) -> Result<(), String> {
    let ports = spec.get("ports").and_then(Value::as_array).filter(|ports| !ports.is_empty());
    let Some(ports) = ports else { return Err("spec.ports: Required value".to_owned()) };
    for (at, port) in ports.iter().enumerate() {
        if !port["port"].as_i64().is_some_and(|number| (1..=65535).contains(&number)) {
            return Err(format!("spec.ports[{at}].port: must be between 1 and 65535"));
        }
        if ports.len() > 1 && port["name"].as_str().is_none_or(str::is_empty) {
            return Err(format!("spec.ports[{at}].name: Required value"));
        }
        let same = |other: &Value, field: &str| other[field] == port[field];
        let clash = |other: &Value| same(other, "name") || (same(other, "port") && same(other, "protocol"));
        if ports[..at].iter().any(clash) {
            return Err(format!("spec.ports[{at}]: Duplicate value"));
        }
    }
    Ok(())
}

fn check_type(was: Option<&Spec>, spec: &Spec) -> Result<(), String> {
    let kind = spec["type"].as_str().unwrap_or_default();
    if !["ClusterIP", "NodePort", "LoadBalancer"].contains(&kind) {
        return Err(format!("spec.type: {kind} is not supported"));
    }
    match spec.get("externalTrafficPolicy") {
        Some(_) if !is_accessible(spec) => {
            let words = "may only be set for externally-accessible services";
            return Err(format!("spec.externalTrafficPolicy: {words}"));
        }
        Some(policy) if policy != "Cluster" && policy != "Local" => {
            return Err(format!("spec.externalTrafficPolicy: {policy} is not supported"));
        }
        _ => {}
    }
    if kind != "LoadBalancer" {
        for name in ["loadBalancerClass", "allocateLoadBalancerNodePorts"] {
            if spec.contains_key(name) {
                return Err(format!("spec.{name}: may only be used when type is LoadBalancer"));
            }
        }
        return Ok(());
    }
    let was = was.filter(|was| was["type"] == "LoadBalancer");
    if was.is_some_and(|was| was.get("loadBalancerClass") != spec.get("loadBalancerClass")) {
        return Err("spec.loadBalancerClass: may not change once set".to_owned());
    }
    Ok(())
}
