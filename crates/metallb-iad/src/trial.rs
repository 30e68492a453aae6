//! The trial: a claim, a handoff and a release for real. What it does is decided in [`metallb::errand::trial`].

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use api::{ClaimKey, ServiceKey};
use clap::Args;
use metallb::errand::trial::{Part, Scene, Verdict, Wish, is_fresh, next};
use plan::{Kind, Object, Ref};
use runtime::{Hand, HandError};

/// How often one looks.
const EVERY: Duration = Duration::from_millis(200);
/// How long what is left may take to go, after a part that failed.
const CLEAR_WITHIN: Duration = Duration::from_secs(30);

/// Claim an address, give it to a Service, take it back, and free it again: what `helm test` runs.
///
/// It works as a tenant would, in a namespace of its own, under the rights of a kubeconfig or of the pod it runs in, and says
/// what it has seen. Claim, Service and the address made for them are gone afterwards, also when a part fails.
#[derive(Args)]
pub struct Trial {
    /// The namespace of the claim and the Service; not that of the placeholders.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: String,
    /// The name of both.
    #[arg(long, value_name = "NAME", default_value = "metallb-iad-trial")]
    name: String,
    /// The class; without it, the default one.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// The load balancer class that MetalLB serves; empty if it serves Services without one.
    #[arg(long, env = "LB_CLASS", value_name = "CLASS", default_value = "")]
    lb_class: String,
    /// How many seconds each part may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// The kubeconfig file; without it, what kubectl would use, or the pod's service account.
    #[arg(long, env = "KUBECONFIG_FILE", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Trial {
    /// Does it.
    pub fn run(self) -> ExitCode {
        let kubeconfig = self.kubeconfig.clone();
        runtime::once_anywhere("metallb-iad", "metallb-iad-trial", kubeconfig.as_deref(), async |hand| {
            self.play(&hand).await
        })
    }

    async fn play(&self, hand: &Hand) -> Result<(), Box<dyn Error>> {
        let within = Duration::from_secs(self.timeout);
        let mut known = Known::default();
        for part in Part::ALL {
            if let Err(error) = self.part(hand, part, within, &mut known).await {
                if let Err(left) = self.part(hand, Part::Free, CLEAR_WITHIN, &mut known).await {
                    println!("note: {left}");
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes and waits until a part is done.
    async fn part(
        &self,
        hand: &Hand,
        part: Part,
        within: Duration,
        known: &mut Known,
    ) -> Result<(), Box<dyn Error>> {
        let wish = self.wish();
        let deadline = Instant::now() + within;
        loop {
            let scene = known.look(hand, &wish).await?;
            let waits_for = match next(part, &scene, &wish) {
                Verdict::Done(line) => {
                    println!("{line}");
                    return Ok(());
                }
                Verdict::Wait(words) => words,
                Verdict::Write(action) => match hand.carry_out(*action).await {
                    Ok(()) => continue,
                    // Somebody else wrote: look again.
                    Err(HandError::Stale(words)) => words,
                    Err(error) => return Err(error.into()),
                },
            };
            if Instant::now() > deadline {
                return Err(format!("waited {} s for {waits_for}", within.as_secs()).into());
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    fn wish(&self) -> Wish {
        Wish {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            class: self.class.clone().filter(|class| !class.is_empty()),
            lb_class: Some(self.lb_class.clone()).filter(|class| !class.is_empty()),
        }
    }
}

/// The address that the claim got, which the claim tells no more when it is gone.
#[derive(Default)]
struct Known {
    address: Option<String>,
    fresh: bool,
}

impl Known {
    async fn look(&mut self, hand: &Hand, wish: &Wish) -> Result<Scene, HandError> {
        let mut scene = Scene::default();
        if let Some(Object::Claim(claim)) =
            hand.get(&Ref::claim(&ClaimKey::new(&wish.namespace, &wish.name))).await?
        {
            scene.claim = Some(claim);
        }
        if let Some(Object::Service(service)) =
            hand.get(&Ref::service(&ServiceKey::new(&wish.namespace, &wish.name))).await?
        {
            scene.service = Some(service);
        }
        let told = scene.claim.as_ref().and_then(|claim| claim.status.as_ref()?.addresses.first());
        let news =
            told.map(|address| address.name.clone()).filter(|name| self.address.as_ref() != Some(name));
        if let Some(name) = &news {
            self.address = Some(name.clone());
        }
        if let Some(name) = self.address.clone() {
            let reference = Ref { kind: Kind::Address, namespace: None, name };
            if let Some(Object::Address(address)) = hand.get(&reference).await? {
                if let (Some(_), Some(claim)) = (news, &scene.claim) {
                    self.fresh = is_fresh(&address, claim);
                }
                scene.address = Some(address);
            }
        }
        scene.fresh = self.fresh;
        Ok(scene)
    }
}
