//! The dashboard's `main`: feeds, pages, until it is told to stop.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use dashboard::args::Args;
use dashboard::auth::{AuthMode, Gate};
use dashboard::web::{self, App};
use dashboard::world::World;
use dashboard::{Live, auth, follow};
use runtime::secure::{self, Door};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let args = Args::parse();
    let logs = args.logs.clone();
    runtime::process("address-dashboard", &logs, |stop| alive(args, stop))
}

async fn alive(args: Args, stop: CancellationToken) -> Result<(), Box<dyn Error>> {
    let config = runtime::cluster(args.kubeconfig.as_deref()).await?;
    let given = args.placeholder_namespace.clone().filter(|namespace| !namespace.is_empty());
    let placeholders = given.unwrap_or_else(|| config.default_namespace.clone());
    let (client, requests) = runtime::counted_client(config)?;
    let live = Live::new(World::new(&placeholders));
    let Some(listener) = runtime::listen("--bind-address", &args.bind_address).await? else {
        return Err("--bind-address \"0\" serves nobody; give an address such as :8080".into());
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), address = %listener.local_addr()?, base_path = args.base_path,
        placeholder_namespace = placeholders, metallb_namespace = args.metallb_namespace, "starting"
    );

    let metrics = runtime::listen("--metrics-bind-address", &args.metrics_bind_address).await?;
    let door = Door::of(&args.metrics_security, &client).await?;

    // Ends with this function: what is left in it is aborted.
    let mut background = JoinSet::new();
    for (source, feed) in follow::feeds(&args.metallb_namespace) {
        background.spawn(follow::follow(Arc::clone(&live), client.clone(), source, feed));
    }
    let reviews = client.clone();
    background.spawn(follow::pulse(Arc::clone(&live), client));
    let beating = Arc::clone(&live);
    background.spawn(async move { beating.beat().await });

    let app = App::new(live, &args);
    if let Some(listener) = metrics {
        let router = web::metrics(&app, requests);
        background.spawn(async move {
            if let Err(error) = secure::serve(listener, router, door).await {
                tracing::error!("the metrics are not served any more: {error}");
            }
        });
    }
    let pages = match args.auth_mode {
        AuthMode::None => auth::open(web::pages(&app)),
        AuthMode::Kubernetes => {
            auth::guarded(web::pages(&app), &app, Gate::new(reviews, Arc::clone(app.live())))
        }
    };
    let router = web::router(&app, pages);
    tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        ended = web::serve(listener, router) => Ok(ended?),
        Some(Err(error)) = background.join_next() => Err(error.into()),
    }
}
