//! How a control plane of a test's own is to be.

use std::path::PathBuf;

use devcluster::{Controller, Families, Jaeger, Network, Options};

/// How fast MetalLB's client may ask. Its decisions are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it likes, as since v0.16: no test has to wait for its walks.
    #[default]
    AsItLikes,
    /// As v0.15.2 is released: 20 requests a second.
    AsReleased,
}

/// How traces reach Jaeger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traces {
    /// By http, as if nothing is said.
    Http,
    /// By grpc.
    Grpc,
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
    /// The `spec.loadBalancerClass` that MetalLB and the driver serve, if any.
    pub balancer: Option<String>,
    /// Further flags of kube-apiserver.
    pub apiserver_args: Vec<String>,
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
    /// Whether a Jaeger runs beside it, to which the controllers send traces.
    pub traces: Option<Traces>,
    /// Further variables of the controllers' environment.
    pub env: Vec<(String, String)>,
    /// The network it runs in, where packets are to flow.
    pub network: Option<Network>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            dir: None,
            families: Families::default(),
            metallb: Pace::default(),
            balancer: None,
            apiserver_args: Vec::new(),
            proxies: false,
            controllers: true,
            leader_elect: true,
            core_args: Vec::new(),
            driver_args: Vec::new(),
            core_values: Vec::new(),
            driver_values: Vec::new(),
            traces: None,
            env: Vec::new(),
            network: None,
        }
    }
}

impl Setup {
    /// For tests that kill controllers: each behind a proxy, no election to wait for.
    pub fn proxied() -> Self {
        Self { proxies: true, leader_elect: false, ..Self::default() }
    }

    /// The controllers are told where Jaeger is, and not to wait long before they hand spans over.
    pub(super) fn send_traces_to(&mut self, jaeger: &Jaeger) {
        let (endpoint, protocol) = match self.traces {
            Some(Traces::Grpc) => (&jaeger.otlp_grpc, "grpc"),
            _ => (&jaeger.otlp_http, "http/protobuf"),
        };
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
            ("LOG_FORMAT", "json"),
        ];
        self.env.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    /// How its control plane is to be.
    pub fn options(&self) -> Options {
        Options {
            dir: self.dir.clone(),
            families: self.families,
            metallb_unthrottled: self.metallb == Pace::AsItLikes,
            metallb_class: self.balancer.clone(),
            apiserver_args: self.apiserver_args.clone(),
            network: self.network.clone(),
            ..Options::default()
        }
    }

    pub(super) fn args(&self, controller: Controller) -> Vec<String> {
        match controller {
            Controller::Core => self.core_args.clone(),
            Controller::Driver => {
                let class = self.balancer.as_ref().map(|class| format!("--lb-class={class}"));
                class.into_iter().chain(self.driver_args.iter().cloned()).collect()
            }
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
