//! What the API server makes of a Service by itself: defaults, and what goes with a change of type.

use serde_json::{Value, json};

/// Fills in and checks a Service about to be stored.
///
/// # Errors
/// The words of a 422.
pub fn service(old: Option<&Value>, new: &mut Value) -> Result<(), String> {
    let fields = new.as_object_mut().unwrap();
    let spec = fields.entry("spec").or_insert_with(|| json!({})).as_object_mut().unwrap();
    spec.entry("type").or_insert(json!("ClusterIP"));
    spec.entry("ipFamilies").or_insert(json!(["IPv4"]));
    spec.entry("ipFamilyPolicy").or_insert(json!("SingleStack"));
    let families = spec["ipFamilies"].as_array().unwrap().len();
    let cluster_ips: Vec<_> = ["10.0.0.1", "fd00::1"].into_iter().take(families).collect();
    spec.insert("clusterIPs".into(), json!(cluster_ips));
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    let Some(ports) = ports.filter(|ports| !ports.is_empty()) else {
        return Err("spec.ports: Required value".to_owned());
    };
    for port in ports {
        let port = port.as_object_mut().unwrap();
        port.entry("protocol").or_insert(json!("TCP"));
    }
    if spec.get("selector").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
        spec.remove("selector");
    }
    let was = old.map(|old| &old["spec"]);
    if spec["type"] == "LoadBalancer" {
        spec.entry("externalTrafficPolicy").or_insert(json!("Cluster"));
        let class = |spec: Option<&Value>| spec.and_then(|spec| spec.get("loadBalancerClass")).cloned();
        let was_one = was.is_some_and(|was| was["type"] == "LoadBalancer");
        if was_one && class(was) != spec.get("loadBalancerClass").cloned() {
            return Err("spec.loadBalancerClass: may not change once set".to_owned());
        }
        return Ok(());
    }
    for name in ["externalTrafficPolicy", "loadBalancerClass", "allocateLoadBalancerNodePorts"] {
        let unchanged = was.is_some_and(|was| was.get(name) == spec.get(name));
        if spec.contains_key(name) && !unchanged {
            return Err(format!("spec.{name}: may only be used when type is LoadBalancer"));
        }
        spec.remove(name);
    }
    fields.remove("status");
    Ok(())
}
