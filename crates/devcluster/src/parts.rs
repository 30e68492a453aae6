//! The parts of the control plane and how each is run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::command::CommandSpec;
use crate::components::Component;
use crate::options::{Families, Options};
use crate::pki::Pki;
use crate::ports::Ports;
use crate::{Error, Result, binaries, network};

/// A process of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The store.
    Etcd,
    /// The API server.
    Apiserver,
    /// kube-controller-manager.
    ControllerManager,
    /// The MetalLB controller.
    Metallb,
    /// MetalLB's speaker, which announces addresses on a [`crate::Network`].
    Speaker,
    /// kube-proxy, which leads packets to pods on a [`crate::Network`].
    KubeProxy,
}

impl Part {
    /// The part's name, as in `state.json` and in the names of logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::Metallb => "metallb",
            Self::Speaker => "speaker",
            Self::KubeProxy => "kube-proxy",
        }
    }
}

impl AsRef<str> for Part {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The controllers of kube-controller-manager that make sense without nodes.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller,\
    resourcequota-controller,clusterrole-aggregation-controller,endpointslice-controller,\
    validatingadmissionpolicy-status-controller";

/// A check that is listed only once every controller was made; without the API server until then, the process ends.
const CONTROLLERS_READY: &str = "validatingadmissionpolicy-status-controller";

const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
";

/// The namespace of MetalLB and its pools.
pub(crate) const METALLB_NAMESPACE: &str = "metallb-system";

/// Everything that the parts' command lines depend on.
pub(crate) struct Layout<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) ports: Ports,
    pub(crate) families: Families,
    pub(crate) balancer: Component,
    pub(crate) balancer_class: Option<&'a str>,
    pub(crate) apiserver_args: &'a [String],
}

impl<'a> Layout<'a> {
    pub(crate) fn new(dir: &'a Path, ports: Ports, options: &'a Options) -> Self {
        let families = if options.network.is_some() { Families::Ipv4Only } else { options.families };
        let balancer = options.balancer();
        let (balancer_class, apiserver_args) = (options.metallb_class.as_deref(), &options.apiserver_args);
        Self { dir, ports, families, balancer, balancer_class, apiserver_args }
    }

    /// The command of a part; builds its binary if need be.
    pub(crate) async fn command(&self, part: Part) -> Result<CommandSpec> {
        let (component, args, ready_url) = match part {
            Part::Etcd => {
                (Component::Etcd, self.etcd(), format!("http://127.0.0.1:{}/readyz", self.ports.etcd))
            }
            Part::Apiserver => {
                (Component::Apiserver, self.apiserver()?, format!("{}/readyz", self.server_url()))
            }
            Part::ControllerManager => (
                Component::ControllerManager,
                self.controller_manager(),
                format!("https://127.0.0.1:{}/healthz?verbose", self.ports.controller_manager),
            ),
            Part::Metallb => {
                (self.balancer, self.metallb(), format!("http://127.0.0.1:{}/metrics", self.ports.metallb))
            }
            Part::Speaker => (
                Component::MetallbSpeaker,
                self.speaker(),
                format!("http://127.0.0.1:{SPEAKER_PORT}/metrics"),
            ),
            Part::KubeProxy => (
                Component::KubeProxy,
                self.kube_proxy(),
                format!("http://127.0.0.1:{KUBE_PROXY_PORT}/healthz"),
            ),
        };
        // Memory is there, cores are few: collect garbage less often than Go would by itself.
        let mut env: BTreeMap<_, _> =
            [("HOME".to_owned(), self.path(".")), ("GOGC".to_owned(), "400".to_owned())].into();
        if part == Part::Speaker {
            env.insert("METALLB_POD_NAME".to_owned(), network::SPEAKER.to_owned());
        }
        Ok(CommandSpec {
            name: part.name().into(),
            program: binaries::ensure(component).await?,
            args,
            env,
            log: self.dir.join(format!("{part}.log")),
            ready_url: Some(ready_url),
            ready_text: (part == Part::ControllerManager).then(|| CONTROLLERS_READY.into()),
        })
    }

    pub(crate) fn server_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.apiserver)
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_string_lossy().into_owned()
    }

    fn etcd(&self) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peer = format!("http://127.0.0.1:{}", self.ports.etcd_peer);
        vec![
            format!("--data-dir={}", self.path(ETCD_DATA)),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // The data is thrown away with the run: durability against power loss would only cost time.
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ]
    }

    fn apiserver(&self) -> Result<Vec<String>> {
        let policy = self.dir.join("audit-policy.yaml");
        std::fs::write(&policy, AUDIT_POLICY).map_err(Error::io(format!("writing {}", policy.display())))?;
        let pki = Pki::at(self.dir);
        let mut args = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            format!("--secure-port={}", self.ports.apiserver),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            format!("--tls-cert-file={}", pki.server_certificate().display()),
            format!("--tls-private-key-file={}", pki.server_key().display()),
            format!("--client-ca-file={}", pki.ca().display()),
            format!("--service-account-key-file={}", pki.token_public_key().display()),
            format!("--service-account-signing-key-file={}", pki.token_key().display()),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            "--service-account-extend-token-expiration=false".into(),
            format!("--service-cluster-ip-range={}", self.families.service_ranges()),
            "--authorization-mode=RBAC".into(),
            "--enable-admission-plugins=NodeRestriction".into(),
            // Without it a stop waits for watches that nothing ends, and is cut short by SIGKILL.
            "--shutdown-watch-termination-grace-period=1s".into(),
            // Nobody reaches the server through its Service here; without this it insists on a public address.
            "--endpoint-reconciler-type=none".into(),
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", self.path(AUDIT_LOG)),
            // In megabytes: one file for the whole run, so that a reader misses nothing.
            "--audit-log-maxsize=4096".into(),
        ];
        args.extend(self.apiserver_args.iter().cloned());
        Ok(args)
    }

    fn controller_manager(&self) -> Vec<String> {
        let pki = Pki::at(self.dir);
        vec![
            format!("--kubeconfig={}", self.path(CONTROLLER_MANAGER_KUBECONFIG)),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", self.ports.controller_manager),
            format!("--tls-cert-file={}", pki.server_certificate().display()),
            format!("--tls-private-key-file={}", pki.server_key().display()),
            format!("--service-account-private-key-file={}", pki.token_key().display()),
            format!("--root-ca-file={}", pki.ca().display()),
            "--use-service-account-credentials".into(),
            "--leader-elect=false".into(),
            // By default a quota on a kind that is not known yet stays unusable for five minutes.
            "--resource-quota-sync-period=5s".into(),
            "--kube-api-qps=200".into(),
            "--kube-api-burst=400".into(),
            format!("--controllers={CONTROLLERS}"),
        ]
    }

    fn metallb(&self) -> Vec<String> {
        let mut args = vec![
            format!("-kubeconfig={}", self.path(METALLB_KUBECONFIG)),
            format!("-namespace={METALLB_NAMESPACE}"),
            "-webhook-mode=disabled".into(),
            format!("-port={}", self.ports.metallb),
        ];
        args.extend(self.served_class());
        args
    }

    /// What tells MetalLB's controller and speaker which Services are theirs.
    fn served_class(&self) -> Option<String> {
        self.balancer_class.map(|class| format!("-lb-class={class}"))
    }

    fn speaker(&self) -> Vec<String> {
        let mut args = vec![
            format!("-kubeconfig={}", self.path(SPEAKER_KUBECONFIG)),
            format!("-namespace={METALLB_NAMESPACE}"),
            format!("-node-name={}", network::NODE),
            "-host=127.0.0.1".into(),
            format!("-port={SPEAKER_PORT}"),
        ];
        args.extend(self.served_class());
        args
    }

    fn kube_proxy(&self) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.path(KUBE_PROXY_KUBECONFIG)),
            format!("--hostname-override={}", network::NODE),
            "--proxy-mode=nftables".into(),
            format!("--cluster-cidr={}", network::PODS),
            format!("--healthz-bind-address=127.0.0.1:{KUBE_PROXY_PORT}"),
            "--metrics-bind-address=127.0.0.1:10249".into(),
            // What is the machine's and not the namespace's is left as it is.
            "--conntrack-max-per-core=0".into(),
            "--conntrack-tcp-timeout-established=0s".into(),
            "--conntrack-tcp-timeout-close-wait=0s".into(),
        ]
    }
}

/// Where the speaker tells its metrics; the namespace has nobody else.
const SPEAKER_PORT: u16 = 7473;
/// Where kube-proxy tells how it is.
const KUBE_PROXY_PORT: u16 = 10256;

/// The kubeconfig of the cluster's administrator, in the run folder.
pub(crate) const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";
/// The kubeconfig of kube-controller-manager.
pub(crate) const CONTROLLER_MANAGER_KUBECONFIG: &str = "controller-manager.kubeconfig";
/// The kubeconfig of MetalLB.
pub(crate) const METALLB_KUBECONFIG: &str = "metallb.kubeconfig";
/// The kubeconfig of MetalLB's speaker.
pub(crate) const SPEAKER_KUBECONFIG: &str = "speaker.kubeconfig";
/// The kubeconfig of kube-proxy.
pub(crate) const KUBE_PROXY_KUBECONFIG: &str = "kube-proxy.kubeconfig";
/// The store's data, in the run folder.
pub(crate) const ETCD_DATA: &str = "etcd";
/// The API server's audit log: who asked for what.
pub(crate) const AUDIT_LOG: &str = "audit.log";

/// Who the parts are to the API server: file, user, group.
///
/// MetalLB is its own service account, so that its roles hold, of its namespace's group, so that admission policies know it;
/// by a certificate, which does not run out as tokens do.
pub(crate) const IDENTITIES: [(&str, &str, Option<&str>); 5] = [
    (ADMIN_KUBECONFIG, "admin", Some("system:masters")),
    (CONTROLLER_MANAGER_KUBECONFIG, "system:kube-controller-manager", None),
    (
        METALLB_KUBECONFIG,
        "system:serviceaccount:metallb-system:controller",
        Some("system:serviceaccounts:metallb-system"),
    ),
    (
        SPEAKER_KUBECONFIG,
        "system:serviceaccount:metallb-system:speaker",
        Some("system:serviceaccounts:metallb-system"),
    ),
    (KUBE_PROXY_KUBECONFIG, "system:kube-proxy", None),
];
