//! What tenants, admins, thieves and hands do, and what goes wrong.

mod admin;
mod apply;
mod hands;
mod objects;
mod tamper;

use plan::Kind;

pub use apply::apply;
pub use hands::is_any_pool_restricted;
pub use objects::{found, made_cluster_ip};

use crate::chance::Chance;
use crate::profile::{Profile, Setup};
use crate::world::env::{CallFault, Side};

/// One thing that somebody does, or that goes wrong. Claims and Services are numbered; an even number lives in
/// `tenant-a`, an odd one in `tenant-b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    // Tenants.
    CreateClaim {
        claim: u8,
        class: Option<&'static str>,
        family: &'static str,
        address: Option<u8>,
    },
    DeleteClaim(u8),
    WidenClaim(u8),
    CreateService {
        service: u8,
        claim: Option<u8>,
        local: bool,
        port: i32,
        families: &'static [&'static str],
    },
    DeleteService(u8),
    Annotate {
        service: u8,
        claim: Option<u8>,
    },
    Ports {
        service: u8,
        port: i32,
    },
    Policy {
        service: u8,
        local: bool,
    },
    ForeignFinalizer {
        service: u8,
        on: bool,
    },
    Label {
        service: u8,
        value: u8,
    },
    /// A Service has no use for a claim that would be made for it.
    OptOut {
        service: u8,
        on: bool,
    },
    /// A stranger waits for whatever becomes free in a pool.
    Lurk {
        service: u8,
        v6: bool,
    },
    // Admins.
    CreateStatic {
        ip: u8,
        class: &'static str,
        claim: Option<u8>,
    },
    ClearClaimRef(u8),
    /// An address that nobody has is meant for a claim.
    Prebind {
        ip: u8,
        claim: u8,
    },
    DeleteAddress(u8),
    AddressPolicy {
        ip: u8,
        delete: bool,
    },
    MarkDefault {
        class: &'static str,
        on: bool,
    },
    MarkAutoClaim {
        class: &'static str,
        on: bool,
    },
    CreateClass(&'static str),
    DeleteClass(&'static str),
    /// A class draws from another pool from now on.
    RepointClass {
        class: &'static str,
        pool: &'static str,
    },
    WidenPool(bool),
    RelabelNamespace {
        namespace: &'static str,
        value: u8,
    },
    Quota {
        on: bool,
    },
    /// A namespace is deleted, or made again.
    Namespace {
        namespace: &'static str,
        there: bool,
    },
    /// The first steps of `metallb-iad adopt`, for a stranger that has an IP.
    Adopt {
        service: u8,
        claim: u8,
        steps: u8,
    },
    StripProtection(u8),
    // Who breaks a hold from outside.
    Type {
        service: u8,
        on: bool,
    },
    CutPool {
        keep: u8,
    },
    RenamePool,
    /// A pool is for some Services only.
    Admit {
        whom: u8,
    },
    AvoidBuggyIps(bool),
    DeletePlaceholder(u8),
    EditPlaceholder {
        placeholder: u8,
        edit: tamper::Edit,
        ip: u8,
    },
    StripTeardown(u8),
    StripMarks {
        service: u8,
        all: bool,
    },
    StripFinalizer(u8),
    Repin {
        service: u8,
        ip: u8,
    },
    AskPool {
        service: u8,
        pool: &'static str,
    },
    Steal {
        service: u8,
        ip: u8,
    },
    ForgeLabel {
        service: u8,
        ip: u8,
    },
    ForgeStatus {
        service: u8,
        ip: u8,
    },
    ExternalIp {
        service: u8,
        ip: u8,
    },
    ForeignKey {
        service: u8,
        on: bool,
    },
    Families {
        service: u8,
        dual: bool,
    },
    LoadBalancerIp {
        service: u8,
        ip: Option<u8>,
    },
    EditLedger {
        ip: u8,
    },
    // What goes wrong.
    Crash(Side, u8),
    Pause {
        side: Side,
        number: u8,
        millis: u64,
    },
    Cut(Side, u8, Kind),
    Silence {
        side: Side,
        number: u8,
        kind: Kind,
        millis: u64,
    },
    Call(CallFault),
    MetalLbRestarts,
    MetalLbStops,
}

impl Op {
    /// Whether it is a fault and nobody's edit.
    pub const fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Crash(..)
                | Self::Pause { .. }
                | Self::Cut(..)
                | Self::Silence { .. }
                | Self::Call(_)
                | Self::MetalLbRestarts
                | Self::MetalLbStops
        )
    }
}

const CLAIMS: usize = 4;
const SERVICES: usize = 4;
/// How many IPs of the pools users name by number.
const IPS: usize = 4;

fn small(chance: &mut Chance, limit: usize) -> u8 {
    u8::try_from(chance.below(limit)).unwrap()
}

fn maybe<T>(chance: &mut Chance, one_in: usize, some: impl FnOnce(&mut Chance) -> T) -> Option<T> {
    if chance.below(one_in) == 0 { Some(some(chance)) } else { None }
}

/// The next thing to happen in a world of this setup.
pub fn draw(setup: &Setup, chance: &mut Chance) -> Op {
    let hostile = setup.profile == Profile::Hostile;
    match chance.below(20) {
        0..=9 => tenant(setup, chance),
        10..=12 => admin(chance),
        13..=15 if hostile => hand(chance),
        _ => fault(chance),
    }
}

fn tenant(setup: &Setup, chance: &mut Chance) -> Op {
    let claim = small(chance, CLAIMS);
    let service = small(chance, SERVICES);
    let dual = setup.addresses.iter().any(|range| range.contains(':'));
    let families: [&[&str]; 4] = [&["IPv4"], &["IPv4"], &["IPv6"], &["IPv4", "IPv6"]];
    match chance.below(16) {
        0..=2 => Op::CreateClaim {
            claim,
            class: [Some("pub"), Some("pub"), Some("alt"), None][chance.below(4)],
            family: if dual { ["IPv4", "IPv6", "Dual"][chance.below(3)] } else { "IPv4" },
            address: maybe(chance, 8, |chance| small(chance, IPS)),
        },
        3 => Op::DeleteClaim(claim),
        4..=6 => Op::CreateService {
            service,
            claim: if chance.below(6) == 0 { None } else { Some(claim) },
            local: chance.below(4) == 0,
            port: [80, 443, 65535][chance.below(3)],
            families: if dual { families[chance.below(4)] } else { families[0] },
        },
        7 | 8 => Op::DeleteService(service),
        9 | 10 => Op::Annotate { service, claim: if chance.below(3) == 0 { None } else { Some(claim) } },
        11 => Op::Ports { service, port: [80, 443, 65535][chance.below(3)] },
        12 => Op::Policy { service, local: chance.below(2) == 0 },
        13 => Op::ForeignFinalizer { service, on: chance.below(2) == 0 },
        14 if chance.below(3) == 0 => Op::OptOut { service, on: chance.below(2) == 0 },
        14 => Op::Label { service, value: small(chance, 3) },
        _ => Op::Lurk { service: small(chance, 2), v6: dual && chance.below(2) == 0 },
    }
}

fn admin(chance: &mut Chance) -> Op {
    let ip = small(chance, IPS);
    let class = ["pub", "alt"][chance.below(2)];
    match chance.below(20) {
        0 | 1 => Op::CreateStatic { ip, class, claim: maybe(chance, 3, |chance| small(chance, CLAIMS)) },
        2 | 3 => Op::ClearClaimRef(ip),
        4 => Op::DeleteAddress(ip),
        5 => Op::AddressPolicy { ip, delete: chance.below(2) == 0 },
        6 => Op::MarkDefault { class, on: chance.below(2) == 0 },
        7 => Op::CreateClass(class),
        8 => Op::DeleteClass(class),
        9 => Op::WidenPool(chance.below(2) == 0),
        10 => Op::RelabelNamespace {
            namespace: ["tenant-a", "tenant-b"][chance.below(2)],
            value: small(chance, 2),
        },
        11 => Op::Quota { on: chance.below(2) == 0 },
        12 | 13 => Op::Prebind { ip, claim: small(chance, CLAIMS) },
        14 => Op::MarkAutoClaim { class, on: chance.below(3) != 0 },
        15 => Op::RepointClass { class, pool: ["reserved", "spare", "nowhere"][chance.below(3)] },
        16 => Op::Namespace {
            namespace: ["tenant-a", "tenant-b"][chance.below(2)],
            there: chance.below(4) != 0,
        },
        17 => Op::StripProtection(small(chance, CLAIMS)),
        _ => {
            Op::Adopt { service: small(chance, 2), claim: small(chance, CLAIMS), steps: 1 + small(chance, 4) }
        }
    }
}

fn hand(chance: &mut Chance) -> Op {
    let ip = small(chance, IPS);
    let service = small(chance, SERVICES);
    match chance.below(24) {
        0 | 1 => Op::Type { service, on: chance.below(2) == 0 },
        2 => Op::CutPool { keep: small(chance, 3) },
        3 => Op::RenamePool,
        4 | 5 => Op::DeletePlaceholder(ip),
        6 => Op::StripMarks { service, all: chance.below(2) == 0 },
        7 => Op::StripFinalizer(service),
        8 => Op::Repin { service, ip },
        9 => Op::AskPool { service, pool: ["reserved", "spare", ""][chance.below(3)] },
        10 => Op::Steal { service: small(chance, 2), ip },
        11 => Op::ForgeLabel { service: small(chance, 2), ip },
        12 => Op::ForgeStatus { service, ip },
        13 => Op::ExternalIp { service: small(chance, 2), ip },
        14 => Op::ForeignKey { service, on: chance.below(2) == 0 },
        15 => Op::EditLedger { ip },
        16 => Op::Admit { whom: small(chance, 5) },
        17 => Op::AvoidBuggyIps(chance.below(2) == 0),
        18..=20 => Op::EditPlaceholder {
            placeholder: small(chance, 4),
            edit: tamper::Edit::ALL[chance.below(tamper::Edit::ALL.len())],
            ip,
        },
        21 => Op::StripTeardown(ip),
        22 => Op::Families { service, dual: chance.below(2) == 0 },
        _ => Op::LoadBalancerIp { service, ip: maybe(chance, 2, |chance| small(chance, IPS)) },
    }
}

fn fault(chance: &mut Chance) -> Op {
    let side = [Side::Core, Side::Driver, Side::Driver][chance.below(3)];
    let number = small(chance, 2);
    let kinds =
        [Kind::Class, Kind::Address, Kind::Claim, Kind::Service, Kind::Namespace, Kind::Pool, Kind::Event];
    let faults = [
        CallFault::Throttled,
        CallFault::Error,
        CallFault::AnswerLost,
        CallFault::AnswerLost,
        CallFault::Stuck,
        CallFault::Refused,
    ];
    match chance.below(12) {
        0..=2 => Op::Crash(side, number),
        3 | 4 => Op::Pause { side, number, millis: [500, 9_000, 20_000, 40_000][chance.below(4)] },
        5 => Op::Cut(side, number, kinds[chance.below(kinds.len())]),
        6 => Op::Silence {
            side,
            number,
            kind: kinds[chance.below(4)],
            millis: [3_000, 30_000, 120_000][chance.below(3)],
        },
        7..=9 => Op::Call(faults[chance.below(faults.len())]),
        10 => Op::MetalLbRestarts,
        _ => Op::MetalLbStops,
    }
}
