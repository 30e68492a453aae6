//! The models that the simulator works with are what the real API server and MetalLB are: the sequences of `sim::conform`
//! run for real, without any controller of ours, and each answer and each world at rest is among those the models allow.

mod play;
mod reality;
mod sentinel;

use devcluster::{Cluster, Options};
use futures::StreamExt as _;
use futures::stream;
use sim::conform::{Place, Scope, all};

use self::play::{Play, Until};
use self::sentinel::Sentinel;
use crate::rig;
use crate::shared::apply_crds;

/// How many sequences run beside each other.
const LANES: usize = 8;

#[test]
fn the_models_are_what_reality_is() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let _room = rig::room().await;
        let options = Options { metallb_unthrottled: true, ..Options::default() };
        let cluster = Cluster::start(options).await.unwrap();
        apply_crds(&cluster.admin(), &api::crd::all()).await;
        let sentinel = Sentinel::post(&cluster).await;
        let mut failures = Vec::new();

        let shared = all_of(&cluster, &sentinel, Scope::Shared);
        failures.extend(beside_each_other(shared, Until::End).await.into_iter().filter_map(Play::failure));
        for mut play in all_of(&cluster, &sentinel, Scope::Alone) {
            play.go(Until::End).await;
            failures.extend(play.failure());
        }
        let restarted = all_of(&cluster, &sentinel, Scope::Restart);
        let restarted = beside_each_other(restarted, Until::Stop).await;
        let metallb = cluster.process("metallb").unwrap();
        metallb.stop().await;
        let restarted = beside_each_other(restarted, Until::Start).await;
        cluster.start_part("metallb").await.unwrap();
        sentinel.hears().await;
        failures.extend(beside_each_other(restarted, Until::End).await.into_iter().filter_map(Play::failure));

        assert!(failures.is_empty(), "the model | reality\n{}", failures.join("\n"));
    });
}

fn all_of<'a>(cluster: &Cluster, sentinel: &'a Sentinel, scope: Scope) -> Vec<Play<'a>> {
    let numbered = all().into_iter().enumerate().filter(|(_, sequence)| sequence.scope == scope);
    let play = |(number, sequence)| Play::of(cluster.admin(), sentinel, sequence, Place::of(number));
    numbered.map(play).collect()
}

async fn beside_each_other(plays: Vec<Play<'_>>, until: Until) -> Vec<Play<'_>> {
    let plays = stream::iter(plays).map(|mut play| async move {
        play.go(until).await;
        play
    });
    plays.buffer_unordered(LANES).collect().await
}
