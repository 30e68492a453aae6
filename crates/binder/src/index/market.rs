//! Free addresses on one side, waiting claims on the other; one market for each class and family.
//!
//! A freed address must wake somebody, or it lies idle; if it woke everybody, a thousand claims would race for
//! it. **Liveness:** at any time at least `min(free, waiting)` claims of a market are *on their way*: woken and
//! not decided yet. `Market::balance` restores this after each change of either side, oldest claim first. What
//! a claim does when it is decided keeps it true: it takes a free address (one fewer of each), or finds none
//! and waits again, or it is no longer in the line, and then the next is woken. A claim that took an address but
//! could not write it down *stumbled*: the runtime tries it again by itself, so that until then it is counted
//! neither as waiting nor as on its way, and the address goes to the next in line: one bad claim never delays
//! another (contract §3 h).

use std::collections::{BTreeSet, HashMap};

use api::{AddressName, ClaimKey, Family};

use super::{Aged, Dirty, Many};
use crate::Key;

/// What a claim wants one of: an address of a class and a family.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wish {
    /// The class's name.
    pub class: String,
    /// The family.
    pub family: Family,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Decided: there was nothing for it.
    Waiting,
    /// On its way: will be decided.
    Woken,
    /// Has chosen; its plan is not settled yet.
    Taking,
    /// Had chosen, and the plan failed; the runtime tries it again.
    Stumbled,
}

#[derive(Clone, Debug, Default)]
struct Line {
    turns: HashMap<ClaimKey, Turn>,
    waiting: BTreeSet<Aged<ClaimKey>>,
    woken: usize,
}

impl Line {
    fn set(&mut self, claim: &Aged<ClaimKey>, turn: Option<Turn>) {
        let before = match turn {
            Some(turn) => self.turns.insert(claim.1.clone(), turn),
            None => self.turns.remove(&claim.1),
        };
        match before {
            Some(Turn::Waiting) => _ = self.waiting.remove(claim),
            Some(Turn::Woken) => self.woken -= 1,
            Some(Turn::Taking | Turn::Stumbled) | None => {}
        }
        match turn {
            Some(Turn::Waiting) => _ = self.waiting.insert(claim.clone()),
            Some(Turn::Woken) => self.woken += 1,
            Some(Turn::Taking | Turn::Stumbled) | None => {}
        }
    }
}

/// All markets.
#[derive(Clone, Debug, Default)]
pub(super) struct Market {
    free: Many<Wish, AddressName>,
    offered: HashMap<AddressName, Wish>,
    lines: HashMap<Wish, Line>,
}

impl Market {
    /// The free address with the smallest name.
    pub(super) fn first(&self, wish: &Wish) -> Option<&AddressName> {
        self.free.get(wish).next()
    }

    /// Says where an address is to be had, if anywhere. Whether it is so now and was not before.
    pub(super) fn offer(&mut self, name: &AddressName, wish: Option<Wish>, dirty: &mut Dirty) -> bool {
        if self.offered.get(name) == wish.as_ref() {
            return false;
        }
        if let Some(old) = self.offered.remove(name) {
            self.free.remove(&old, name);
        }
        let Some(wish) = wish else { return false };
        self.free.insert(wish.clone(), name.clone());
        self.offered.insert(name.clone(), wish.clone());
        self.balance(&wish, dirty);
        true
    }

    /// A claim joins a line; if it is in it already, it keeps its turn.
    pub(super) fn enter(&mut self, wish: &Wish, claim: &Aged<ClaimKey>, dirty: &mut Dirty) {
        let line = self.lines.entry(wish.clone()).or_default();
        if !line.turns.contains_key(&claim.1) {
            line.set(claim, Some(Turn::Waiting));
        }
        self.balance(wish, dirty);
    }

    /// A claim leaves a line.
    pub(super) fn leave(&mut self, wish: &Wish, claim: &Aged<ClaimKey>, dirty: &mut Dirty) {
        let Some(line) = self.lines.get_mut(wish) else { return };
        line.set(claim, None);
        if line.turns.is_empty() {
            self.lines.remove(wish);
        }
        self.balance(wish, dirty);
    }

    /// A claim of the line was decided: it took an address, or found none.
    pub(super) fn decided(&mut self, wish: &Wish, claim: &Aged<ClaimKey>, took: bool) {
        let turn = if took { Turn::Taking } else { Turn::Waiting };
        self.turn(wish, claim, turn);
    }

    /// A claim of the line could not write down what it took.
    pub(super) fn stumbled(&mut self, wish: &Wish, claim: &Aged<ClaimKey>) {
        self.turn(wish, claim, Turn::Stumbled);
    }

    fn turn(&mut self, wish: &Wish, claim: &Aged<ClaimKey>, turn: Turn) {
        if let Some(line) = self.lines.get_mut(wish)
            && line.turns.contains_key(&claim.1)
        {
            line.set(claim, Some(turn));
        }
    }

    fn balance(&mut self, wish: &Wish, dirty: &mut Dirty) {
        let free = self.free.count(wish);
        let Some(line) = self.lines.get_mut(wish) else { return };
        while line.woken < free
            && let Some(next) = line.waiting.first().cloned()
        {
            line.set(&next, Some(Turn::Woken));
            dirty.insert(Key::Claim(next.1));
        }
    }
}
