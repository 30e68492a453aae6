//! Contract §9: reservation.

use serde_json::json;

use crate::world::build::{IP, Setup, claim};
use crate::world::{Pace, crash};

#[test]
fn c9_01_a_claim_is_reserved_and_held() {
    let setup = Setup { contended: false, ..Setup::default() };
    crash::from(
        |pace: Pace| setup.empty(pace),
        |world| {
            world.create(claim("tenant-a", "web-ip", json!({})));
        },
        |world| {
            assert_eq!(world.claim_phase("web-ip"), "Bound");
            world.assert_held(IP);
        },
    );
}
