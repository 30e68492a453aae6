//! The `main` of every process that goes on until it is told to stop.

use std::process::ExitCode;

use plan::Brain;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::{Common, Logs};
use crate::trace::Traces;
use crate::{Feed, Settings, logs};

/// Runs a controller as this process: logs, signals, exit code. `build` makes the brain and says what to
/// watch; it is told the settings, for the namespace.
pub fn start<B: Brain>(
    controller: &'static str,
    args: &Common,
    build: impl FnOnce(&Settings) -> (B, Vec<Feed>),
) -> ExitCode {
    process(controller, &args.logs, |stop| alive(controller, args, stop, build))
}

/// Runs anything as this process, until it ends or a signal tells it to stop: logs, threads, signals, exit code.
pub fn process<F>(name: &'static str, logs: &Logs, work: impl FnOnce(CancellationToken) -> F) -> ExitCode
where
    F: Future<Output = Result<(), Box<dyn std::error::Error>>>,
{
    if let Err(error) = logs::init(logs) {
        eprintln!("{name}: {error}");
        return ExitCode::from(2);
    }
    // The work is waiting for answers; more threads than cores of a small node would only get in their way.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(async {
                let stop = CancellationToken::new();
                on_signals(stop.clone())?;
                work(stop).await
            });
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(()) => {
            tracing::info!(controller = name, "stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(controller = name, "{error}");
            ExitCode::FAILURE
        }
    }
}

async fn alive<B: Brain>(
    controller: &'static str,
    args: &Common,
    stop: CancellationToken,
    build: impl FnOnce(&Settings) -> (B, Vec<Feed>),
) -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings { stop, ..Settings::load(controller, args).await? };
    let traces = Traces::from_env(controller, &settings.instance).unwrap_or_else(|error| {
        // Who cannot say where traces go has addresses to serve all the same.
        tracing::warn!("no traces are exported: {error}");
        Traces::default()
    });
    let settings = Settings { traces: traces.clone(), ..settings };
    tracing::info!(
        controller,
        version = env!("CARGO_PKG_VERSION"),
        namespace = settings.namespace,
        instance = settings.instance,
        leader_elect = settings.leader_elect,
        "starting"
    );
    let (brain, feeds) = build(&settings);
    let ended = crate::run(brain, feeds, settings).await;
    traces.shut_down().await;
    Ok(ended?)
}

/// The first SIGTERM or SIGINT stops in good order; a second one ends the process by itself.
fn on_signals(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        for asked_before in [false, true] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if asked_before {
                std::process::exit(1);
            }
            stop.cancel();
        }
    });
    Ok(())
}
