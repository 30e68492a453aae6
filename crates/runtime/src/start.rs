//! The `main` of both controllers.

use std::process::ExitCode;

use plan::Brain;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::Common;
use crate::{Feed, Settings, logs};

/// Runs a controller as this process: logs, signals, exit code. `build` makes the brain and says what to
/// watch; it is told the settings, for the namespace.
pub fn start<B: Brain>(
    controller: &'static str,
    args: &Common,
    build: impl FnOnce(&Settings) -> (B, Vec<Feed>),
) -> ExitCode {
    if let Err(error) = logs::init(args) {
        eprintln!("{controller}: {error}");
        return ExitCode::from(2);
    }
    // The work is waiting for answers; more threads than cores of a small node would only get in their way.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(alive(controller, args, build));
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(()) => {
            tracing::info!(controller, "stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(controller, "{error}");
            ExitCode::FAILURE
        }
    }
}

async fn alive<B: Brain>(
    controller: &'static str,
    args: &Common,
    build: impl FnOnce(&Settings) -> (B, Vec<Feed>),
) -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::load(controller, args).await?;
    tracing::info!(
        controller,
        version = env!("CARGO_PKG_VERSION"),
        namespace = settings.namespace,
        instance = settings.instance,
        leader_elect = settings.leader_elect,
        "starting"
    );
    on_signals(settings.stop.clone())?;
    let (brain, feeds) = build(&settings);
    crate::run(brain, feeds, settings).await?;
    Ok(())
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
