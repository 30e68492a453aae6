//! A view of a Service: what it asks of MetalLB, what it has, and what of it is ours (contract §7).

use std::collections::{BTreeMap, BTreeSet};

use api::wellknown::{CLAIM, driver, metallb};
use api::{AddressName, ClaimKey, Ip, IpError, ServiceKey};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

/// What the driver reads of a Service.
pub trait View {
    /// Namespace and name.
    fn key(&self) -> ServiceKey;
    /// The uid.
    fn object_uid(&self) -> &str;
    /// The annotation `name`.
    fn annotation(&self, name: &str) -> Option<&str>;
    /// Whether the label `name` is `"true"`.
    fn labelled(&self, name: &str) -> bool;
    /// The specification; an empty one if there is none.
    fn spec(&self) -> &ServiceSpec;
    /// Whether the Service is being deleted.
    fn is_deleting(&self) -> bool;
    /// Whether it is `type: LoadBalancer`.
    fn is_load_balancer(&self) -> bool {
        self.spec().type_.as_deref() == Some("LoadBalancer")
    }
    /// The claim it names. White space around the name is not part of it.
    fn claim(&self) -> Option<ClaimKey>;
    /// The address a placeholder holds or is to hold: by its name, which nobody can change, else by its label, else by
    /// its pin.
    fn held_address(&self) -> Option<AddressName>;
    /// The IPs its status shows.
    fn ingress(&self) -> BTreeSet<Ip>;
    /// The IPs it takes past MetalLB.
    fn external_ips(&self) -> BTreeSet<Ip>;
    /// The IPs it asks for, by either spelling of the annotation. The stable key wins, even when empty.
    ///
    /// # Errors
    /// The part that is no address: MetalLB refuses the whole pin then.
    fn pin(&self) -> Result<BTreeSet<Ip>, IpError>;
    /// The sharing key, by either spelling.
    fn sharing_key(&self) -> Option<&str>;
    /// The pool it asks for, by either spelling.
    fn pool(&self) -> Option<&str>;
    /// Whether we marked the pin as ours.
    fn is_pinned_by_us(&self) -> bool {
        self.annotation(driver::PINNED) == Some("true")
    }
    /// Whether `name` is among the finalizers.
    fn has_finalizer(&self, name: &str) -> bool;
    /// The backend shape that MetalLB compares before two Services share an IP.
    fn shape(&self) -> Shape;
    /// The ports it occupies on its IPs, as protocol and number.
    fn ports(&self) -> BTreeSet<(String, i32)>;
}

/// What two Services must have in common to share an IP, besides the key: `Cluster` shares with any
/// `Cluster`, `Local` with the same selector only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// `externalTrafficPolicy: Cluster`.
    #[default]
    Cluster,
    /// `externalTrafficPolicy: Local` with this selector.
    Local(BTreeMap<String, String>),
}

/// The prefix of the names of placeholders.
pub const PLACEHOLDER_PREFIX: &str = "iad-";

/// The prefix of the sharing keys we make: by it our key is told from a tenant's.
pub const KEY_PREFIX: &str = "iad-";

/// A sharing key of 128 random bits.
pub fn sharing_key(entropy: u128) -> String {
    format!("{KEY_PREFIX}{entropy:032x}")
}

/// Whether a sharing key was made by [`sharing_key`].
pub fn is_our_key(key: &str) -> bool {
    key.strip_prefix(KEY_PREFIX)
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

static NO_SPEC: std::sync::LazyLock<ServiceSpec> = std::sync::LazyLock::new(ServiceSpec::default);

impl View for Service {
    fn key(&self) -> ServiceKey {
        let meta = &self.metadata;
        ServiceKey::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }

    fn object_uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }

    fn labelled(&self, name: &str) -> bool {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(name)).is_some_and(|value| value == "true")
    }

    fn spec(&self) -> &ServiceSpec {
        self.spec.as_ref().unwrap_or(&NO_SPEC)
    }

    fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn claim(&self) -> Option<ClaimKey> {
        let name = self.annotation(CLAIM)?.trim();
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        (!name.is_empty()).then(|| ClaimKey::new(namespace, name))
    }

    fn held_address(&self) -> Option<AddressName> {
        let name = self.metadata.name.as_deref().and_then(address_in_name).map(AddressName::new);
        let label = self.metadata.labels.as_ref().and_then(|labels| labels.get(driver::IP_ADDRESS));
        name.or_else(|| label.map(AddressName::new)).or_else(|| Some(self.pin().ok()?.first()?.object_name()))
    }

    fn ingress(&self) -> BTreeSet<Ip> {
        let status = self.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let ingress = status.and_then(|status| status.ingress.as_ref());
        ingress
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ip.as_deref().and_then(|ip| Ip::lenient(ip).ok()))
            .collect()
    }

    fn external_ips(&self) -> BTreeSet<Ip> {
        let texts = View::spec(self).external_ips.iter().flatten();
        texts.filter_map(|text| Ip::lenient(text).ok()).collect()
    }

    fn pin(&self) -> Result<BTreeSet<Ip>, IpError> {
        match either(self, metallb::PIN, metallb::PIN_OLD) {
            None | Some("") => Ok(BTreeSet::new()),
            Some(text) => text.split(',').map(Ip::lenient).collect(),
        }
    }

    fn sharing_key(&self) -> Option<&str> {
        either(self, metallb::SHARE, metallb::SHARE_OLD).filter(|key| !key.is_empty())
    }

    fn pool(&self) -> Option<&str> {
        either(self, metallb::POOL, metallb::POOL_OLD).filter(|pool| !pool.is_empty())
    }

    fn has_finalizer(&self, name: &str) -> bool {
        self.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == name)
    }

    fn shape(&self) -> Shape {
        if View::spec(self).external_traffic_policy.as_deref() == Some("Local") {
            Shape::Local(View::spec(self).selector.clone().unwrap_or_default())
        } else {
            Shape::Cluster
        }
    }

    fn ports(&self) -> BTreeSet<(String, i32)> {
        let protocol = |port: &ServicePort| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        View::spec(self).ports.iter().flatten().map(|port| (protocol(port), port.port)).collect()
    }
}

/// The address in the name of a hold placeholder; none in that of an allocation placeholder, which has the claim's uid.
pub fn address_in_name(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(PLACEHOLDER_PREFIX)?;
    let uid = rest.strip_suffix("-v4").or_else(|| rest.strip_suffix("-v6")).unwrap_or_default();
    let is_uid = uid.len() == 36 && uid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    (!is_uid).then_some(rest)
}

fn either<'a>(service: &'a Service, stable: &str, old: &str) -> Option<&'a str> {
    service.annotation(stable).or_else(|| service.annotation(old))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn service(annotations: serde_json::Value) -> Service {
        serde_json::from_value(
            json!({"metadata": {"namespace": "tenant-a", "name": "web", "annotations": annotations}}),
        )
        .unwrap()
    }

    #[rstest]
    #[case::a1_spelling(json!({metallb::PIN: " 192.0.2.11 , 2001:DB8:0:0:0:0:0:000B\n"}), Some("192.0.2.11 2001:db8::b"))]
    #[case::a1_trailing_comma(json!({metallb::PIN: "192.0.2.13,"}), None)]
    #[case::a1_range(json!({metallb::PIN: "192.0.2.8-192.0.2.9"}), None)]
    #[case::a1_cidr(json!({metallb::PIN: "192.0.2.14/32"}), None)]
    #[case::a1_zeros(json!({metallb::PIN: "192.000.002.012"}), None)]
    #[case::a2_mapped(json!({metallb::PIN: "::ffff:192.0.2.10"}), Some("192.0.2.10"))]
    #[case::c3_old_prefix(json!({metallb::PIN_OLD: "192.0.2.9"}), Some("192.0.2.9"))]
    #[case::c3_stable_wins(json!({metallb::PIN: "192.0.2.8", metallb::PIN_OLD: "192.0.2.9"}), Some("192.0.2.8"))]
    #[case::c3_stable_wins_empty(json!({metallb::PIN: "", metallb::PIN_OLD: "192.0.2.9"}), Some(""))]
    fn pins(#[case] annotations: serde_json::Value, #[case] expected: Option<&str>) {
        let pin = service(annotations).pin();
        let text = pin.map(|ips| ips.iter().map(Ip::to_string).collect::<Vec<_>>().join(" "));
        assert_eq!(text.ok().as_deref(), expected);
    }

    #[test]
    fn a1_the_claim_name_is_trimmed() {
        let claim = service(json!({ CLAIM: " web-ip\n" })).claim();
        assert_eq!(claim, Some(ClaimKey::new("tenant-a", "web-ip")));
    }

    #[rstest]
    #[case::c10_hold("iad-ip-192-0-2-7", Some("ip-192-0-2-7"))]
    #[case::c10_hold_of_a_static_address("iad-by-hand", Some("by-hand"))]
    #[case::c10_allocation("iad-0b5ad9a0-8f5c-4c8e-9a3b-2f1d54a3c0de-v4", None)]
    #[case::c10_somebody_elses("web", None)]
    fn names_of_placeholders(#[case] name: &str, #[case] address: Option<&str>) {
        assert_eq!(address_in_name(name), address);
    }

    #[test]
    fn g2_keys_are_random_and_recognised() {
        assert!(is_our_key(&sharing_key(7)));
        assert!(is_our_key(&sharing_key(u128::MAX)));
        assert!(!is_our_key("iad-7"));
        assert!(!is_our_key("tenants-key"));
    }
}
