//! Contract §11: more addresses are bound to a claim than its Service can be served with.

use ::metallb::Config;
use api::IPAddress;
use api::address::ClaimRef;
use api::wellknown::metallb as names;
use serde_json::json;

use super::c11_reverse::associated;
use crate::world::build::{IP, IP6, Setup, address_ref, service_in, static_address, web};
use crate::world::look::condition;
use crate::world::{World, crash};

const OTHER: &str = "192.0.2.1";

/// An admin binds one more address to the claim.
fn surplus(name: &str, ip: &str) -> IPAddress {
    let mut address = static_address(name, ip);
    let claim = ClaimRef { namespace: "tenant-a".into(), name: "web-ip".into(), uid: None };
    address.spec.claim_ref = Some(claim);
    address
}

fn two() -> Setup {
    Setup { addresses: vec!["192.0.2.0/31"], contended: false, ..Setup::default() }
}

/// An IPv4 claim has an IPv6 address as well: its Service asks for IPv4 alone, and gets it.
#[test]
fn c11_155_what_is_of_a_family_that_nobody_asked_for_stays_held() {
    let setup =
        Setup { addresses: vec!["192.0.2.0/32", "2001:db8::7/128"], contended: false, ..Setup::default() };
    crash::everywhere(
        &setup,
        |world| {
            world.create(surplus("ip-2001-db8--7", IP6));
            world.settle();
            world.create(web("web-ip"));
        },
        |world| {
            world.assert_associated("web", &[IP]);
            world.assert_held(IP6);
        },
    );
}

/// A stranger has the surplus: that is nothing to the Service of the claim.
#[test]
fn c11_156_a_surplus_in_conflict_is_no_obstacle() {
    let config = Config { inventory: false, ..Config::default() };
    crash::everywhere(
        &Setup { config, ..two() },
        |world| {
            world.create(service_in("tenant-b", "thief", json!({ names::PIN: OTHER }), json!({})));
            world.settle();
            world.create(surplus("ip-192-0-2-1", OTHER));
            world.settle();
            world.create(web("web-ip"));
        },
        |world| {
            world.assert_associated("web", &[IP]);
            let phase = world.address_of(OTHER).phase();
            assert_eq!(phase, api::address::AddressPhase::Conflict, "{}", world.last_words(40));
        },
    );
}

/// The address that a Service has is being deleted, and waits for its claim; another of its family is bound to the claim. The pin
/// stays as it is: MetalLB serves nobody with two addresses of a family.
#[test]
fn c11_157_beside_a_dying_address_the_surplus_is_not_pinned() {
    crash::from(
        associated(&two(), json!({})),
        |world: &mut World| {
            world.keep_still("web");
            world.create(surplus("ip-192-0-2-1", OTHER));
            world.settle();
            world.delete(&address_ref("ip-192-0-2-0"));
        },
        |world| {
            world.assert_associated("web", &[IP]);
            world.assert_held(OTHER);
            assert_eq!(condition(&world.address_of(IP), "Associated").unwrap().0, "True");
        },
    );
}
