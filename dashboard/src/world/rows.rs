//! What is kept of each object: the fields that pages show, not the object.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::address::{AddressPhase, HandoffDirection, HandoffMode};
use api::claim::ClaimPhase;
use api::{ClaimFamily, Family, Ip, ReclaimPolicy};
use jiff::Timestamp;

/// Fewer words than these are not worth sweeping.
const FEW_WORDS: usize = 1_024;

/// Texts that several rows have: namespaces, classes, reasons, and what an address says of its claim and its Service.
/// Each is in memory once: two that are the same are at the same place, which is told without reading them.
#[derive(Debug, Default)]
pub struct Words {
    all: HashSet<Arc<str>>,
    /// So many are worth a look at which of them nobody has any more.
    many: usize,
}

impl Words {
    /// The one copy of a text.
    pub fn one(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.all.get(text) {
            return Arc::clone(known);
        }
        if self.all.len() > self.many {
            self.sweep();
        }
        let new: Arc<str> = text.into();
        self.all.insert(Arc::clone(&new));
        new
    }

    /// Forgets the texts that no row has any more.
    pub fn sweep(&mut self) {
        self.all.retain(|word| Arc::strong_count(word) > 1);
        self.many = 2 * self.all.len() + FEW_WORDS;
    }
}

/// Namespace and name of a claim or a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// A key of its two parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Both parts.
    pub fn texts(&self) -> [&str; 2] {
        [&self.namespace, &self.name]
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A condition of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionRow {
    /// The type.
    pub kind: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Arc<str>,
    /// The reason, in `CamelCase`.
    pub reason: Arc<str>,
    /// The sentence.
    pub message: Box<str>,
    /// Since when the status is what it is.
    pub since: Timestamp,
}

impl ConditionRow {
    /// Whether the status is `True`.
    pub fn holds(&self) -> bool {
        &*self.status == "True"
    }
}

/// The claim that an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTo {
    /// Namespace and name.
    pub key: Key,
    /// Its uid; without one, the address waits for a claim of that name.
    pub uid: Option<Arc<str>>,
}

/// The workload that the ledger says has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBy {
    /// Namespace and name of the Service.
    pub key: Key,
    /// Its uid; the Go implementation wrote none.
    pub uid: Option<Arc<str>>,
}

/// The last change of hands of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoffRow {
    /// To a Service, or back to the placeholder.
    pub direction: HandoffDirection,
    /// With two holders for a moment, or with none.
    pub mode: HandoffMode,
    /// Who had it before.
    pub from: Box<str>,
    /// Who has it after.
    pub to: Box<str>,
    /// When it began.
    pub started: Timestamp,
    /// When it was done.
    pub finished: Option<Timestamp>,
    /// How long nobody had the address.
    pub unheld_ms: Option<i64>,
    /// Its trace.
    pub trace: Option<Box<str>>,
}

/// One line of the history of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRow {
    /// The Service that had it.
    pub service: Key,
    /// Its uid.
    pub uid: Arc<str>,
    /// From when.
    pub since: Timestamp,
    /// Until when; none while it has it.
    pub until: Option<Timestamp>,
}

/// An `IPAddress`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRow {
    /// The object's name.
    pub name: Arc<str>,
    /// The object's uid.
    pub uid: Box<str>,
    /// `spec.address` as it stands.
    pub text: Box<str>,
    /// The IP, if the text is one.
    pub ip: Option<Ip>,
    /// `spec.className`.
    pub class: Arc<str>,
    /// The phase.
    pub phase: AddressPhase,
    /// What becomes of it when its claim goes.
    pub policy: ReclaimPolicy,
    /// `spec.claimRef`.
    pub claim: Option<BoundTo>,
    /// `status.associatedTo`.
    pub service: Option<HeldBy>,
    /// Whether the inventory wrote it down: no claim covers it.
    pub observed: bool,
    /// Whether the driver of MetalLB has its finalizer on it.
    pub driven: bool,
    /// The provider's own name for it, for addresses made from a `providerRef`.
    pub provider: Option<Box<str>>,
    /// When the object was made.
    pub created: Timestamp,
    /// Since when it is being deleted.
    pub deleting: Option<Timestamp>,
    /// The conditions.
    pub conditions: Box<[ConditionRow]>,
    /// The last change of hands.
    pub handoff: Option<Box<HandoffRow>>,
    /// Who had it when, newest first.
    pub history: Box<[PastRow]>,
    /// Since when it stands where it stands, as far as the ledger tells.
    pub since: Timestamp,
}

/// An `IPAddressClaim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRow {
    /// Namespace and name.
    pub key: Key,
    /// The object's uid.
    pub uid: Arc<str>,
    /// `spec.className`.
    pub asked_class: Option<Arc<str>>,
    /// `status.className`.
    pub class: Option<Arc<str>>,
    /// The families asked for.
    pub family: ClaimFamily,
    /// `spec.addressName`.
    pub address_name: Option<Box<str>>,
    /// The phase.
    pub phase: ClaimPhase,
    /// Whether a Service or the inventory made it, not a person.
    pub auto: bool,
    /// The driver that the core stamped on it.
    pub provisioner: Option<Arc<str>>,
    /// When the object was made.
    pub created: Timestamp,
    /// Since when it is being deleted.
    pub deleting: Option<Timestamp>,
    /// The conditions.
    pub conditions: Box<[ConditionRow]>,
}

/// An `IPAddressClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRow {
    /// The object's name.
    pub name: Arc<str>,
    /// The driver.
    pub provisioner: Arc<str>,
    /// What becomes of its addresses.
    pub policy: ReclaimPolicy,
    /// The pool, as the driver says, else as `spec.parameters` says.
    pub pool: Option<Arc<str>>,
    /// The load balancer class that its Services must carry.
    pub lb_class: Option<Box<str>>,
    /// Whether claims that name no class get this one.
    pub is_default: bool,
    /// Whether plain Services get claims of this class.
    pub is_auto_claim: bool,
    /// `spec.parameters` as JSON.
    pub parameters: Box<str>,
    /// When the object was made.
    pub created: Timestamp,
    /// Since when it is being deleted.
    pub deleting: Option<Timestamp>,
    /// The conditions.
    pub conditions: Box<[ConditionRow]>,
}

/// A Service that has, asks for, or holds an IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRow {
    /// Namespace and name.
    pub key: Key,
    /// The object's uid.
    pub uid: Arc<str>,
    /// `spec.type`.
    pub kind: Arc<str>,
    /// `spec.loadBalancerClass`.
    pub lb_class: Option<Arc<str>>,
    /// The claim that its annotation names.
    pub claim: Option<Key>,
    /// The IPs its status shows.
    pub ingress: Box<[Ip]>,
    /// The host name its status shows, where a load balancer gives names.
    pub hostname: Option<Box<str>>,
    /// `spec.externalIPs`.
    pub external: Box<[Ip]>,
    /// The text of its pin, by either spelling.
    pub pin: Option<Box<str>>,
    /// Which annotation the pin stands in, or `spec.loadBalancerIP`.
    pub pin_field: Option<&'static str>,
    /// The pool it asks for.
    pub pool: Option<Box<str>>,
    /// Whether the driver put the pin there.
    pub pinned_by_us: bool,
    /// Whether it is a placeholder of the driver.
    pub placeholder: bool,
    /// The ports, as `80/TCP, 443/TCP`.
    pub ports: Box<str>,
    /// When the object was made.
    pub created: Timestamp,
    /// Since when it is being deleted.
    pub deleting: Option<Timestamp>,
}

impl ServiceRow {
    /// The IPs that it has, by MetalLB and by `spec.externalIPs`.
    pub fn ips(&self) -> impl Iterator<Item = Ip> {
        self.ingress.iter().chain(&self.external).copied()
    }
}

/// An `IPAddressPool` of MetalLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRow {
    /// The object's namespace.
    pub namespace: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
    /// The entries of `spec.addresses` as they stand.
    pub texts: Box<[Box<str>]>,
    /// First and last address of each entry, sorted, none overlapping another.
    pub ranges: Box<[(IpAddr, IpAddr)]>,
    /// Whether MetalLB gives its addresses to Services that ask for none.
    pub auto_assign: bool,
    /// Whether addresses that end in `.0` and `.255` are left out.
    pub avoid_buggy: bool,
    /// Whether it serves only some namespaces or Services.
    pub restricted: bool,
}

impl PoolRow {
    /// Whether MetalLB would assign this IP from the pool.
    pub fn contains(&self, ip: Ip) -> bool {
        let addr = ip.addr();
        // They are sorted, IPv4 before IPv6, and none overlaps another.
        let after = self.ranges.partition_point(|(first, _)| *first <= addr);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        self.serves(ip) && range.is_some_and(|(_, last)| addr <= *last)
    }

    /// Whether an IP of its ranges is one that it gives out.
    pub fn serves(&self, ip: Ip) -> bool {
        match ip.addr() {
            IpAddr::V4(v4) if self.avoid_buggy => !matches!(v4.octets()[3], 0 | 255),
            _ => true,
        }
    }

    /// How many addresses of a family it gives out.
    pub fn size(&self, family: Family) -> u128 {
        let ranges = self.ranges.iter().filter(|(first, _)| Ip::from(*first).family() == family);
        ranges.map(|range| self.count(range.0, range.1)).fold(0, u128::saturating_add)
    }

    /// How many addresses it gives out from `first` to `last`, both included.
    pub fn count(&self, first: IpAddr, last: IpAddr) -> u128 {
        match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
                // Of the numbers below `end`, those that do not end in 0 or 255.
                let up_to = |end: u64| {
                    if self.avoid_buggy { end - end.div_ceil(256) - end / 256 } else { end }
                };
                let (first, last) = (u64::from(first.to_bits()), u64::from(last.to_bits()));
                u128::from(up_to(last + 1) - up_to(first))
            }
            (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
                (last.to_bits() - first.to_bits()).saturating_add(1)
            }
            _ => 0,
        }
    }
}

/// The kinds that events of interest are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    /// An `IPAddress`.
    Address,
    /// An `IPAddressClaim`.
    Claim,
    /// An `IPAddressClass`.
    Class,
    /// A Service.
    Service,
}

impl About {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Address, Self::Claim, Self::Class, Self::Service];

    /// The kind as it stands in an event.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Address => "IPAddress",
            Self::Claim => "IPAddressClaim",
            Self::Class => "IPAddressClass",
            Self::Service => "Service",
        }
    }
}

/// An event about one of our objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// The kind of the object.
    pub about: About,
    /// The namespace of the object; empty for those of the cluster.
    pub namespace: Arc<str>,
    /// The name of the object.
    pub name: Arc<str>,
    /// Whether somebody should look.
    pub warning: bool,
    /// The reason, in `CamelCase`.
    pub reason: Arc<str>,
    /// The sentence.
    pub note: Box<str>,
    /// Who said it.
    pub source: Arc<str>,
    /// When it was last said.
    pub at: Timestamp,
}
