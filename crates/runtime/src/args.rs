//! The flags of both controllers (contract §7). Each has an environment variable of its own.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// What is logged, and how.
#[derive(Args, Clone, Debug)]
pub struct Logs {
    /// How log lines look.
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// Which log lines are written: error, warn, info, debug, trace, or tracing directives.
    #[arg(long, env = "LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

/// Who may read the metrics.
#[derive(Args, Clone, Debug, Default)]
pub struct MetricsSecurity {
    /// Serve /metrics by HTTPS only, and only to who brings a token of the cluster and may get the path /metrics.
    #[arg(
        long, env = "METRICS_SECURE", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true"
    )]
    pub metrics_secure: bool,
    /// The folder with tls.crt and tls.key for --metrics-secure; without it, a certificate is made at each start.
    #[arg(long, env = "METRICS_CERT_PATH", value_name = "FOLDER")]
    pub metrics_cert_path: Option<PathBuf>,
}

/// The flags that both controllers have.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Take part in a leader election; without it, this process decides at once.
    #[arg(
        long, env = "LEADER_ELECT", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true"
    )]
    pub leader_elect: bool,
    /// Where /metrics is served; "0" turns it off.
    #[arg(long, env = "METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: String,
    /// Who may read them.
    #[command(flatten)]
    pub metrics_security: MetricsSecurity,
    /// Where /healthz and /readyz are served; "0" turns them off.
    #[arg(long, env = "HEALTH_PROBE_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8081")]
    pub health_probe_bind_address: String,
    /// The kubeconfig file; without it, what kubectl would use, or the pod's service account.
    #[arg(long, env = "KUBECONFIG_FILE", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// What is logged.
    #[command(flatten)]
    pub logs: Logs,
    /// How many keys are worked on at the same time.
    #[arg(
        long, env = "WORKERS", value_name = "COUNT", default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    pub workers: u16,
    /// The namespace this process runs in: its lease is there. Without it, the service account's, or the
    /// kubeconfig's.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The name of this process in events and in the lease; without it, the host's name.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,
}

/// The flags of a command that an admin runs once.
#[derive(Args, Clone, Debug)]
pub struct Admin {
    /// The kubeconfig file; without it, what kubectl would use.
    #[arg(long, env = "KUBECONFIG_FILE", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; without it, the current one.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Say what would be done, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// How an address changes hands (contract §11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HandoffArg {
    /// Two holders for a moment, wherever that is possible.
    #[default]
    Auto,
    /// None for a moment: for whoever cannot have sharing keys.
    Gap,
}

/// Whether addresses that nobody claimed are written down (contract §12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Inventory {
    /// They become addresses that nobody can be bound to.
    #[default]
    Observe,
    /// They do not.
    Off,
}

/// The flags that only the MetalLB driver has.
#[derive(Args, Clone, Debug)]
pub struct Driver {
    /// The namespace of the placeholder Services; without it, the namespace this process runs in.
    #[arg(long, env = "PLACEHOLDER_NAMESPACE", value_name = "NAMESPACE")]
    pub placeholder_namespace: Option<String>,
    /// The namespace of MetalLB and its pools.
    #[arg(long, env = "METALLB_NAMESPACE", value_name = "NAMESPACE", default_value = "metallb-system")]
    pub metallb_namespace: String,
    /// The load balancer class that MetalLB serves; empty if it serves Services without one.
    #[arg(long, env = "LB_CLASS", value_name = "CLASS", default_value = "")]
    pub lb_class: String,
    /// Hold a Service that is being deleted until its address is held again.
    #[arg(
        long, env = "HOLD_ON_DELETE", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true"
    )]
    pub hold_on_delete: bool,
    /// How an address changes hands.
    #[arg(long, env = "HANDOFF", value_enum, default_value_t)]
    pub handoff: HandoffArg,
    /// Whether addresses that nobody claimed are written down.
    #[arg(long, env = "INVENTORY", value_enum, default_value_t)]
    pub inventory: Inventory,
    /// Give plain load balancer Services a claim of their own.
    #[arg(
        long, env = "AUTO_CLAIM", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true"
    )]
    pub auto_claim: bool,
}

impl Driver {
    /// The load balancer class, if there is one.
    pub fn lb_class(&self) -> Option<String> {
        Some(self.lb_class.clone()).filter(|class| !class.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        driver: Driver,
    }

    #[rstest]
    #[case(&[], false, true)]
    #[case(&["--leader-elect"], true, true)]
    #[case(&["--leader-elect=false", "--hold-on-delete=false"], false, false)]
    #[case(&["--leader-elect=true", "--hold-on-delete"], true, true)]
    fn go_style_booleans(#[case] args: &[&str], #[case] elect: bool, #[case] hold: bool) {
        let cli = Cli::try_parse_from(std::iter::once("x").chain(args.iter().copied())).unwrap();
        assert_eq!((cli.common.leader_elect, cli.driver.hold_on_delete), (elect, hold));
    }

    #[test]
    fn defaults_are_the_go_implementations() {
        let cli = Cli::try_parse_from(["x"]).unwrap();
        assert_eq!(cli.common.metrics_bind_address, ":8080");
        assert_eq!(cli.common.health_probe_bind_address, ":8081");
        assert_eq!(cli.driver.metallb_namespace, "metallb-system");
        assert_eq!(cli.driver.lb_class(), None);
        assert_eq!(cli.driver.handoff, HandoffArg::Auto);
    }

    #[rstest]
    #[case("--workers=0")]
    #[case("--handoff=overlap-sometimes")]
    fn nonsense_is_refused(#[case] arg: &str) {
        assert!(Cli::try_parse_from(["x", arg]).is_err());
    }
}
