//! The errands: what is read for them, and how their steps are done. What the steps are is decided in
//! [`metallb::errand`].

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use api::{ClaimKey, ServiceKey};
use clap::{Args, Subcommand};
use metallb::errand::{Errand as Plan, Step, Write, adopt, migrate, release};
use plan::{Kind, Object, Ref};
use runtime::args::Admin;
use runtime::{Hand, HandError};

/// How often one may be overtaken by others before one gives up.
const PATIENCE: usize = 10;
/// How often one step is done: somebody who puts it back does so each time.
const TIMES: usize = 3;

/// What an admin may have done once.
#[derive(Subcommand)]
pub enum Errand {
    Migrate(Migrate),
    Adopt(Adopt),
    Release(Release),
    Trial(crate::trial::Trial),
}

/// Migrate classes of the old form, spec.parameters.addresses, to the pool they were rendered to.
///
/// Of each such class it takes the owner references off the pool and the L2 advertisement iad-<class>, and then
/// sets spec.parameters to {pool: iad-<class>}. Until then the driver makes no new reservations of the class; what exists
/// stays held all along. Run again, it does what is left to do.
#[derive(Args)]
pub struct Migrate {
    /// Only this class; without it, every class of this driver.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// The namespace of MetalLB and its pools.
    #[arg(long, env = "METALLB_NAMESPACE", value_name = "NAMESPACE", default_value = "metallb-system")]
    metallb_namespace: String,
    #[command(flatten)]
    admin: Admin,
}

/// Turn what a running Service has into a claim, with the traffic untouched.
///
/// It creates the claim in the Service's namespace, pins the Service to the IPs it has and lets it name the claim, and
/// writes the IPs into the ledger as the claim's. From then on they are reserved: the driver holds them when the Service
/// goes. An annotation that names a pool, and spec.loadBalancerIP, are taken off in the write that pins. What cannot be
/// served by a claim is refused before anything is written. Run again, it does what is left to do.
#[derive(Args)]
pub struct Adopt {
    /// The Service, as NAMESPACE/NAME.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = service_key)]
    service: ServiceKey,
    /// The name of the claim to make.
    #[arg(long, value_name = "NAME")]
    claim: String,
    /// The class; without it, the one whose pool the IPs are of.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// The namespace of MetalLB and its pools.
    #[arg(long, env = "METALLB_NAMESPACE", value_name = "NAMESPACE", default_value = "metallb-system")]
    metallb_namespace: String,
    #[command(flatten)]
    admin: Admin,
}

fn service_key(text: &str) -> Result<ServiceKey, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ServiceKey::new(namespace, name))
        }
        _ => Err("write it as NAMESPACE/NAME".to_owned()),
    }
}

/// Before an uninstall: take away everything that only the driver could take away later.
///
/// Stop the driver first. Then every Service and every address can be deleted without it: finalizers, the marker that
/// makes a pin the driver's, and sharing keys go. Services keep their IPs by their pins, which are their own from then on;
/// placeholders stay and hold the addresses that no Service has. A driver installed later takes all of it up again, with the
/// same IPs. Run again, it does what is left to do.
#[derive(Args)]
pub struct Release {
    /// Of all Services and addresses of the cluster.
    #[arg(long, required = true)]
    all: bool,
    /// Although a driver runs, or a handoff is under way. An address may be with nobody for a moment then.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    admin: Admin,
}

impl Errand {
    /// Does it.
    pub fn run(self) -> ExitCode {
        match self {
            Self::Trial(trial) => trial.run(),
            Self::Migrate(args) => go("migrate", &args.admin, async |hand| {
                let read = async || args.plan(&hand).await;
                carry_out(&hand, args.admin.dry_run, read).await
            }),
            Self::Adopt(args) => go("adopt", &args.admin, async |hand| {
                let read = async || args.plan(&hand).await;
                carry_out(&hand, args.admin.dry_run, read).await
            }),
            Self::Release(args) => go("release", &args.admin, async |hand| {
                args.check_stopped(&hand).await?;
                let read = async || args.plan(&hand).await;
                carry_out(&hand, args.admin.dry_run, read).await
            }),
        }
    }
}

fn go(name: &str, admin: &Admin, errand: impl AsyncFnOnce(Hand) -> Result<(), Box<dyn Error>>) -> ExitCode {
    runtime::once("metallb-iad", &format!("metallb-iad-{name}"), admin, errand)
}

impl Migrate {
    async fn plan(&self, hand: &Hand) -> Result<Plan, HandError> {
        let namespace = &self.metallb_namespace;
        let mut scene = migrate::Scene::default();
        for object in hand.list(Kind::Class, None).await? {
            if let Object::Class(class) = object {
                scene.classes.push(class);
            }
        }
        for object in hand.list(Kind::Pool, Some(namespace)).await? {
            if let Object::Pool(pool) = object {
                scene.pools.push(pool);
            }
        }
        for kind in ["L2Advertisement", "BGPAdvertisement"] {
            scene.advertisements.extend(hand.list_foreign(kind, namespace).await?.into_iter().map(Arc::new));
        }
        Ok(migrate::plan(&scene, self.class.as_deref()))
    }
}

impl Adopt {
    async fn plan(&self, hand: &Hand) -> Result<Plan, HandError> {
        let namespace = &self.metallb_namespace;
        let claim = ClaimKey::new(&self.service.namespace, &self.claim);
        let mut scene = adopt::Scene { metallb_namespace: namespace.clone(), ..adopt::Scene::default() };
        for kind in [Kind::Service, Kind::Address, Kind::Class, Kind::Namespace, Kind::Pool] {
            for object in hand.list(kind, (kind == Kind::Pool).then_some(namespace)).await? {
                scene.enter(object);
            }
        }
        if let Some(Object::Claim(claim)) = hand.get(&Ref::claim(&claim)).await? {
            scene.claim = Some(claim);
        }
        let wish = adopt::Wish {
            service: self.service.clone(),
            claim: self.claim.clone(),
            class: self.class.clone(),
        };
        Ok(adopt::plan(&scene, &wish))
    }
}

impl Release {
    /// A driver that runs would put everything back.
    async fn check_stopped(&self, hand: &Hand) -> Result<(), Box<dyn Error>> {
        let Some(leader) = hand.leader("metallb-iad").await? else { return Ok(()) };
        let words = format!("the driver runs: Lease {leader} and renewed");
        if self.force || self.admin.dry_run {
            println!("note: {words}");
            return Ok(());
        }
        Err(format!("{words}; scale its Deployment to 0 first, or give --force").into())
    }

    async fn plan(&self, hand: &Hand) -> Result<Plan, HandError> {
        let mut scene = release::Scene::default();
        for kind in [Kind::Service, Kind::Address, Kind::Class] {
            for object in hand.list(kind, None).await? {
                match object {
                    Object::Service(service) => scene.services.push(service),
                    Object::Address(address) => scene.addresses.push(address),
                    Object::Class(class) => scene.classes.push(class),
                    _ => {}
                }
            }
        }
        Ok(release::plan(&scene, self.force))
    }
}

/// Plans, does the steps one by one, and plans again, until nothing is left. Tells each step when it is done.
async fn carry_out(
    hand: &Hand,
    dry_run: bool,
    plan: impl AsyncFn() -> Result<Plan, HandError>,
) -> Result<(), Box<dyn Error>> {
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let mut overtaken = 0;
    let mut notes: Vec<String> = Vec::new();
    loop {
        let plan = plan().await?;
        // What there was to know at first is worth knowing when all is done.
        notes.extend(plan.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>());
        if dry_run || plan.steps.is_empty() {
            return conclude(&plan, &notes, done.values().sum());
        }
        for step in plan.steps {
            // Planned anew now that the steps before it are done.
            if step.write == Write::Later {
                break;
            }
            let times = done.get(&step.line).copied().unwrap_or_default();
            if times == TIMES {
                return Err(
                    format!("{}: somebody puts it back each time; is a driver running?", step.line).into()
                );
            }
            match write(hand, &step).await {
                Ok(()) => {
                    println!("{}", step.line);
                    done.insert(step.line, times + 1);
                    overtaken = 0;
                }
                // Somebody else wrote: plan anew.
                Err(HandError::Stale(_)) if overtaken < PATIENCE => {
                    overtaken += 1;
                    break;
                }
                Err(error) => return Err(format!("{}: {error}", step.line).into()),
            }
        }
    }
}

async fn write(hand: &Hand, step: &Step) -> Result<(), HandError> {
    match &step.write {
        Write::Known(action) => hand.carry_out((**action).clone()).await,
        Write::Foreign { object, body } => hand.patch_foreign(object, body.clone()).await,
        Write::Later => Err(HandError::Stale("the steps before it come first".to_owned())),
    }
}

/// Says what there is to know, and what was not done.
fn conclude(plan: &Plan, notes: &[String], done: usize) -> Result<(), Box<dyn Error>> {
    for step in &plan.steps {
        println!("{}", step.line);
    }
    for note in notes {
        println!("note: {note}");
    }
    match (plan.steps.len(), done) {
        (0, 0) if plan.refused.is_empty() => println!("nothing to do"),
        (0, 0) => {}
        (0, done) => println!("done in {}", steps(done)),
        (planned, _) => println!("dry run: {}, nothing was written", steps(planned)),
    }
    if plan.refused.is_empty() {
        Ok(())
    } else {
        Err(format!("refused: {}", plan.refused.join("\nrefused: ")).into())
    }
}

fn steps(count: usize) -> String {
    if count == 1 { "1 step".to_owned() } else { format!("{count} steps") }
}
