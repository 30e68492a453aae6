//! What can go wrong, each error naming the thing and the way out.

use std::path::PathBuf;
use std::time::Duration;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a control plane could not be built, started or asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `go` is not installed.
    #[error(
        "`go` was not found on PATH, and {component} has to be built: install Go 1.26 or newer (https://go.dev/dl), \
         or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver"
    )]
    GoMissing {
        /// The component that needed building.
        component: &'static str,
    },
    /// `go build` ended with an error.
    #[error("building {component} failed, see {}; its last lines:\n{tail}", log.display())]
    Build {
        /// The component that was built.
        component: &'static str,
        /// The whole output of the build.
        log: PathBuf,
        /// The last lines of that output.
        tail: String,
    },
    /// The witness did not see everything.
    #[error("the witness of the Services' statuses missed something: {words}")]
    Witness {
        /// What happened.
        words: String,
    },
    /// `prometheus` is not installed.
    #[error("`prometheus` was not found on PATH: on Debian: apt-get install prometheus")]
    PrometheusMissing,
    /// Prometheus cannot be asked, or did not understand the question.
    #[error("asking Prometheus for {words}")]
    Prometheus {
        /// What was asked, and what became of it.
        words: String,
    },
    /// The network of a run could not be made, or not be used so.
    #[error("the network of the run: {words}")]
    Network {
        /// What was wrong, and the way out.
        words: String,
    },
    /// Our own controllers could not be built.
    #[error("building address-controller and metallb-iad failed ({status}); what cargo said stands above")]
    Controllers {
        /// How cargo ended.
        status: String,
    },
    /// A file or process operation failed.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Neither `XDG_CACHE_HOME` nor `HOME` is set.
    #[error("no place for the built binaries: set XDG_CACHE_HOME or HOME")]
    NoCacheFolder,
    /// A certificate could not be made.
    #[error("making the certificate for {name}: {source}")]
    Certificate {
        /// Whose certificate.
        name: String,
        /// The library's answer.
        source: rcgen::Error,
    },
    /// The TLS settings towards the API server were refused.
    #[error("setting up TLS towards the API server: {0}")]
    Tls(String),
    /// No free port was found.
    #[error("no free loopback port between {low} and {high}: end what listens there")]
    NoFreePort {
        /// The lowest port tried.
        low: u16,
        /// The highest port tried.
        high: u16,
    },
    /// A port was taken by someone else between the choice and its use.
    #[error("the port of {part} was taken by another process, see {}", log.display())]
    PortTaken {
        /// The part whose port it was.
        part: String,
        /// The part's log.
        log: PathBuf,
    },
    /// A part ended by itself while it was waited for.
    #[error("{part} ended by itself ({exit}), see {}; its last lines:\n{tail}", log.display())]
    Ended {
        /// The part.
        part: String,
        /// How it ended.
        exit: String,
        /// The part's log.
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },
    /// A condition did not come true in time.
    #[error("{what} did not come true within {} s, see {}", within.as_secs(), log.display())]
    NotReady {
        /// The awaited condition.
        what: String,
        /// The deadline.
        within: Duration,
        /// Where to look.
        log: PathBuf,
    },
    /// A part of that name does not exist.
    #[error("no part is named {name:?}: the parts are {known}")]
    NoSuchPart {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A part of that name exists already, and runs.
    #[error("a part named {name:?} runs already: stop it first or choose another name")]
    NameTaken {
        /// The name asked for.
        name: String,
    },
    /// The given run folder is in use.
    #[error("{} has a run that is up: attach to it, or take it down first", dir.display())]
    AlreadyUp {
        /// The folder.
        dir: PathBuf,
    },
    /// A process was expected to run.
    #[error("{part} is not running: start it first")]
    NotRunning {
        /// The part.
        part: String,
    },
    /// The API server refused a request.
    #[error("{what}: {source}")]
    Kube {
        /// What was asked.
        what: String,
        /// The server's or client's answer.
        source: Box<kube::Error>,
    },
    /// A kubeconfig could not be used.
    #[error("using the kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// A file is not what it should be.
    #[error("reading {}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// helm ended with an error.
    #[error("helm {args} failed ({status}): {stderr}")]
    Helm {
        /// Its arguments.
        args: String,
        /// Its exit status.
        status: String,
        /// What it wrote on standard error.
        stderr: String,
    },
    /// A worker of this crate ended; a bug.
    #[error("the {0} thread of devcluster has ended: this is a bug in devcluster")]
    WorkerGone(&'static str),
}

impl Error {
    /// Wraps a system error with what was attempted.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Wraps an API error with what was asked.
    pub(crate) fn kube(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Kube { what, source: Box::new(source) }
    }
}
