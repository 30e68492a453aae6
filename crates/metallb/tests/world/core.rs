//! A stand-in for the core: binds, projects and reclaims as the contract says (§4-§6), in its simplest form.

use std::sync::Arc;

use api::address::{AddressPhase, ClaimRef};
use api::claim::ClaimPhase;
use api::wellknown::{ADDRESS_PROTECTION, CLAIM_PROTECTION, PROVISIONER};
use api::{IPAddress, IPAddressClaim, ReclaimPolicy};
use kube::ResourceExt;
use plan::{Kind, Object, Ref};
use serde_json::{Value, json};

use sim::server::Server;

/// Works until nothing is left to do.
pub fn run(server: &mut Server) {
    for _ in 0..100 {
        let before = server.touched.len();
        for claim in claims(server) {
            serve(server, &claim);
        }
        for address in addresses(server) {
            judge(server, &address);
        }
        if server.touched.len() == before {
            return;
        }
    }
    panic!("the core's stand-in does not come to rest");
}

fn claims(server: &Server) -> Vec<Arc<IPAddressClaim>> {
    let claims = server.all(Kind::Claim).filter_map(|object| match object {
        Object::Claim(claim) => Some(Arc::clone(claim)),
        _ => None,
    });
    claims.collect()
}

fn addresses(server: &Server) -> Vec<Arc<IPAddress>> {
    let addresses = server.all(Kind::Address).filter_map(|object| match object {
        Object::Address(address) => Some(Arc::clone(address)),
        _ => None,
    });
    addresses.collect()
}

fn named_by(address: &IPAddress, claim: &IPAddressClaim) -> bool {
    let named = address.spec.claim_ref.as_ref();
    named.is_some_and(|named| {
        named.key() == claim.key() && named.uid().is_none_or(|uid| claim.uid().as_deref() == Some(uid))
    })
}

fn serve(server: &mut Server, claim: &IPAddressClaim) {
    let reference = Ref::claim(&claim.key());
    let mine: Vec<_> = addresses(server).into_iter().filter(|address| named_by(address, claim)).collect();
    if claim.is_deleting() {
        for address in &mine {
            match address.spec.reclaim_policy {
                ReclaimPolicy::Retain => set_phase(server, address, AddressPhase::Released),
                ReclaimPolicy::Delete => drop(server.delete(&Ref::address(&address.key()), None)),
            }
        }
        let left: Vec<_> = claim.finalizers().iter().filter(|name| *name != CLAIM_PROTECTION).collect();
        write(server, &reference, false, &json!({ "metadata": { "finalizers": left } }));
        return;
    }
    if !claim.finalizers().iter().any(|name| name == CLAIM_PROTECTION) {
        let body = json!({ "metadata": { "finalizers": [CLAIM_PROTECTION] } });
        write(server, &reference, false, &body);
    }
    for address in mine.iter().filter(|address| address.spec.claim_ref.as_ref().unwrap().uid().is_none()) {
        bind(server, address, claim);
    }
    let meets = |family: api::Family| {
        move |address: &&Arc<IPAddress>| {
            !address.is_deleting()
                && address.phase() != AddressPhase::Lost
                && address.ip().is_ok_and(|ip| ip.family() == family)
        }
    };
    let families = claim.spec.family.expand();
    let missing: Vec<_> =
        families.iter().copied().filter(|family| !mine.iter().any(|one| meets(*family)(&one))).collect();
    let class_name = claim.spec.class_name.clone().unwrap_or_default();
    let class = server.get(&Ref::class(&class_name));
    let stamp = match class {
        Some(Object::Class(class)) => Some(class.spec.provisioner.clone()),
        _ => None,
    };
    if let (false, Some(stamp)) = (missing.is_empty(), stamp) {
        let body = json!({ "metadata": { "annotations": { PROVISIONER: stamp } } });
        write(server, &reference, false, &body);
    }
    for family in &missing {
        let fits = |address: &&Arc<IPAddress>| {
            address.phase() == AddressPhase::Available
                && address.spec.claim_ref.is_none()
                && address.spec.class_name == class_name
                && claim.spec.address_name.as_ref().is_none_or(|name| *name == address.name_any())
        };
        let pool = addresses(server);
        if let Some(address) = pool.iter().filter(fits).find(meets(*family)) {
            bind(server, address, claim);
        }
    }
    let was = claim.phase();
    let phase = match (missing.is_empty(), was) {
        (true, _) => ClaimPhase::Bound,
        (false, ClaimPhase::Pending) => ClaimPhase::Pending,
        (false, _) => ClaimPhase::Lost,
    };
    let list: Vec<_> =
        mine.iter().map(|one| json!({ "name": one.name_any(), "address": one.spec.address })).collect();
    let body = json!({ "status": { "phase": phase, "className": class_name, "addresses": list } });
    write(server, &reference, true, &body);
}

fn bind(server: &mut Server, address: &IPAddress, claim: &IPAddressClaim) {
    let to = ClaimRef {
        namespace: claim.namespace().unwrap_or_default(),
        name: claim.name_any(),
        uid: claim.uid(),
    };
    write(server, &Ref::address(&address.key()), false, &json!({ "spec": { "claimRef": to } }));
}

fn judge(server: &mut Server, address: &IPAddress) {
    let reference = Ref::address(&address.key());
    let claim = address.spec.claim_ref.as_ref().map(|named| {
        let all = claims(server);
        all.into_iter().find(|claim| named.key() == claim.key() && named.uid() == claim.uid().as_deref())
    });
    let protected = address.finalizers().iter().any(|name| name == ADDRESS_PROTECTION);
    if address.is_deleting() {
        let live = matches!(&claim, Some(Some(claim)) if !claim.is_deleting());
        if protected && !live {
            let left: Vec<_> =
                address.finalizers().iter().filter(|name| *name != ADDRESS_PROTECTION).collect();
            write(server, &reference, false, &json!({ "metadata": { "finalizers": left } }));
        }
        return;
    }
    if !protected {
        let mut all = address.finalizers().to_vec();
        all.push(ADDRESS_PROTECTION.to_owned());
        write(server, &reference, false, &json!({ "metadata": { "finalizers": all } }));
    }
    if address.phase().is_drivers() {
        return;
    }
    match claim {
        None => set_phase(server, address, AddressPhase::Available),
        Some(Some(claim)) if claim.is_deleting() => {}
        Some(Some(_)) => set_phase(server, address, AddressPhase::Bound),
        Some(None) if address.spec.claim_ref.as_ref().unwrap().uid().is_none() => {}
        Some(None) => match address.spec.reclaim_policy {
            ReclaimPolicy::Retain => set_phase(server, address, AddressPhase::Released),
            ReclaimPolicy::Delete => drop(server.delete(&reference, None)),
        },
    }
}

fn set_phase(server: &mut Server, address: &IPAddress, phase: AddressPhase) {
    write(server, &Ref::address(&address.key()), true, &json!({ "status": { "phase": phase } }));
}

fn write(server: &mut Server, reference: &Ref, status: bool, body: &Value) {
    server.patch(reference, status, body, None).unwrap();
}
