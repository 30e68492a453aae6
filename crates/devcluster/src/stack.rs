//! This project on the cluster: its charts installed, its controllers built and run with the charts' service accounts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cluster::Cluster;
use crate::process::Process;
use crate::{ControllerSpec, Error, Result, ports};

/// One of the two controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// `address-controller`.
    Core,
    /// `metallb-iad`.
    Driver,
}

impl Controller {
    /// The name of the part: what `cargo xtask stop` takes.
    pub const fn part(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Driver => "driver",
        }
    }

    /// The name of the chart, the binary and the service account.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "address-controller",
            Self::Driver => "metallb-iad",
        }
    }

    /// The namespace its chart is installed in; the driver's placeholders live there too.
    pub const fn namespace(self) -> &'static str {
        match self {
            Self::Core => "address-controller-system",
            Self::Driver => "metallb-iad-system",
        }
    }

    /// The folder of its chart.
    pub fn chart(self) -> PathBuf {
        workspace().join("chart").join(self.name())
    }
}

/// The root of the source tree this crate was built from.
pub fn workspace() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default()
}

/// The binaries of both controllers, and of the dashboard.
#[derive(Clone, Debug)]
pub struct Controllers {
    core: PathBuf,
    driver: PathBuf,
    dashboard: PathBuf,
}

/// The cargo that runs this program, if one does. It does not hear what it told this program of its own package: build
/// scripts would run anew, and half of the crates be built anew with them, each time another program calls.
pub fn cargo_command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let told = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(told) {
            command.env_remove(name);
        }
    }
    command
}

impl Controllers {
    /// Those of a folder, if one is given; else those of this source tree, built with or without optimisation.
    ///
    /// # Errors
    /// As [`Controllers::build`].
    pub async fn of(folder: Option<&Path>, release: bool) -> Result<Self> {
        match folder {
            Some(folder) => Ok(Self::of_folder(folder)),
            None => Self::build(release).await,
        }
    }

    /// Those of a folder, each by its program's name: built elsewhere, such as for an image.
    fn of_folder(folder: &Path) -> Self {
        Self {
            core: folder.join(Controller::Core.name()),
            driver: folder.join(Controller::Driver.name()),
            dashboard: folder.join("address-dashboard"),
        }
    }

    /// Builds them with cargo, optimised for benchmarks and unoptimised for everything else.
    ///
    /// # Errors
    /// When cargo fails; its words go to standard error.
    pub async fn build(release: bool) -> Result<Self> {
        let mut command = tokio::process::Command::from(cargo_command());
        command.current_dir(workspace()).args([
            "build",
            "--quiet",
            "--message-format=json-render-diagnostics",
        ]);
        for package in [Controller::Core.name(), Controller::Driver.name(), "dashboard"] {
            command.args(["--package", package]);
        }
        if release {
            command.arg("--release");
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let output = child.map_err(Error::io("running cargo"))?.wait_with_output().await;
        let output = output.map_err(Error::io("running cargo"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let built = |program: &str| {
            executables(&text).find(|path| path.file_name().is_some_and(|name| name == program))
        };
        let (core, driver) = (built(Controller::Core.name()), built(Controller::Driver.name()));
        match (core, driver, built("address-dashboard")) {
            (Some(core), Some(driver), Some(dashboard)) if output.status.success() => {
                Ok(Self { core, driver, dashboard })
            }
            _ => Err(Error::Controllers { status: output.status.to_string() }),
        }
    }

    /// The binary of one.
    pub fn binary(&self, controller: Controller) -> &Path {
        match controller {
            Controller::Core => &self.core,
            Controller::Driver => &self.driver,
        }
    }

    /// The binary of the dashboard.
    pub fn dashboard(&self) -> &Path {
        &self.dashboard
    }
}

/// The package of a chart in a folder, whatever its version is.
fn package(folder: &Path, name: &str) -> Result<PathBuf> {
    let wanted = format!("finding {name}-VERSION.tgz in {}", folder.display());
    let is_it = |file: &str| {
        let version = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".tgz"));
        version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    let entries = std::fs::read_dir(folder).map_err(Error::io(wanted.clone()))?;
    let found = entries.flatten().find(|entry| entry.file_name().to_str().is_some_and(is_it));
    found.map(|entry| entry.path()).ok_or_else(|| Error::io(wanted)(std::io::ErrorKind::NotFound.into()))
}

fn executables(messages: &str) -> impl Iterator<Item = PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
}

/// How a controller is to run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The part's name; the controller's own if empty.
    pub name: String,
    /// Further flags.
    pub args: Vec<String>,
    /// The kubeconfig; that of the chart's service account if none, straight to the API server.
    pub kubeconfig: Option<PathBuf>,
    /// Whether it takes part in the leader election.
    pub leader_elect: bool,
    /// Further variables of its environment.
    pub env: BTreeMap<String, String>,
}

impl Cluster {
    /// Installs both charts by helm, or upgrades them, with further arguments of helm (`--set` …).
    ///
    /// # Errors
    /// What helm said.
    pub async fn install_charts(&self, core: &[&str], driver: &[&str]) -> Result<()> {
        self.install_chart(Controller::Core, core).await?;
        self.install_chart(Controller::Driver, driver).await
    }

    /// Installs or upgrades one chart by helm.
    ///
    /// # Errors
    /// What helm said.
    pub async fn install_chart(&self, controller: Controller, args: &[&str]) -> Result<()> {
        let chart = self.chart(controller.name())?;
        let chart = chart.to_string_lossy();
        let mut all = vec!["upgrade", "--install", controller.name(), &chart];
        all.extend(["--namespace", controller.namespace(), "--create-namespace"]);
        all.extend(args);
        self.helm(&all).await.map(|_| ())
    }

    /// The chart of that name: a package, where the options named a folder of such, or else the folder in this tree.
    pub(crate) fn chart(&self, name: &str) -> Result<PathBuf> {
        match &self.charts {
            Some(folder) => package(folder, name),
            None => Ok(workspace().join("chart").join(name)),
        }
    }

    /// Runs a controller with its chart's service account, and waits until its caches are complete.
    ///
    /// # Errors
    /// When it ends before it is ready; the message has its last log lines.
    pub async fn run_controller(
        &self,
        controllers: &Controllers,
        controller: Controller,
        options: RunOptions,
    ) -> Result<Process> {
        let spec = self.controller_spec(controllers, controller, options).await?;
        self.spawn_controller(spec).await
    }

    /// What [`Self::run_controller`] runs.
    ///
    /// # Errors
    /// When the service account has no token: the chart is not installed.
    pub async fn controller_spec(
        &self,
        controllers: &Controllers,
        controller: Controller,
        options: RunOptions,
    ) -> Result<ControllerSpec> {
        let namespace = controller.namespace();
        let kubeconfig = match options.kubeconfig {
            Some(kubeconfig) => kubeconfig,
            None => self.kubeconfig_for(namespace, controller.name()).await?,
        };
        let (metrics, probes) = ports::pair()?;
        let name = if options.name.is_empty() { controller.part().to_owned() } else { options.name };
        let mut args = vec![
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            format!("--health-probe-bind-address=127.0.0.1:{probes}"),
            format!("--leader-elect={}", options.leader_elect),
        ];
        args.extend(options.args);
        Ok(ControllerSpec {
            binary: controllers.binary(controller).to_owned(),
            args,
            env: [("POD_NAMESPACE", namespace), ("POD_NAME", &name)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into_iter()
                .chain(options.env)
                .collect(),
            name,
            kubeconfig,
            ready_url: Some(format!("http://127.0.0.1:{probes}/readyz")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_by_its_name_and_not_by_a_longer_one() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["metallb-iad-extra-1.0.0.tgz", "metallb-iad-0.2.0.tgz", "metallb-iad-notes.txt"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let found = package(folder.path(), "metallb-iad").unwrap();
        assert_eq!(found.file_name().unwrap(), "metallb-iad-0.2.0.tgz");
        let error = package(folder.path(), "address-controller").unwrap_err().to_string();
        assert!(error.contains("address-controller-VERSION.tgz"), "{error}");
    }
}
