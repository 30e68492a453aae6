//! The sequences.

mod forged;
mod kinds;
mod owners;
mod pins;
mod pools;
mod restarts;
mod services;
mod sharing;
mod stacks;
mod writes;

use super::Sequence;

macro_rules! sequences {
    ($scope:ident: $($name:ident),* $(,)?) => {
        [$(crate::conform::Sequence {
            name: stringify!($name), scope: crate::conform::Scope::$scope, actions: $name,
        }),*]
    };
}
use sequences;

/// Every sequence; the place of each has the number of its position.
pub fn all() -> Vec<Sequence> {
    let groups = [
        writes::all(),
        kinds::all(),
        services::all(),
        stacks::all(),
        pins::all(),
        pools::all(),
        sharing::all(),
        forged::all(),
        restarts::all(),
        owners::all(),
    ];
    groups.into_iter().flatten().collect()
}
