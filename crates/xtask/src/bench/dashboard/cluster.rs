//! As much of an API server as the dashboard asks for: lists, page by page, and watches.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;

use super::fleet::{Fleet, Many};

/// The version of everything at the beginning.
const FIRST: u64 = 1_000_000;
/// How many objects a page has if the client does not say.
const PAGE: u32 = 500;

/// A server that runs as long as this process.
pub(super) struct Server {
    /// Where it is.
    pub(super) url: String,
    world: Arc<World>,
}

struct World {
    fleet: Fleet,
    /// Addresses that changed, as events of a watch.
    changes: broadcast::Sender<Bytes>,
}

pub(super) async fn serve(fleet: Fleet) -> Result<Server> {
    let world = Arc::new(World { fleet, changes: broadcast::Sender::new(1024) });
    let router = Router::new().fallback(answer).with_state(Arc::clone(&world));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(Server { url, world })
}

impl Server {
    /// From now on so many addresses change a second.
    pub(super) fn change(&self, per_second: u32) {
        if per_second == 0 {
            return;
        }
        let world = Arc::clone(&self.world);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
            for step in 1.. {
                ticks.tick().await;
                let count = u64::from(world.fleet.len(Many::Addresses));
                let number = u32::try_from(step * 7_919 % count).unwrap_or_default();
                let object = Fleet::changed(number, FIRST + step);
                let line = format!("{}\n", json!({ "type": "MODIFIED", "object": object }));
                // Nobody may watch at this moment.
                let _ = world.changes.send(line.into());
            }
        });
    }
}

async fn answer(State(world): State<Arc<World>>, request: Request) -> Response {
    let path = request.uri().path();
    let pairs = request.uri().query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let query: HashMap<&str, &str> = pairs.collect();
    if path == "/version" {
        let version = json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "", "buildDate": "",
            "goVersion": "", "compiler": "", "platform": "",
        });
        return axum_json(&version);
    }
    let Some(many) = many(path, &query) else { return StatusCode::NOT_FOUND.into_response() };
    if query.get("watch").is_some_and(|watch| matches!(*watch, "true" | "1")) {
        return watch(&world, many);
    }
    axum_json(&list(&world.fleet, many, &query))
}

fn many(path: &str, query: &HashMap<&str, &str>) -> Option<Many> {
    match path.rsplit('/').next()? {
        "ipaddresses" => Some(Many::Addresses),
        "ipaddressclaims" => Some(Many::Claims),
        "ipaddressclasses" => Some(Many::Classes),
        "services" => Some(Many::Services),
        "ipaddresspools" => Some(Many::Pools),
        // All of them are about Services.
        "events" if query.get("fieldSelector").is_none_or(|fields| fields.ends_with("Service")) => {
            Some(Many::Events)
        }
        "events" => Some(Many::Nothing),
        _ => None,
    }
}

fn list(fleet: &Fleet, many: Many, query: &HashMap<&str, &str>) -> Value {
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<u32>().ok());
    let (from, limit) = (number("continue").unwrap_or(0), number("limit").filter(|limit| *limit > 0));
    let all = fleet.len(many);
    let to = all.min(from + limit.unwrap_or(PAGE.max(all)));
    let items: Vec<Value> = (from..to).map(|number| Fleet::object(many, number, FIRST)).collect();
    let mut metadata = json!({ "resourceVersion": FIRST.to_string() });
    if to < all {
        metadata["continue"] = to.to_string().into();
    }
    let kind = items.first().map_or("List", |item| item["kind"].as_str().unwrap_or_default());
    let version = items.first().map_or("v1", |item| item["apiVersion"].as_str().unwrap_or_default());
    json!({ "kind": format!("{kind}List"), "apiVersion": version, "metadata": metadata, "items": items })
}

/// A watch that tells of addresses that change, and of nothing else; it does not end.
fn watch(world: &World, many: Many) -> Response {
    let changes = (many == Many::Addresses).then(|| world.changes.subscribe());
    let lines = stream::unfold(changes, async |changes| {
        let Some(mut changes) = changes else { return std::future::pending().await };
        loop {
            match changes.recv().await {
                Ok(line) => return Some((Ok::<_, Infallible>(line), Some(changes))),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    });
    ([("content-type", "application/json")], Body::from_stream(lines)).into_response()
}

fn axum_json(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}
