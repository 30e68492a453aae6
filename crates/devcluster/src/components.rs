//! The table of what is built from Go modules.

/// A program of the control plane, built from a pinned Go module.
///
/// A further component is one more variant and one more row of [`Component::recipe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    Apiserver,
    /// Garbage collector, namespace, service account, quota and endpoint controllers.
    ControllerManager,
    /// What makes the node's packet filter lead Services to their pods.
    KubeProxy,
    /// The MetalLB controller, with MetalLB's CRDs beside it.
    MetallbController,
    /// The same, with a client that does not hold itself back.
    MetallbUnthrottled,
    /// MetalLB's announcer of addresses.
    MetallbSpeaker,
    /// The chart installer.
    Helm,
    /// The receiver of traces.
    Jaeger,
}

/// How one component is built.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// The name of the binary and of its cache folder.
    pub(crate) name: &'static str,
    /// The package that is built; empty where only the folders of a module are wanted.
    pub(crate) package: &'static str,
    /// Our module that pins everything.
    pub(crate) go_mod: &'static str,
    /// Its checksums.
    pub(crate) go_sum: &'static str,
    /// What the linker is told.
    pub(crate) ldflags: &'static str,
    /// Folders copied from a module beside the binary.
    pub(crate) extras: &'static [Extra],
}

/// A folder of a module that is needed at run time.
#[derive(Debug)]
pub(crate) struct Extra {
    /// The module that has it.
    pub(crate) module: &'static str,
    /// The folder inside the module.
    pub(crate) from: &'static str,
    /// The folder beside the binary that its files are copied to.
    pub(crate) to: &'static str,
}

/// The folder with MetalLB's CRDs, beside its controller.
pub(crate) const METALLB_CRDS: &str = "crds";
/// The folder with MetalLB's own install manifests, beside its controller.
pub(crate) const METALLB_MANIFESTS: &str = "manifests";

const KUBERNETES_MOD: &str = include_str!("../go/kubernetes/go.mod");
const KUBERNETES_SUM: &str = include_str!("../go/kubernetes/go.sum");
const KUBERNETES_LDFLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
    -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36";

const ETCD: Recipe = Recipe {
    name: "etcd",
    package: "go.etcd.io/etcd/server/v3",
    go_mod: include_str!("../go/etcd/go.mod"),
    go_sum: include_str!("../go/etcd/go.sum"),
    ldflags: "-s -w",
    extras: &[],
};

const APISERVER: Recipe = Recipe {
    name: "kube-apiserver",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
    go_mod: KUBERNETES_MOD,
    go_sum: KUBERNETES_SUM,
    ldflags: KUBERNETES_LDFLAGS,
    extras: &[],
};

const CONTROLLER_MANAGER: Recipe = Recipe {
    name: "kube-controller-manager",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    go_mod: KUBERNETES_MOD,
    go_sum: KUBERNETES_SUM,
    ldflags: KUBERNETES_LDFLAGS,
    extras: &[],
};

const KUBE_PROXY: Recipe = Recipe {
    name: "kube-proxy",
    package: "k8s.io/kubernetes/cmd/kube-proxy",
    go_mod: KUBERNETES_MOD,
    go_sum: KUBERNETES_SUM,
    ldflags: KUBERNETES_LDFLAGS,
    extras: &[],
};

const METALLB_CONTROLLER: Recipe = Recipe {
    name: "metallb-controller",
    package: "go.universe.tf/metallb/controller",
    go_mod: include_str!("../go/metallb/go.mod"),
    go_sum: include_str!("../go/metallb/go.sum"),
    ldflags: "-s -w",
    extras: &[
        Extra { module: "go.universe.tf/metallb", from: "config/crd/bases", to: METALLB_CRDS },
        Extra { module: "go.universe.tf/metallb", from: "config/manifests", to: METALLB_MANIFESTS },
    ],
};

/// MetalLB v0.15.2 with the controller-runtime of later releases: until v0.20 a client asked for at most 20 changes a
/// second, which MetalLB v0.16 (v0.25 in it) no longer does. What MetalLB itself does is the same.
const METALLB_UNTHROTTLED: Recipe = Recipe {
    name: "metallb-controller-unthrottled",
    go_mod: include_str!("../go/metallb-unthrottled/go.mod"),
    go_sum: include_str!("../go/metallb-unthrottled/go.sum"),
    ..METALLB_CONTROLLER
};

const METALLB_SPEAKER: Recipe = Recipe {
    name: "metallb-speaker",
    package: "go.universe.tf/metallb/speaker",
    extras: &[],
    ..METALLB_CONTROLLER
};

const HELM: Recipe = Recipe {
    name: "helm",
    package: "helm.sh/helm/v4/cmd/helm",
    go_mod: include_str!("../go/helm/go.mod"),
    go_sum: include_str!("../go/helm/go.sum"),
    ldflags: "-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1",
    extras: &[],
};

const JAEGER: Recipe = Recipe {
    name: "jaeger",
    package: "github.com/jaegertracing/jaeger/cmd/jaeger",
    go_mod: include_str!("../go/jaeger/go.mod"),
    go_sum: include_str!("../go/jaeger/go.sum"),
    ldflags: "-s -w",
    extras: &[],
};

/// The folder with the CRDs of Prometheus Operator.
pub(crate) const MONITORING_CRDS: &str = "crds";

/// The kinds of Prometheus Operator, without the operator.
pub(crate) const PROMETHEUS_OPERATOR: Recipe = Recipe {
    name: "prometheus-operator",
    package: "",
    go_mod: include_str!("../go/prometheus-operator/go.mod"),
    go_sum: include_str!("../go/prometheus-operator/go.sum"),
    ldflags: "",
    extras: &[Extra {
        module: "github.com/prometheus-operator/prometheus-operator",
        from: "example/prometheus-operator-crd",
        to: MONITORING_CRDS,
    }],
};

impl Component {
    /// Every component, in the order in which they are best built.
    pub const ALL: [Self; 9] = [
        Self::Etcd,
        Self::Apiserver,
        Self::ControllerManager,
        Self::KubeProxy,
        Self::MetallbController,
        Self::MetallbUnthrottled,
        Self::MetallbSpeaker,
        Self::Helm,
        Self::Jaeger,
    ];

    /// The name of the component's binary.
    pub fn name(self) -> &'static str {
        self.recipe().name
    }

    pub(crate) const fn recipe(self) -> &'static Recipe {
        match self {
            Self::Etcd => &ETCD,
            Self::Apiserver => &APISERVER,
            Self::ControllerManager => &CONTROLLER_MANAGER,
            Self::KubeProxy => &KUBE_PROXY,
            Self::MetallbController => &METALLB_CONTROLLER,
            Self::MetallbUnthrottled => &METALLB_UNTHROTTLED,
            Self::MetallbSpeaker => &METALLB_SPEAKER,
            Self::Helm => &HELM,
            Self::Jaeger => &JAEGER,
        }
    }
}
