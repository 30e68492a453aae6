//! A small cluster that is there already, for single objects to come to.

use std::sync::LazyLock;

use plan::Change;

use crate::wire;

/// The time at which everything is decided.
pub fn now() -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_800_000_000).unwrap_or_default()
}

/// A pool with a class, a claim that has its address, one that waits, the hold, and a Service that asks for it.
pub fn furniture() -> &'static [Change] {
    static FURNITURE: LazyLock<Vec<Change>> = LazyLock::new(|| {
        let objects = FURNITURE_TEXT.lines().filter(|line| !line.is_empty());
        objects.map(|line| Change::Applied(wire::object(line).expect("furniture"))).collect()
    });
    &FURNITURE
}

const FURNITURE_TEXT: &str = r#"
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenant","uid":"n1","resourceVersion":"1","labels":{"team":"a"}}}
{"apiVersion":"metallb.io/v1beta1","kind":"IPAddressPool","metadata":{"namespace":"metallb-system","name":"public","uid":"pool","resourceVersion":"2"},"spec":{"addresses":["192.0.2.0/30","2001:db8::/126"],"autoAssign":false},"status":{"availableIPv4":2,"availableIPv6":4}}
{"apiVersion":"local.sdn.cozystack.io/v1alpha1","kind":"IPAddressClass","metadata":{"name":"public","uid":"class","resourceVersion":"3","generation":1},"spec":{"provisioner":"metallb.drivers.local.sdn.cozystack.io","parameters":{"pool":"public"}}}
{"apiVersion":"local.sdn.cozystack.io/v1alpha1","kind":"IPAddressClaim","metadata":{"namespace":"tenant","name":"web","uid":"c1","resourceVersion":"4","generation":1,"creationTimestamp":"2026-11-01T00:00:00Z","annotations":{"local.sdn.cozystack.io/provisioner":"metallb.drivers.local.sdn.cozystack.io"},"finalizers":["local.sdn.cozystack.io/claim-protection"]},"spec":{"className":"public","family":"IPv4"},"status":{"phase":"Bound","className":"public","addresses":[{"name":"ip-192-0-2-1","address":"192.0.2.1"}]}}
{"apiVersion":"local.sdn.cozystack.io/v1alpha1","kind":"IPAddressClaim","metadata":{"namespace":"tenant","name":"wait","uid":"c2","resourceVersion":"5","generation":1,"creationTimestamp":"2026-11-02T00:00:00Z","annotations":{"local.sdn.cozystack.io/provisioner":"metallb.drivers.local.sdn.cozystack.io"}},"spec":{"className":"public","family":"Dual"}}
{"apiVersion":"local.sdn.cozystack.io/v1alpha1","kind":"IPAddress","metadata":{"name":"ip-192-0-2-1","uid":"a1","resourceVersion":"6","generation":1,"creationTimestamp":"2026-11-01T00:00:01Z","finalizers":["metallb.drivers.local.sdn.cozystack.io/teardown","local.sdn.cozystack.io/address-protection"]},"spec":{"className":"public","address":"192.0.2.1","reclaimPolicy":"Retain","claimRef":{"namespace":"tenant","name":"web","uid":"c1"},"source":{"fromClass":{}}},"status":{"phase":"Bound"}}
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"metallb-iad-system","name":"iad-ip-192-0-2-1","uid":"s1","resourceVersion":"7","labels":{"metallb.drivers.local.sdn.cozystack.io/placeholder":"true","metallb.drivers.local.sdn.cozystack.io/ip-address":"ip-192-0-2-1"},"annotations":{"metallb.io/loadBalancerIPs":"192.0.2.1","metallb.io/address-pool":"public","metallb.io/allow-shared-ip":"iad-00000000000000000000000000000001"}},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":65535,"protocol":"TCP","name":"placeholder"}]},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"tenant","name":"web","uid":"s2","resourceVersion":"8","annotations":{"local.sdn.cozystack.io/ip-address-claim":"web"}},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":80,"protocol":"TCP"}]}}
"#;
