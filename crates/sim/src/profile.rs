//! What a seed draws from: the configuration, the pools, and which users and faults there are.

use ::metallb::Config;

use crate::chance::Chance;
use crate::users::{self, Op};

/// Which users and faults there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Nobody breaks a hold from outside, and handoffs overlap: the law is strict, with no excuse.
    Strict,
    /// As strict, with handoffs through gaps or Services that go without a handoff.
    Gaps,
    /// Hands, thieves and admins break holds from outside as well: the ledger must say so.
    Hostile,
}

impl Profile {
    /// The profile of a seed.
    pub fn of(seed: u64) -> Self {
        match seed % 8 {
            0..=4 => Self::Strict,
            5 => Self::Gaps,
            _ => Self::Hostile,
        }
    }
}

/// The cluster before anybody acts.
#[derive(Clone, Debug)]
pub struct Setup {
    pub config: Config,
    pub profile: Profile,
    pub replicas: usize,
    /// What pool `reserved` has.
    pub addresses: Vec<&'static str>,
    /// Whether class `pub` deletes.
    pub delete: bool,
}

impl Setup {
    pub fn of(profile: Profile, chance: &mut Chance) -> Self {
        let mut one_in = |limit| chance.below(limit) == 0;
        let config = Config {
            inventory: !one_in(3),
            auto_claim: one_in(3),
            lb_class: one_in(8).then(|| "metallb".to_owned()),
            gap: profile == Profile::Gaps && one_in(2),
            // A cluster this small never counts as crowded: half of them are told that they do.
            crowd: if one_in(2) { 0 } else { usize::MAX },
            ..Config::default()
        };
        let hold_on_delete = profile != Profile::Gaps || (config.gap && one_in(2));
        let (replicas, delete) = (1 + usize::from(!one_in(3)), one_in(2));
        let pools: [&[&str]; 5] = [
            &["192.0.2.0/32"],
            &["192.0.2.0/31"],
            &["192.0.2.0/30"],
            &["192.0.2.0/31", "2001:db8::/127"],
            &["192.0.2.4-192.0.2.6", "2001:db8::7/128"],
        ];
        let addresses = pools[chance.below(pools.len())].to_vec();
        Self { config: Config { hold_on_delete, ..config }, profile, replicas, addresses, delete }
    }
}

/// One thing that a user does, or that goes wrong, and when.
#[derive(Clone, Debug)]
pub struct Entry {
    /// After so many steps of the world.
    pub at: u64,
    pub op: Op,
}

/// The decisions of a history, but for the order in which everybody works.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub entries: Vec<Entry>,
    /// Users and faults stop after so many steps.
    pub end: u64,
}

impl Script {
    pub fn of(setup: &Setup, chance: &mut Chance) -> Self {
        let count = 10 + chance.below(50);
        let pace = [8, 25, 60, 120][chance.below(4)];
        let mut at = 0;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            at += chance.bits() % pace;
            entries.push(Entry { at, op: users::draw(setup, chance) });
        }
        Self { entries, end: at + 40 }
    }

    /// The same without some of its entries.
    #[must_use]
    pub fn without(&self, dropped: &[usize]) -> Self {
        let kept = self.entries.iter().enumerate().filter(|(at, _)| !dropped.contains(at));
        Self { entries: kept.map(|(_, entry)| entry.clone()).collect(), end: self.end }
    }
}
