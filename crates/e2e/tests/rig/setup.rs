//! How a control plane of a test's own is to be.

use std::path::PathBuf;

use devcluster::{Controller, Families, Options};

/// How fast MetalLB's client may ask. Its decisions are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it likes, as since v0.16: no test has to wait for its walks.
    #[default]
    AsItLikes,
    /// As v0.15.2 is released: 20 requests a second.
    AsReleased,
}

/// What [`super::Rig::own`] is asked for; the default is what the shared one has.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The run folder; a temporary one if none, kept when the test fails.
    pub dir: Option<PathBuf>,
    /// The address families of Services.
    pub families: Families,
    /// How fast MetalLB may ask.
    pub metallb: Pace,
    /// Whether each controller talks to the API server through a proxy of its own.
    pub proxies: bool,
    /// Whether the controllers are started at once.
    pub controllers: bool,
    /// Whether they take part in the leader election.
    pub leader_elect: bool,
    /// Further flags of the core.
    pub core_args: Vec<String>,
    /// Further flags of the driver.
    pub driver_args: Vec<String>,
    /// Values of the core's chart, as `name=value`.
    pub core_values: Vec<String>,
    /// Values of the driver's chart, as `name=value`.
    pub driver_values: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            dir: None,
            families: Families::default(),
            metallb: Pace::default(),
            proxies: false,
            controllers: true,
            leader_elect: true,
            core_args: Vec::new(),
            driver_args: Vec::new(),
            core_values: Vec::new(),
            driver_values: Vec::new(),
        }
    }
}

impl Setup {
    /// For tests that kill controllers: each behind a proxy, no election to wait for.
    pub fn proxied() -> Self {
        Self { proxies: true, leader_elect: false, ..Self::default() }
    }

    pub(super) fn options(&self) -> Options {
        Options {
            dir: self.dir.clone(),
            families: self.families,
            metallb_unthrottled: self.metallb == Pace::AsItLikes,
            ..Options::default()
        }
    }

    pub(super) fn args(&self, controller: Controller) -> Vec<String> {
        match controller {
            Controller::Core => self.core_args.clone(),
            Controller::Driver => self.driver_args.clone(),
        }
    }

    pub(super) fn core_helm(&self) -> Vec<&str> {
        helm(&self.core_values)
    }

    pub(super) fn driver_helm(&self) -> Vec<&str> {
        helm(&self.driver_values)
    }
}

fn helm(values: &[String]) -> Vec<&str> {
    values.iter().flat_map(|value| ["--set", value.as_str()]).collect()
}
