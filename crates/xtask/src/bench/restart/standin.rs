//! A stand-in for MetalLB: gives Services the addresses that they pin, beside whoever has the same sharing key. MetalLB itself
//! looks at every Service again after each handoff, one after the other: among 20,000 objects it would be at work for
//! days, and what is measured here is the driver.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use api::wellknown::metallb;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

/// Namespace and name.
type Key = (String, String);

/// What a Service asks for, and what its status shows.
#[derive(Default)]
struct Asks {
    pin: Option<String>,
    share: Option<String>,
    shown: Option<String>,
}

pub(super) struct Standin {
    client: Client,
    services: BTreeMap<Key, Asks>,
    /// Who is to have an IP.
    by_ip: BTreeMap<String, BTreeSet<Key>>,
}

impl Standin {
    /// Works until it is dropped.
    pub(super) async fn run(client: Client) -> Result<()> {
        let mut standin = Self { client: client.clone(), services: BTreeMap::new(), by_ip: BTreeMap::new() };
        let mut events = watcher(Api::<Service>::all(client), watcher::Config::default()).boxed();
        while let Some(event) = events.try_next().await? {
            match event {
                watcher::Event::InitApply(service) => drop(standin.hears(&service)),
                watcher::Event::Apply(service) => {
                    let touched = standin.hears(&service);
                    standin.serve(&key(&service), touched).await?;
                }
                watcher::Event::Delete(service) => {
                    let touched = standin.forgets(&key(&service));
                    standin.serve(&key(&service), touched).await?;
                }
                watcher::Event::Init | watcher::Event::InitDone => {}
            }
        }
        Ok(())
    }

    /// Takes in a Service and tells which Services may have another address now.
    fn hears(&mut self, service: &Service) -> BTreeSet<Key> {
        let key = key(service);
        let mut touched = self.forgets(&key);
        let annotation = |name: &str| service.annotations().get(name).cloned();
        let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let asks = Asks {
            pin: annotation(metallb::PIN),
            share: annotation(metallb::SHARE),
            shown: balancer.and_then(|status| status.ingress.as_ref()?.first()?.ip.clone()),
        };
        for ip in asks.pin.iter().chain(&asks.shown) {
            let sharers = self.by_ip.entry(ip.clone()).or_default();
            sharers.insert(key.clone());
            touched.extend(sharers.iter().cloned());
        }
        touched.insert(key.clone());
        self.services.insert(key, asks);
        touched
    }

    fn forgets(&mut self, key: &Key) -> BTreeSet<Key> {
        let Some(asks) = self.services.remove(key) else { return BTreeSet::new() };
        let mut touched = BTreeSet::new();
        for ip in asks.pin.iter().chain(&asks.shown) {
            if let Some(sharers) = self.by_ip.get_mut(ip) {
                sharers.remove(key);
                touched.extend(sharers.iter().cloned());
            }
        }
        touched
    }

    /// The address that a Service is to have: the one that it pins or else has, if all others that have it share it.
    fn verdict(&self, key: &Key, asks: &Asks) -> Option<String> {
        let ip = asks.pin.as_ref().or(asks.shown.as_ref())?;
        let shares = |other: &Key| {
            let other = self.services.get(other).filter(|other| other.shown.as_ref() == Some(ip));
            other.is_none_or(|other| other.share.is_some() && other.share == asks.share)
        };
        let all = self.by_ip.get(ip).into_iter().flatten().filter(|other| *other != key).all(shares);
        all.then(|| ip.clone())
    }

    /// Only the one that changed may lose what it has.
    async fn serve(&mut self, changed: &Key, touched: BTreeSet<Key>) -> Result<()> {
        for key in touched {
            let Some(asks) = self.services.get(&key) else { continue };
            let verdict = self.verdict(&key, asks);
            if verdict == asks.shown || (verdict.is_none() && key != *changed) {
                continue;
            }
            let ingress = verdict.as_ref().map_or(Value::Null, |ip| json!([{ "ip": ip }]));
            let body = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
            let api: Api<Service> = Api::namespaced(self.client.clone(), &key.0);
            match api.patch_status(&key.1, &PatchParams::default(), &Patch::Merge(body)).await {
                Ok(service) => drop(self.hears(&service)),
                // It went meanwhile: the watch tells.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn key(service: &Service) -> Key {
    (service.namespace().unwrap_or_default(), service.name_any())
}
