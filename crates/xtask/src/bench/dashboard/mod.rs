//! How fast the dashboard answers, and what it takes, at many objects.

mod cluster;
mod fleet;
mod visitors;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use devcluster::Controllers;
use serde_json::json;

use super::meter;
use super::meter::rounded;
use fleet::Fleet;

/// How long the dashboard may take to have seen everything.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// The dashboard itself, optimised, before an API server of our own that lists and changes objects out of memory: the real
/// one would take longer to be filled than everything else here.
#[derive(clap::Args)]
pub(super) struct Args {
    /// How many addresses, claims and Services, each.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    objects: u32,
    /// How many requests a second.
    #[arg(long, value_name = "N", default_value_t = 200)]
    rate: u32,
    /// How long each of both measurements lasts, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    seconds: u32,
    /// How many clients hear live updates while nothing changes.
    #[arg(long, value_name = "N", default_value_t = 500)]
    streams: u32,
    /// How many addresses change a second while pages are asked for.
    #[arg(long, value_name = "N", default_value_t = 10)]
    changes: u32,
}

impl Args {
    pub(super) async fn run(self) -> Result<()> {
        let controllers = Controllers::build(true).await?;
        let fleet = Fleet::new(self.objects);
        let cluster = cluster::serve(fleet.clone()).await?;
        let folder = tempfile::tempdir()?;
        let started = Instant::now();
        let dashboard = Running::start(controllers.dashboard(), &cluster.url, folder.path())?;
        dashboard.ready().await?;
        let ready = started.elapsed();
        let (pid, first) = (dashboard.child.id(), meter::cpu_seconds(dashboard.child.id())?);

        eprintln!("ready after {:.2} s; {} clients hear live updates", ready.as_secs_f64(), self.streams);
        let streams = visitors::listen(&dashboard.address, self.streams).await?;
        let before = meter::cpu_seconds(pid)?;
        tokio::time::sleep(Duration::from_secs(self.seconds.into())).await;
        let idle = (meter::cpu_seconds(pid)? - before) / f64::from(self.seconds);
        let heard = streams.end();

        eprintln!("{} requests a second for {} s", self.rate, self.seconds);
        cluster.change(self.changes);
        let before = meter::cpu_seconds(pid)?;
        let pages = fleet.pages();
        let answers = visitors::ask(&dashboard.address, &pages, self.rate, self.seconds).await?;
        let cpu = meter::cpu_seconds(pid)? - before;
        let asked: usize = answers.values().map(Vec::len).sum();
        let all: Vec<Duration> = answers.values().flatten().copied().collect();
        let each: serde_json::Map<_, _> =
            answers.into_iter().map(|(page, took)| (page, meter::spread(took))).collect();
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let per_request = cpu * 1000.0 / asked as f64;
        let mut cpu_by_page = serde_json::Map::new();
        for (kind, paths) in &pages {
            let before = meter::cpu_seconds(pid)?;
            for path in paths {
                visitors::get(&dashboard.address, path).await?;
            }
            #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
            let each = (meter::cpu_seconds(pid)? - before) * 1000.0 / paths.len() as f64;
            cpu_by_page.insert((*kind).to_owned(), rounded(each).into());
        }
        let line = json!({
            "bench": "dashboard",
            "n": self.objects,
            "ready_seconds": rounded(ready.as_secs_f64()),
            "ready_cpu_s": rounded(first),
            "requests": asked,
            "rate": self.rate,
            "changes_per_second": self.changes,
            "ms": meter::spread(all),
            "cpu_ms_per_request": rounded(per_request),
            "cpu_ms_by_page": cpu_by_page,
            "ms_by_page": each,
            "peak_rss_mb": rounded(meter::peak_rss_mb(pid)?),
            "streams": self.streams,
            "streams_heard": heard,
            "streams_cpu_percent": rounded(idle * 100.0),
        });
        println!("{line}");
        Ok(())
    }
}

/// The dashboard as a process of its own, ended with this.
struct Running {
    child: Child,
    /// Host and port of its pages.
    address: String,
}

impl Running {
    fn start(binary: &Path, server: &str, folder: &Path) -> Result<Self> {
        let kubeconfig = folder.join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": [{ "name": "bench", "cluster": { "server": server } }],
            "users": [{ "name": "bench", "user": {} }],
            "contexts": [{ "name": "bench", "context": { "cluster": "bench", "user": "bench" } }],
        });
        std::fs::write(&kubeconfig, text.to_string())?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(binary)
            .arg(format!("--bind-address={address}"))
            .arg(format!("--placeholder-namespace={}", fleet::PLACEHOLDERS))
            .arg("--log-level=warn")
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .spawn()
            .context("starting the dashboard")?;
        Ok(Self { child, address })
    }

    async fn ready(&self) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while !visitors::get(&self.address, "/readyz").await.is_ok_and(|status| status == 200) {
            if Instant::now() > deadline {
                bail!("the dashboard was not ready within {} s", READY_WITHIN.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
