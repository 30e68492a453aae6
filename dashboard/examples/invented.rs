//! The dashboard over a cluster that never was, to be looked at without one:
//! `cargo run -p dashboard --example invented -- [COUNT]`. Shows it on <http://127.0.0.1:8099>.

#![expect(clippy::unwrap_used, reason = "an example ends at the first thing that goes wrong")]
#![allow(dead_code, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../tests/it/invented/mod.rs"]
mod invented;

use clap::Parser;
use dashboard::args::Args;
use dashboard::{auth, web};

#[tokio::main]
async fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let (count, flags) = match given.split_first() {
        Some((first, rest)) if first.parse::<u32>().is_ok() => (first.parse().unwrap(), rest.to_vec()),
        _ => (0, given),
    };
    let defaults = ["address-dashboard", "--bind-address=127.0.0.1:8099"].map(str::to_owned);
    let traces = "--trace-url-template=https://traces.example/trace/{trace_id}".to_owned();
    let args = Args::parse_from(defaults.into_iter().chain([traces]).chain(flags));
    let live = if count == 0 { invented::small() } else { invented::large(count) }.live();
    let beating = live.clone();
    tokio::spawn(async move { beating.beat().await });
    let app = web::App::new(live, &args).frozen(invented::NOW.parse().unwrap());
    let router = web::router(&app, auth::open(web::pages(&app)));
    let listener = tokio::net::TcpListener::bind(&args.bind_address).await.unwrap();
    println!("http://{}{}/", listener.local_addr().unwrap(), args.base_path);
    web::serve(listener, router).await.unwrap();
}
