//! Cases A1, A2, G2: what MetalLB reads in a pin, and who may share.

use std::collections::BTreeSet;

use api::Ip;
use api::address::AddressPhase;
use api::wellknown::{driver, metallb};
use kube::ResourceExt;
use serde_json::json;

use crate::rig::{self, ingress};

/// A1, A2: what MetalLB reads in a pin is what we read in it, whatever the spelling; and what it refuses, we refuse. Its
/// status shows plain addresses. One that is held is refused in every spelling.
#[test]
fn a1_a2_metallb_reads_pins_as_we_do() {
    rig::run(async |rig| {
        let stage = rig.stage_dual("spellings", 6, 2).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        let free: Vec<&String> = stage.v4.iter().filter(|other| **other != ip).collect();
        let six = &stage.v6[0];
        let long = six.replace("::", ":0:0:0:0:000").to_uppercase();
        let zeros = free[0].replace("198.", "0198.");
        let served = [
            (format!(" {}\n", free[0]), vec![free[0].clone()]),
            (format!("::ffff:{}", free[1]), vec![free[1].clone()]),
            (format!(" {} , {long}\n", free[2]), vec![free[2].clone(), six.clone()]),
        ];
        let last = free[3];
        let refused = [
            format!("{last},"),
            format!("{last}-{last}"),
            format!("{last}/32"),
            zeros,
            ip.clone(),
            format!("::FFFF:{ip}"),
            format!(" {ip} "),
        ];
        let names = |kind: &str, number: usize| format!("{kind}-{number}");
        let pins = served.iter().map(|(pin, ips)| (pin, ips.len())).chain(refused.iter().map(|pin| (pin, 1)));
        for (number, (pin, families)) in pins.enumerate() {
            let mut service = rig::load_balancer(&names("pin", number), json!({ metallb::PIN: pin }));
            let all = ["IPv4", "IPv6"];
            service["spec"]["ipFamilies"] = json!(all[..families]);
            service["spec"]["ipFamilyPolicy"] = json!(["SingleStack", "RequireDualStack"][families - 1]);
            stage.thief_service(service).await;
        }
        let read = |pin: &str| -> Option<BTreeSet<String>> {
            pin.split(',').map(|part| Ip::lenient(part).ok().map(|ip| ip.to_string())).collect()
        };
        for (number, (pin, ips)) in served.iter().enumerate() {
            let wanted: BTreeSet<String> = ips.iter().cloned().collect();
            rig::until(&stage.thief_services(), &names("pin", number), "to be served", |service| {
                ingress(service) == wanted
            })
            .await;
            assert_eq!(read(pin), Some(wanted), "{pin:?}");
        }
        for (number, pin) in refused.iter().enumerate() {
            let name = names("pin", served.len() + number);
            stage.event_in(&stage.thief, &name, "AllocationFailed").await;
            let service = stage.thief_services().get(&name).await.unwrap();
            assert!(ingress(&service).is_empty(), "{pin:?}: {service:?}");
            // Unreadable to both, or the held address to both.
            assert_eq!(read(pin), pin.contains(&ip).then(|| BTreeSet::from([ip.clone()])), "{pin:?}");
        }
        // The inventory writes each down under its plain text.
        for ip in served.iter().flat_map(|(_, ips)| ips) {
            stage
                .ledger(ip, "to be observed", |address| address.labels().contains_key(driver::OBSERVED))
                .await;
        }
        stage.held(&ip).await;
        stage.assert_never_unheld(&ip).await;
    });
}

/// G2: the key is random, another one after each handoff, and never left on a tenant's Service; who guesses it, or knows an
/// old one, gets nothing.
#[test]
fn g2_old_and_wrong_keys_share_nothing() {
    rig::run(async |rig| {
        let (stage, ip) = rig.contended("keys").await;
        let key =
            async || stage.placeholders_of(&ip).await.pop().unwrap().annotations()[metallb::SHARE].clone();
        let mut known = BTreeSet::from([key().await]);
        let uid = stage.claims().get("web-ip").await.unwrap().uid().unwrap();
        let guesses = ["web-ip".to_owned(), uid, rig::address_name(&ip), format!("iad-{}", "0".repeat(32))];
        for (number, guess) in guesses.iter().enumerate() {
            let name = format!("guess-{number}");
            let marks = json!({ metallb::PIN: ip, metallb::SHARE: guess });
            stage.thief_service(rig::load_balancer(&name, marks)).await;
            stage.event_in(&stage.thief, &name, "AllocationFailed").await;
        }
        for round in 0..3 {
            let old = known.last().unwrap().clone();
            stage.web("web", "web-ip").await;
            // Checks that no key is left.
            stage.served("web", &[&ip]).await;
            let name = format!("old-{round}");
            let marks = json!({ metallb::PIN: ip, metallb::SHARE: old });
            stage.thief_service(rig::load_balancer(&name, marks)).await;
            stage.event_in(&stage.thief, &name, "AllocationFailed").await;
            stage.delete_service("web").await;
            stage.held(&ip).await;
            let now = key().await;
            assert!(known.insert(now.clone()), "{now} was used before");
        }
        stage.finish().await;
    });
}

/// G2: who can read the key of a placeholder sits on the address beside it: a conflict that names him, while the hold keeps
/// the address; he goes, and all is as before.
#[test]
fn g2_who_knows_the_key_is_in_conflict() {
    rig::run(async |rig| {
        let stage = rig.stage("known-key", 1).await;
        stage.claim("web-ip").await;
        let ip = stage.bound("web-ip").await;
        stage.held(&ip).await;
        stage.wait_in_line().await;
        let key = stage.placeholders_of(&ip).await.pop().unwrap().annotations()[metallb::SHARE].clone();
        stage
            .thief_service(rig::load_balancer("knows", json!({ metallb::PIN: ip, metallb::SHARE: key })))
            .await;
        stage.address_is(&ip, AddressPhase::Conflict).await;
        let words = stage.cluster_event(&rig::address_name(&ip), "AddressConflict").await;
        assert!(words.contains(&format!("{}/knows", stage.thief)), "{words}");
        let words = stage.event_in(&stage.thief, "knows", "AddressConflict").await;
        assert!(!words.contains("web-ip") && !words.contains(&format!("{}/", stage.name)), "{words}");
        stage.clear_thieves().await;
        stage.address_is(&ip, AddressPhase::Bound).await;
        stage.held(&ip).await;
        let gaps =
            stage.timeline(&ip).await.into_iter().filter(|holders| holders.services.is_empty()).count();
        assert_eq!(gaps, 0);
        stage.assert_at_rest().await;
    });
}
