//! Contract §8, §9: a class draws from pools of any shape, announced in any way; the whole of each is reserved, no address
//! beside it, and one of each family changes hands contended.

use std::collections::BTreeSet;

use api::Ip;
use api::wellknown::CLAIM;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use crate::rig::{self, Rig, Stage};

/// What a pool is made of, and the addresses in it. In the texts `4.` stands for the stage's IPv4 subnet, `6:` for its IPv6 one.
struct Shape {
    name: &'static str,
    addresses: &'static [&'static str],
    avoid_buggy_ips: bool,
    v4: &'static [&'static str],
    v6: &'static [&'static str],
}

const PLAIN: Shape = Shape { name: "", addresses: &[], avoid_buggy_ips: false, v4: &[], v6: &[] };

#[test]
fn c9_pool_of_a_cidr() {
    let v4 = &["4.0", "4.1", "4.2", "4.3"];
    reserve_and_hand_over(Shape { name: "cidr", addresses: &["4.0/30"], v4, ..PLAIN });
}

/// MetalLB masks what is written.
#[test]
fn c9_pool_of_an_unaligned_cidr() {
    let v4 = &["4.8", "4.9", "4.10", "4.11"];
    reserve_and_hand_over(Shape { name: "unaligned", addresses: &["4.9/30"], v4, ..PLAIN });
}

#[test]
fn c9_pool_of_several_ranges() {
    let addresses = &["4.255/32", "4.7-4.8", " 4.1 - 4.1 "];
    let v4 = &["4.1", "4.7", "4.8", "4.255"];
    reserve_and_hand_over(Shape { name: "several", addresses, v4, ..PLAIN });
}

/// `.0` and `.255` lie in the pool, and it avoids them.
#[test]
fn c9_pool_that_avoids_buggy_ips() {
    let addresses = &["4.0/31", "4.254-4.255"];
    let v4 = &["4.1", "4.254"];
    reserve_and_hand_over(Shape { name: "avoids", addresses, avoid_buggy_ips: true, v4, ..PLAIN });
}

/// The first address of a network is one like others, also where its text ends in `::`.
#[test]
fn c9_pool_of_an_ipv6_cidr() {
    let v6 = &["6::", "6::1", "6::2", "6::3"];
    reserve_and_hand_over(Shape { name: "six", addresses: &["6::/126"], v6, ..PLAIN });
}

#[test]
fn c9_pool_of_an_ipv6_range() {
    let addresses = &["6:0:0:0:A-6::c"];
    let v6 = &["6::a", "6::b", "6::c"];
    reserve_and_hand_over(Shape { name: "six-range", addresses, avoid_buggy_ips: true, v6, ..PLAIN });
}

#[test]
fn c9_pool_of_both_families() {
    let addresses = &["6::4/127", "4.4/31"];
    let (v4, v6) = (&["4.4", "4.5"], &["6::4", "6::5"]);
    reserve_and_hand_over(Shape { name: "both", addresses, v4, v6, ..PLAIN });
}

fn reserve_and_hand_over(shape: Shape) {
    rig::run(async |rig| {
        let stage = set(rig, &shape).await;
        let adverts = stage.announce().await;
        let family = match (shape.v4.is_empty(), shape.v6.is_empty()) {
            (false, false) => "Dual",
            (true, _) => "IPv6",
            (_, true) => "IPv4",
        };
        stage.claim_with("web-ip", json!({ "family": family })).await;
        let mut ips = stage.bound_all("web-ip").await;
        ips.sort_by_key(|ip| ip.parse::<Ip>().unwrap());
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        for ip in &ips {
            stage.held(ip).await;
        }
        stage.contend(&ips).await;
        let all: BTreeSet<String> = stage.v4.iter().chain(&stage.v6).cloned().collect();
        let reserved = stage.own_addresses().await.into_iter().map(|address| address.spec.address);
        assert_eq!(reserved.collect::<BTreeSet<_>>(), all);
        let mut web = rig::load_balancer("web", json!({ CLAIM: "web-ip" }));
        web["spec"]["ipFamilies"] = match family {
            "Dual" => json!(["IPv4", "IPv6"]),
            one => json!([one]),
        };
        web["spec"]["ipFamilyPolicy"] =
            json!(if family == "Dual" { "RequireDualStack" } else { "SingleStack" });
        stage.service(web).await;
        stage.served("web", &ips).await;
        stage.name_claim("web", None).await;
        for ip in &ips {
            stage.held(ip).await;
        }
        stage.name_claim("web", Some("web-ip")).await;
        stage.served("web", &ips).await;
        stage.delete_service("web").await;
        for ip in &ips {
            stage.held(ip).await;
        }
        stage.finish().await;
        for (api, advert) in adverts {
            let now = api.get(&advert.name_any()).await.unwrap();
            assert_eq!(now.resource_version(), advert.resource_version(), "the admin's {now:?} was written");
        }
    });
}

async fn set(rig: &Rig, shape: &Shape) -> Stage {
    let mut stage = rig.stage(&format!("shape-{}", shape.name), 0).await;
    let number: Vec<&str> = stage.subnet.split('.').collect();
    // A group of zeros would not be canonical, and after 255 stages a number is 0.
    let (four, six) = (format!("{}.", stage.subnet), format!("2001:db8:{}:1{}:", number[1], number[2]));
    let place = |text: &&str| text.replace("4.", &four).replace("6:", &six);
    let canonical = |text: &&str| place(text).parse::<Ip>().unwrap().to_string();
    stage.v4 = shape.v4.iter().map(canonical).collect();
    stage.v6 = shape.v6.iter().map(canonical).collect();
    let addresses: Vec<String> = shape.addresses.iter().map(place).collect();
    stage
        .pool_with(json!({
            "addresses": addresses, "autoAssign": false, "avoidBuggyIPs": shape.avoid_buggy_ips,
        }))
        .await;
    stage
}

impl Stage {
    /// Makes the pool of the stage.
    async fn pool_with(&self, spec: Value) {
        let pool = json!({
            "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": { "name": self.name }, "spec": spec,
        });
        self.pools().create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
    }

    /// Announces the pool by layer 2 and by BGP, as an admin does.
    async fn announce(&self) -> Vec<(Api<DynamicObject>, DynamicObject)> {
        let mut made = Vec::new();
        for kind in ["L2Advertisement", "BGPAdvertisement"] {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("metallb.io", "v1beta1", kind));
            let api: Api<DynamicObject> = Api::namespaced_with(self.client(), "metallb-system", &resource);
            let advert = json!({
                "apiVersion": "metallb.io/v1beta1", "kind": kind, "metadata": { "name": self.name },
                "spec": { "ipAddressPools": [self.name] },
            });
            let advert = serde_json::from_value(advert).unwrap();
            let advert = api.create(&PostParams::default(), &advert).await.unwrap();
            made.push((api, advert));
        }
        made
    }
}
