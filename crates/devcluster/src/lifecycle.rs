//! Starting and ending parts by name.

use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::command::ControllerSpec;
use crate::parts::Part;
use crate::process::Process;
use crate::state::{PartState, State};
use crate::{Error, Result, probe};

/// How long controllers may take to end in order.
const END_WITHIN: Duration = Duration::from_secs(3);
/// How long the store and its server may take: what they would still write is thrown away.
const END_STORE_WITHIN: Duration = Duration::from_millis(300);

impl Cluster {
    /// Starts a stopped part on the same ports and data, and waits until it is ready.
    pub async fn start_part(&self, part: impl AsRef<str>) -> Result<()> {
        let process = self.process(part)?;
        let started = process.start();
        self.record()?;
        started?;
        probe::ready(&process, &self.ca_pem).await
    }

    /// Makes the garbage collector and quotas know new definitions at once, as after installing a chart: they look for
    /// them when they start, and then only every 30 seconds.
    pub async fn rediscover(&self) -> Result<()> {
        self.kill(Part::ControllerManager).await?;
        self.start_part(Part::ControllerManager).await
    }

    /// Ends a part in order (SIGTERM, SIGKILL after ten seconds) and waits until it is gone.
    pub async fn stop(&self, part: impl AsRef<str>) -> Result<()> {
        self.process(part)?.stop().await;
        self.record()
    }

    /// Ends a part at once (SIGKILL) and waits until it is gone.
    pub async fn kill(&self, part: impl AsRef<str>) -> Result<()> {
        self.process(part)?.kill().await;
        self.record()
    }

    /// Freezes a part (SIGSTOP): its connections stay open and nothing answers.
    pub fn pause(&self, part: impl AsRef<str>) -> Result<()> {
        self.process(part)?.pause()
    }

    /// Lets a frozen part go on.
    pub fn resume(&self, part: impl AsRef<str>) -> Result<()> {
        self.process(part)?.resume()
    }

    /// The process of a part, or of a controller spawned here.
    pub fn process(&self, part: impl AsRef<str>) -> Result<Process> {
        let name = part.as_ref();
        let parts = self.parts();
        parts.get(name).cloned().ok_or_else(|| Error::NoSuchPart {
            name: name.to_owned(),
            known: parts.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        })
    }

    /// The names of all parts and controllers.
    pub fn part_names(&self) -> Vec<String> {
        self.parts().keys().cloned().collect()
    }

    /// Runs one of our own controllers as a part of the run, ended with it, and waits until it is ready.
    ///
    /// A name may be used again once its process has ended: the new one takes its place.
    pub async fn spawn_controller(&self, spec: ControllerSpec) -> Result<Process> {
        let node = self.network.as_ref().map(|network| network.node().clone());
        let process = Process::within(node, spec.into_command(self.run_dir()), self.detached);
        {
            let mut parts = self.parts();
            if parts.get(process.name()).is_some_and(Process::is_running) {
                return Err(Error::NameTaken { name: process.name().to_owned() });
            }
            process.start()?;
            parts.insert(process.name().to_owned(), process.clone());
        }
        self.record()?;
        probe::ready(&process, &self.ca_pem).await?;
        Ok(process)
    }

    /// Ends everything of the run, also when it is detached or attached to. A given run folder stays, with its logs.
    pub async fn down(mut self) -> Result<()> {
        self.owned = false;
        tokio::task::spawn_blocking(move || {
            self.end_all();
            State::remove(self.run_dir());
        })
        .await
        .map_err(|_| Error::WorkerGone("shutdown"))
    }

    /// Ends every part, also those that an attached process has started meanwhile. Blocks.
    pub(crate) fn end_all(&self) {
        let mut parts: Vec<Process> = self.parts().values().cloned().collect();
        if let Ok(state) = State::read(self.run_dir()) {
            let known = |part: &PartState| parts.iter().any(|process| process.pid() == part.pid);
            let others: Vec<_> = state.parts.values().filter(|part| !known(part)).cloned().collect();
            parts.extend(others.iter().map(|part| part.adopt(true)));
        }
        // Who works with the API server first, so that it can give back its lease and flush what it has to say.
        let store = [Part::Etcd, Part::Apiserver].map(Part::name);
        let (last, first): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|process| store.contains(&process.name()));
        end(&first, END_WITHIN);
        end(&last, END_STORE_WITHIN);
    }

    /// Writes `state.json`, keeping what another handle has started of this run.
    pub(crate) fn record(&self) -> Result<()> {
        let mut parts = State::read(self.run_dir()).map(|state| state.parts).unwrap_or_default();
        parts.retain(|_, part| part.lives());
        for (name, process) in self.parts().iter() {
            if process.is_running() || !parts.contains_key(name) {
                parts.insert(name.clone(), PartState::of(process));
            }
        }
        let state =
            State { server_url: self.server_url.clone(), admin_kubeconfig: self.admin_kubeconfig(), parts };
        state.write(self.run_dir())
    }
}

/// Ends processes together: SIGTERM, SIGKILL when the time is over. Blocks until they are gone.
fn end(processes: &[Process], within: Duration) {
    processes.iter().for_each(Process::terminate);
    let deadline = Instant::now() + within;
    for process in processes {
        process.end_by(deadline);
    }
}
