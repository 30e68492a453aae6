//! The story itself.

use anyhow::{Result, ensure};
use api::IPAddress;
use api::wellknown::{CLAIM, metallb};
use serde_json::json;

use super::scene::Scene;
use super::trace;

pub(crate) async fn tell(scene: &mut Scene) -> Result<()> {
    step(1, "a tenant claims an address: kubectl -n tenant create IPAddressClaim web-ip");
    scene.claim("web-ip").await?;
    let ip = scene.bound("web-ip").await?;
    say(&format!("claim tenant/web-ip is Bound to {ip}"));
    scene.address(&ip, |address| held(address).is_some_and(|held| held)).await?;
    let holder = only(scene.holders(&ip).await?)?;
    say(&format!("in MetalLB's books {ip} belongs to the placeholder Service {holder}"));

    step(2, "the pool is full now, and another claim waits for an address of it");
    scene.claim("late").await?;
    let words = scene.event("tenant", "late", "PoolExhausted").await?;
    say(&format!("claim tenant/late: PoolExhausted: {words}"));

    step(3, "a thief pins a Service to the held address");
    scene.service("thief", "grab", json!({ metallb::PIN: ip })).await?;
    let words = scene.event("thief", "grab", "AllocationFailed").await?;
    say(&format!("MetalLB answers: AllocationFailed: {words}"));

    step(4, "the tenant's Service A names the claim");
    scene.service("tenant", "web-a", json!({ CLAIM: "web-ip" })).await?;
    let took = scene.served("tenant", "web-a", &ip).await?;
    say(&format!("Service tenant/web-a has {ip} after {} ms", took.as_millis()));
    let address = scene.address(&ip, |address| finished(address, "Associate")).await?;
    ensure!(only(scene.holders(&ip).await?)? == "tenant/web-a", "somebody else has the address as well");
    report(scene, &address).await?;

    step(5, "Service A is deleted");
    scene.delete_service("tenant", "web-a").await?;
    let address = scene.address(&ip, |address| finished(address, "Disassociate")).await?;
    let holder = only(scene.holders(&ip).await?)?;
    say(&format!("Service tenant/web-a is gone, and {ip} is held by {holder}"));
    report(scene, &address).await?;
    ensure!(scene.ingress("thief", "grab").await?.is_empty(), "the thief has an address");
    say("the thief still has nothing, the claim tenant/late still waits");

    step(6, "the tenant's Service B names the same claim");
    scene.service("tenant", "web-b", json!({ CLAIM: "web-ip" })).await?;
    let took = scene.served("tenant", "web-b", &ip).await?;
    say(&format!("Service tenant/web-b has the same {ip} after {} ms", took.as_millis()));
    let address = scene.address(&ip, |address| finished(address, "Associate")).await?;
    report(scene, &address).await?;

    step(7, "Service B lets go: the annotation is removed");
    scene.annotate("tenant", "web-b", json!({ CLAIM: null })).await?;
    let address = scene.address(&ip, |address| finished(address, "Disassociate")).await?;
    report(scene, &address).await?;
    scene.annotate("tenant", "web-b", json!({ CLAIM: "web-ip" })).await?;
    scene.served("tenant", "web-b", &ip).await?;
    let address = scene.address(&ip, |address| finished(address, "Associate")).await?;
    say("and takes it again");
    report(scene, &address).await?;

    step(8, "a witness watched the status of every Service, version by version");
    let timeline = scene.witness.timeline(&ip).await?;
    for holders in &timeline {
        let names: Vec<_> = holders.services.iter().map(String::as_str).collect();
        say(&format!("version {:>6}: {}", holders.version, names.join(" and ")));
    }
    let gaps = scene.witness.gaps(&ip).await?;
    ensure!(gaps.is_empty(), "nobody had {ip} at version {}", gaps.join(", "));
    ensure!(scene.ingress("thief", "grab").await?.is_empty(), "the thief has an address");
    say(&format!(
        "at none of the {} changes did nobody have {ip}, and the thief never got it",
        timeline.len()
    ));
    println!("\nEvery step held.");
    Ok(())
}

pub(super) fn step(number: u8, what: &str) {
    println!("{number}. {what}");
}

fn say(what: &str) {
    println!("     {what}");
}

fn only(holders: Vec<String>) -> Result<String> {
    ensure!(holders.len() == 1, "expected one holder, found {holders:?}");
    Ok(holders.into_iter().next().unwrap_or_default())
}

fn held(address: &IPAddress) -> Option<bool> {
    let status = address.status.as_ref()?;
    let condition = api::conditions::find(&status.conditions, api::conditions::types::HELD)?;
    Some(condition.status == "True")
}

fn finished(address: &IPAddress, direction: &str) -> bool {
    let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
    handoff.is_some_and(|handoff| {
        handoff.finished_at.is_some() && format!("{:?}", handoff.direction) == direction
    })
}

async fn report(scene: &Scene, address: &IPAddress) -> Result<()> {
    let handoff = address.status.as_ref().and_then(|status| status.last_handoff.as_ref());
    if let Some(handoff) = handoff
        && let Some(finished) = &handoff.finished_at
    {
        let took = finished.0.duration_since(handoff.started_at.0).as_millis();
        let unheld = handoff.unheld_milliseconds.unwrap_or_default();
        say(&format!(
            "lastHandoff: {:?} {:?}, {} -> {}, {took} ms, unheld {unheld} ms",
            handoff.direction, handoff.mode, handoff.from, handoff.to
        ));
        if let Some((jaeger, trace)) = scene.jaeger.as_ref().zip(handoff.trace_id.as_ref()) {
            trace::show(jaeger, trace).await?;
        }
    }
    Ok(())
}
