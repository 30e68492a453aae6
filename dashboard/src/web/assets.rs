//! What pages load: from this binary, under names that change with their content.

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::App;

/// Kept for a year: another content has another name.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    hash: String,
}

/// The files, and what tells this process from another.
pub struct Assets {
    files: Vec<Asset>,
    boot: [u8; 16],
}

impl Default for Assets {
    fn default() -> Self {
        Self::new()
    }
}

impl Assets {
    /// The files of this binary.
    pub fn new() -> Self {
        Self::sealed_with(jiff::Timestamp::now().as_nanosecond())
    }

    /// The same, with a certain number in the place of the moment of the start.
    pub fn sealed_with(boot: i128) -> Self {
        let asset = |name, kind, bytes: &'static [u8]| Asset { name, kind, bytes, hash: hash(&[bytes]) };
        Self {
            files: vec![
                asset("app.css", "text/css; charset=utf-8", include_bytes!("../../assets/app.css")),
                asset("app.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/app.js")),
                asset("icon.svg", "image/svg+xml", include_bytes!("../../assets/icon.svg")),
            ],
            boot: boot.to_be_bytes(),
        }
    }

    /// Where a file is, within the base path.
    pub fn path(&self, name: &str) -> String {
        let file = self.files.iter().find(|file| file.name == name);
        file.map_or_else(String::new, |file| format!("/assets/{}/{}", file.hash, file.name))
    }

    /// A number that only this process knows how to make.
    pub fn seal(&self, number: u64) -> String {
        hash(&[&self.boot, &number.to_be_bytes()])
    }
}

fn hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let digest = hash.finalize();
    let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{number:016x}")
}

/// `/openapi.json`: what the answers are. It says nothing of any cluster, so it is open to all.
pub async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("../../assets/openapi.json"))
}

/// One file. Under an old name there is none: a page that still names it is to be loaded anew.
pub async fn asset(State(app): State<App>, Path((hash, name)): Path<(String, String)>) -> Response {
    let mut files = app.0.assets.files.iter();
    match files.find(|file| file.name == name && file.hash == hash) {
        Some(file) => ([(header::CONTENT_TYPE, file.kind), (header::CACHE_CONTROL, FOR_EVER)], file.bytes)
            .into_response(),
        None => (StatusCode::NOT_FOUND, "no such file in this version; load the page anew\n").into_response(),
    }
}
