//! A view of MetalLB's `IPAddressPool` (contract §7, §8), by the semantics of MetalLB v0.15.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use api::{Family, Ip, range};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::DynamicObject;
use serde::Deserialize;

/// What the driver needs to know of a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    ranges: Vec<(IpAddr, IpAddr)>,
    /// The first entry of `spec.addresses` that is no range. MetalLB then keeps every pool as it was.
    pub unreadable: Option<String>,
    /// Whether MetalLB gives addresses of this pool to Services that ask for none; absent means it does.
    pub auto_assign: bool,
    avoid_buggy_ips: bool,
    allocation: Option<Allocation>,
    /// How many namespaces there are that its `namespaceSelectors` fit.
    fitting: usize,
    /// How many of its addresses Services show, IPv4 and IPv6.
    shown: [usize; 2],
    status: Option<Status>,
}

/// `spec.serviceAllocation`: whom the pool serves.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Allocation {
    namespaces: Vec<String>,
    namespace_selectors: Vec<LabelSelector>,
    service_selectors: Vec<LabelSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    addresses: Vec<String>,
    auto_assign: Option<bool>,
    #[serde(rename = "avoidBuggyIPs")]
    avoid_buggy_ips: bool,
    service_allocation: Option<Allocation>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Status {
    #[serde(rename = "availableIPv4", default)]
    available_v4: i64,
    #[serde(rename = "availableIPv6", default)]
    available_v6: i64,
}

/// Where the counters of a family stand.
fn slot(family: Family) -> usize {
    usize::from(family == Family::IPv6)
}

/// Of which namespaces a pool's verdict may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relabelled {
    /// Of none.
    Nothing,
    /// Of the one that was relabelled.
    One,
    /// Of all: the pool restricts namespaces now and did not before, or the other way round.
    All,
}

impl Pool {
    /// Reads a pool, which knows of no namespace yet: see [`Pool::among`]. What cannot be read counts as absent: MetalLB itself refuses such a pool.
    pub fn of(object: &DynamicObject) -> Self {
        let spec: Spec = object
            .data
            .get("spec")
            .and_then(|spec| serde_json::from_value(spec.clone()).ok())
            .unwrap_or_default();
        let status = object.data.get("status").and_then(|status| serde_json::from_value(status.clone()).ok());
        Self {
            ranges: spec.addresses.iter().filter_map(|text| range(text)).collect(),
            unreadable: spec.addresses.iter().find(|text| range(text).is_none()).cloned(),
            auto_assign: spec.auto_assign.unwrap_or(true),
            avoid_buggy_ips: spec.avoid_buggy_ips,
            allocation: spec.service_allocation,
            fitting: 0,
            shown: [0; 2],
            status,
        }
    }

    /// Tells the pool the labels of every namespace there is.
    #[must_use]
    pub fn among(mut self, namespaces: impl Iterator<Item: Borrow<BTreeMap<String, String>>>) -> Self {
        // Most pools restrict nobody: then nothing is walked.
        if self.selects_namespaces() {
            self.fitting = namespaces.filter(|labels| self.fits(labels.borrow())).count();
        }
        self
    }

    /// Tells the pool that the labels of one namespace changed; absent ones are of one that is not there. Says whether
    /// the pool's verdict on this namespace may be another now, and whether that on every other one.
    pub fn relabelled(
        &mut self,
        old: Option<&BTreeMap<String, String>>,
        new: Option<&BTreeMap<String, String>>,
    ) -> Relabelled {
        let (before, after) =
            (old.is_some_and(|labels| self.fits(labels)), new.is_some_and(|labels| self.fits(labels)));
        if before == after {
            return Relabelled::Nothing;
        }
        let restricted = self.restricts_namespaces();
        self.fitting = self.fitting + usize::from(after) - usize::from(before);
        if self.restricts_namespaces() == restricted { Relabelled::One } else { Relabelled::All }
    }

    fn selects_namespaces(&self) -> bool {
        self.allocation.as_ref().is_some_and(|allocation| !allocation.namespace_selectors.is_empty())
    }

    fn fits(&self, namespace_labels: &BTreeMap<String, String>) -> bool {
        let selectors = self.allocation.iter().flat_map(|allocation| &allocation.namespace_selectors);
        selectors.into_iter().any(|selector| matches(selector, namespace_labels))
    }

    /// MetalLB makes one set of the namespaces that are named and those that are selected; when it comes out empty,
    /// because no namespace fits, it restricts nobody.
    fn restricts_namespaces(&self) -> bool {
        self.fitting > 0
            || self.allocation.as_ref().is_some_and(|allocation| !allocation.namespaces.is_empty())
    }

    /// Whether MetalLB would assign this IP from the pool: `avoidBuggyIPs` excludes `.0` and `.255`.
    pub fn contains(&self, ip: Ip) -> bool {
        if self.avoid_buggy_ips
            && let IpAddr::V4(v4) = ip.addr()
            && matches!(v4.octets()[3], 0 | 255)
        {
            return false;
        }
        self.ranges.iter().any(|(first, last)| {
            first.is_ipv4() == ip.addr().is_ipv4() && *first <= ip.addr() && ip.addr() <= *last
        })
    }

    /// The pool's ranges, first and last address of each, for look-ups in sorted keys. A range may hold addresses that
    /// [`contains`](Self::contains) excludes.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::RangeInclusive<Ip>> {
        self.ranges.iter().map(|(first, last)| Ip::from(*first)..=Ip::from(*last))
    }

    /// How many addresses of this family MetalLB says are free; `None` when it does not say.
    pub fn available(&self, family: Family) -> Option<usize> {
        let status = self.status.as_ref()?;
        let count = match family {
            Family::IPv4 => status.available_v4,
            Family::IPv6 => status.available_v6,
        };
        Some(usize::try_from(count).unwrap_or(0))
    }

    /// How many addresses of this family MetalLB can give out; `None` when it does not say.
    ///
    /// Whenever MetalLB looks at a Service again it takes the IP off its books and puts it back, and when it starts its
    /// books are empty: its counters may show either. So an address that a Service shows is never counted as free.
    pub fn room(&self, family: Family) -> Option<usize> {
        let left = self.size(family).saturating_sub(self.shown[slot(family)]);
        Some(self.available(family)?.min(left))
    }

    /// Tells the pool which of its addresses Services show; `before` is the same pool, if it was known.
    #[must_use]
    pub fn showing(mut self, before: Option<&Self>, shown: impl Iterator<Item = Ip>) -> Self {
        if let Some(before) = before.filter(|before| before.same_spec(&self)) {
            self.shown = before.shown;
        } else {
            shown.for_each(|ip| self.shown[slot(ip.family())] += 1);
        }
        self
    }

    /// Tells the pool that an IP is now shown by a Service, or by none any more.
    pub fn shows(&mut self, ip: Ip, present: bool) {
        if self.contains(ip) {
            let count = &mut self.shown[slot(ip.family())];
            *count = if present { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    /// How many addresses of this family there are, as far as a `usize` can tell.
    fn size(&self, family: Family) -> usize {
        usize::try_from(self.addresses(family)).unwrap_or(usize::MAX)
    }

    /// How many addresses of this family there are.
    pub fn addresses(&self, family: Family) -> u128 {
        let sizes = self.ranges.iter().map(|range| match (family, *range) {
            (Family::IPv4, (IpAddr::V4(first), IpAddr::V4(last))) => {
                let (first, last) = (u64::from(first.to_bits()), u64::from(last.to_bits()));
                let up_to =
                    |end: u64| if self.avoid_buggy_ips { end - end.div_ceil(256) - end / 256 } else { end };
                u128::from(up_to(last + 1) - up_to(first))
            }
            (Family::IPv6, (IpAddr::V6(first), IpAddr::V6(last))) => {
                (last.to_bits() - first.to_bits()).saturating_add(1)
            }
            _ => 0,
        });
        sizes.fold(0, u128::saturating_add)
    }

    /// Whether anything but the counters differs.
    pub fn same_spec(&self, other: &Self) -> bool {
        let bare = |pool: &Self| Self { status: None, shown: [0; 2], ..pool.clone() };
        bare(self) == bare(other)
    }

    /// Whether the pool's `serviceAllocation` admits a Service of that namespace with those labels, as MetalLB does it.
    ///
    /// # Errors
    /// The words that say why not, to be followed by the namespace.
    pub fn admits(
        &self,
        namespace: &str,
        namespace_labels: &BTreeMap<String, String>,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), &'static str> {
        let Some(allocation) = &self.allocation else { return Ok(()) };
        let admitted =
            allocation.namespaces.iter().any(|name| name == namespace) || self.fits(namespace_labels);
        if self.restricts_namespaces() && !admitted {
            return Err("its serviceAllocation does not admit Services");
        }
        let selectors = &allocation.service_selectors;
        if !selectors.is_empty() && !selectors.iter().any(|selector| matches(selector, labels)) {
            return Err("its serviceAllocation has no serviceSelector for such a Service");
        }
        Ok(())
    }
}

/// A label selector, as Kubernetes defines it; one that cannot be understood matches nothing.
fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|expression| {
            let value = labels.get(&expression.key);
            let values = expression.values.as_deref().unwrap_or_default();
            let listed = value.is_some_and(|value| values.contains(value));
            match expression.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pool(spec: serde_json::Value) -> Pool {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool"));
        let mut object = DynamicObject::new("reserved", &kind);
        object.data = json!({ "spec": spec, "status": {"availableIPv4": 3, "availableIPv6": 0} });
        Pool::of(&object)
    }

    #[rstest]
    #[case("192.0.2.0/30", "192.0.2.3", true)]
    #[case("192.0.2.0/30", "192.0.2.4", false)]
    #[case("192.0.2.2-192.0.2.7", "192.0.2.7", true)]
    #[case(" 192.0.2.2 - 192.0.2.7 ", "192.0.2.1", false)]
    #[case("192.0.2.9/29", "192.0.2.8", true)]
    #[case("192.0.2.9/29", "192.0.2.15", true)]
    #[case("192.0.2.9/29", "192.0.2.16", false)]
    #[case("::ffff:192.0.2.0/126", "192.0.2.3", true)]
    #[case("::ffff:192.0.2.0/126", "192.0.2.4", false)]
    #[case("::ffff:192.0.2.2-192.0.2.7", "192.0.2.7", true)]
    #[case("::/80", "192.0.2.1", false)]
    #[case("::/80", "::1", true)]
    #[case("2001:db8::/64", "2001:db8::7", true)]
    #[case("2001:DB8::1-2001:db8::9", "2001:db8::a", false)]
    #[case("2001:db8::/64", "192.0.2.1", false)]
    #[case("nonsense", "192.0.2.1", false)]
    fn contains(#[case] range: &str, #[case] ip: &str, #[case] expected: bool) {
        assert_eq!(pool(json!({"addresses": [range]})).contains(ip.parse().unwrap()), expected);
    }

    #[rstest]
    #[case(&["192.0.2.0/30"], false, Family::IPv4, 4)]
    #[case(&["192.0.2.3-192.0.2.7", "198.51.100.0/24"], false, Family::IPv4, 261)]
    #[case(&["192.0.2.0/24"], true, Family::IPv4, 254)]
    #[case(&["192.0.2.1-192.0.2.254"], true, Family::IPv4, 254)]
    #[case(&["192.0.2.255-192.0.3.0"], true, Family::IPv4, 0)]
    #[case(&["0.0.0.0/0"], false, Family::IPv4, 1 << 32)]
    #[case(&["2001:db8::1-2001:db8::9"], true, Family::IPv6, 9)]
    #[case(&["::/0"], false, Family::IPv6, usize::MAX)]
    #[case(&["192.0.2.0/30"], false, Family::IPv6, 0)]
    fn size(#[case] ranges: &[&str], #[case] avoid: bool, #[case] family: Family, #[case] expected: usize) {
        let pool = pool(json!({"addresses": ranges, "avoidBuggyIPs": avoid}));
        assert_eq!(pool.size(family), expected);
    }

    #[test]
    fn j1_an_address_that_a_service_shows_is_never_free() {
        let shown = |ip: &str| ip.parse::<Ip>().unwrap();
        let mut pool = pool(json!({"addresses": ["192.0.2.0/30"]}));
        assert_eq!(pool.room(Family::IPv4), Some(3));
        pool = pool.showing(None, ["192.0.2.0", "192.0.2.1"].map(shown).into_iter());
        pool.shows(shown("192.0.2.2"), true);
        pool.shows(shown("192.0.2.9"), true);
        assert_eq!(pool.room(Family::IPv4), Some(1));
        pool.shows(shown("192.0.2.0"), false);
        assert_eq!(pool.room(Family::IPv4), Some(2));
        assert_eq!(pool.clone().showing(Some(&pool), std::iter::empty()).room(Family::IPv4), Some(2));
    }

    #[rstest]
    #[case(true, "192.0.2.0", false)]
    #[case(true, "192.0.2.255", false)]
    #[case(true, "192.0.2.1", true)]
    #[case(false, "192.0.2.0", true)]
    fn avoid_buggy_ips(#[case] avoid: bool, #[case] ip: &str, #[case] expected: bool) {
        let pool = pool(json!({"addresses": ["192.0.2.0/24"], "avoidBuggyIPs": avoid}));
        assert_eq!(pool.contains(ip.parse().unwrap()), expected);
    }

    #[test]
    fn absent_auto_assign_assigns() {
        assert!(pool(json!({})).auto_assign);
        assert!(!pool(json!({"autoAssign": false})).auto_assign);
    }

    #[test]
    fn counters() {
        let pool = pool(json!({}));
        assert_eq!(pool.available(Family::IPv4), Some(3));
        assert_eq!(pool.available(Family::IPv6), Some(0));
    }

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({"namespaces": ["tenant-a"]}), true)]
    #[case(json!({"namespaces": ["tenant-b"]}), false)]
    #[case(json!({"namespaceSelectors": [{"matchLabels": {"team": "a"}}]}), true)]
    #[case(json!({"namespaces": ["tenant-b"], "namespaceSelectors": [{"matchLabels": {"team": "a"}}]}), true)]
    #[case(json!({"namespaceSelectors": [{"matchLabels": {"team": "b"}}]}), true)]
    #[case(json!({"namespaces": ["tenant-b"], "namespaceSelectors": [{"matchLabels": {"team": "b"}}]}), false)]
    #[case(json!({"serviceSelectors": [{"matchExpressions": [{"key": "tier", "operator": "In", "values": ["web"]}]}]}), true)]
    #[case(json!({"serviceSelectors": [{"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}]}), false)]
    #[case(json!({"namespaces": ["tenant-b"], "serviceSelectors": [{"matchLabels": {"tier": "web"}}]}), false)]
    #[case(json!({"serviceSelectors": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]}), false)]
    #[case(json!({"serviceSelectors": [{"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}]}), true)]
    fn admits(#[case] allocation: serde_json::Value, #[case] expected: bool) {
        let pool = pool(json!({ "serviceAllocation": allocation }));
        let labels = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let team = labels("team", "a");
        let pool = pool.among([&team].into_iter());
        let verdict = pool.admits("tenant-a", &team, &labels("tier", "web"));
        assert_eq!(verdict.is_ok(), expected, "{verdict:?}");
    }

    #[test]
    fn selectors_that_no_namespace_fits_restrict_nobody() {
        let a = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let b = BTreeMap::from([("team".to_owned(), "b".to_owned())]);
        let none = BTreeMap::new();
        let selector = json!([{"matchLabels": {"team": "a"}}]);
        let mut pool =
            pool(json!({ "serviceAllocation": {"namespaceSelectors": selector} })).among([&b].into_iter());
        let admits = |pool: &Pool, labels| pool.admits("tenant", labels, &none).is_ok();
        assert!(admits(&pool, &b));
        assert_eq!(pool.relabelled(None, Some(&a)), Relabelled::All);
        assert!(!admits(&pool, &b));
        assert!(admits(&pool, &a));
        assert_eq!(pool.relabelled(None, Some(&none)), Relabelled::Nothing);
        assert_eq!(pool.relabelled(Some(&b), Some(&a)), Relabelled::One);
        assert_eq!(pool.relabelled(Some(&a), None), Relabelled::One);
        assert_eq!(pool.relabelled(Some(&a), Some(&b)), Relabelled::All);
        assert!(admits(&pool, &none));
    }
}
