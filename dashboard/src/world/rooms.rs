//! How full the pools of classes are, counted IP by IP.

use std::collections::HashMap;
use std::sync::Arc;

use api::{Family, Ip};

use super::World;
use super::rows::{AddressRow, ClassRow, PoolRow, ServiceRow};
use super::verdict::State;
use crate::Scope;

/// How full the pool of a class is, for one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The class.
    pub class: Arc<str>,
    /// The pool, if the class names one.
    pub pool: Option<Arc<str>>,
    /// The family.
    pub family: Family,
    /// How many addresses the pool has; none when it is not known, or not the visitor's to know.
    pub size: Option<u128>,
    /// Those that Services have.
    pub attached: u128,
    /// Those that are kept and attached to nothing.
    pub reserved: u128,
    /// Those that are with somebody they were not given to.
    pub conflict: u128,
    /// Those that MetalLB gave to Services past the ledger.
    pub other: u128,
    /// Addresses of the class that its pool does not contain.
    pub outside: u128,
}

impl Room {
    /// How many nobody has; none when the size is not known.
    pub fn free(&self) -> Option<u128> {
        let taken = self.attached + self.reserved + self.conflict + self.other;
        Some(self.size?.saturating_sub(taken))
    }

    fn count(&mut self, row: &AddressRow, there: bool) {
        let piece = match row.state() {
            State::Conflict => &mut self.conflict,
            State::Attached | State::Observed => &mut self.attached,
            _ if row.service.is_some() => &mut self.attached,
            _ => &mut self.reserved,
        };
        step(piece, 1, there);
    }
}

/// Adds so many, or takes them away.
fn step(count: &mut u128, by: u128, there: bool) {
    *count = if there { count.saturating_add(by) } else { count.saturating_sub(by) };
}

/// Each class with its pool, and each family that it has room or addresses in, while they are counted.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    /// By class, IPv4 before IPv6.
    lines: Vec<(Room, Option<Arc<PoolRow>>)>,
    /// Where the rooms of a class begin.
    of_class: HashMap<Arc<str>, usize>,
    /// Whether the visitor may know of pools.
    sees_pools: bool,
}

impl Rooms {
    /// All of them, empty.
    pub(super) fn of(world: &World, scope: &Scope) -> Self {
        let mut all = Self { sees_pools: scope.is_all(), ..Self::default() };
        for class in world.classes() {
            let pool = class.pool.as_deref().and_then(|pool| world.pool(pool));
            all.of_class.insert(Arc::clone(&class.name), all.lines.len());
            for family in Family::ALL {
                let size = pool.map(|pool| pool.size(family)).filter(|_| all.sees_pools);
                all.lines.push((empty(class, family, size), pool.cloned()));
            }
        }
        all
    }

    /// Counts an address that the visitor sees, or no longer does.
    pub(super) fn count(&mut self, row: &AddressRow, there: bool) {
        let Some(ip) = row.ip else { return };
        let Some(first) = self.of_class.get(&*row.class) else { return };
        let (room, pool) = &mut self.lines[first + usize::from(ip.family() == Family::IPv6)];
        if self.sees_pools && pool.as_ref().is_none_or(|pool| !pool.contains(ip)) {
            step(&mut room.outside, 1, there);
        } else if row.is_valid() {
            room.count(row, there);
        }
    }

    /// Counts an IP for the pools in which it is taken past their class: by Services, or in the ledger under other
    /// classes; or takes it out of that count.
    pub(super) fn count_others(
        &mut self,
        ip: Ip,
        addresses: &[&Arc<AddressRow>],
        services: &[Arc<ServiceRow>],
        there: bool,
    ) {
        if !self.sees_pools {
            return;
        }
        for (room, pool) in self.lines.iter_mut().filter(|(room, _)| room.family == ip.family()) {
            let of_class = |row: &&&Arc<AddressRow>| *row.class == *room.class;
            if addresses.iter().filter(of_class).any(|row| row.is_valid())
                || pool.as_ref().is_none_or(|pool| !pool.contains(ip))
            {
                continue;
            }
            let of_others = addresses.iter().filter(|row| !of_class(row)).count();
            step(&mut room.other, if services.is_empty() { of_others as u128 } else { 1 }, there);
        }
    }

    /// What there is to show.
    pub(super) fn lines(&self) -> Vec<Room> {
        self.lines.iter().map(|(room, _)| room).filter(|room| is_worth_a_line(room)).cloned().collect()
    }
}

fn empty(class: &ClassRow, family: Family, size: Option<u128>) -> Room {
    Room {
        class: Arc::clone(&class.name),
        pool: class.pool.clone(),
        family,
        size,
        attached: 0,
        reserved: 0,
        conflict: 0,
        other: 0,
        outside: 0,
    }
}

/// A family that the class has neither room nor addresses in is not shown, unless it would be the only line.
fn is_worth_a_line(room: &Room) -> bool {
    room.size.unwrap_or(0) > 0 || room.attached + room.reserved + room.conflict + room.outside > 0
}
