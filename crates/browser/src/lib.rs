//! Headless Chromium, for tests of what a person sees, and for screenshots.
//!
//! Chromium is the machine's (Debian's package `chromium`); it is driven by playwright-core in a node process, which npm
//! installs once ([`Browser::start`]) and which ends with this one. Every wait is for a condition, by playwright, with a
//! deadline.
//!
//! ```ignore
//! let browser = browser::Browser::start().await?;
//! let page = browser.open(browser::View::default()).await?;
//! page.goto("http://127.0.0.1:8080/").await?;
//! page.see("h1", "addresses").await?;
//! assert!(page.axe().await?.is_empty());
//! ```

mod modules;
mod page;
mod wire;

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use devcluster::binaries::on_path;
use serde_json::json;

pub use page::Page;
use wire::Wire;

const DRIVER: &str = include_str!("driver.mjs");
/// What Chromium's program may be called.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser without a window. It ends with the handle.
#[derive(Debug)]
pub struct Browser {
    wire: Wire,
    pages: AtomicU64,
}

/// How somebody looks at pages.
#[derive(Clone, Debug)]
pub struct View {
    /// Whether scripts run.
    pub javascript: bool,
    /// Whether the person likes it dark.
    pub dark: bool,
    /// In CSS pixels.
    pub width: u32,
    /// In CSS pixels.
    pub height: u32,
    /// Headers sent with each request.
    pub headers: Vec<(String, String)>,
}

impl Default for View {
    fn default() -> Self {
        Self { javascript: true, dark: false, width: 1280, height: 900, headers: Vec::new() }
    }
}

impl View {
    /// On a phone.
    pub fn phone() -> Self {
        Self { width: 390, height: 844, ..Self::default() }
    }

    /// On a tablet, upright.
    pub fn tablet() -> Self {
        Self { width: 768, height: 1024, ..Self::default() }
    }
}

impl Browser {
    /// Starts one; asks npm for what drives it if that was never done.
    ///
    /// # Errors
    /// When node, npm or Chromium are missing, with the way to get them, or when it does not start.
    pub async fn start() -> Result<Self> {
        let chromium = PROGRAMS.iter().find_map(|name| on_path(name));
        let chromium = chromium.context("chromium is missing (on Debian: apt-get install chromium)")?;
        let modules = tokio::task::spawn_blocking(modules::ensure).await??;
        let wire = Wire::start(DRIVER, &modules, &chromium).await?;
        Ok(Self { wire, pages: AtomicU64::new(0) })
    }

    /// Opens an empty page with cookies and a history of its own.
    ///
    /// # Errors
    /// When the browser has ended.
    pub async fn open(&self, view: View) -> Result<Page> {
        let number = self.pages.fetch_add(1, Ordering::Relaxed);
        let headers: serde_json::Map<_, _> =
            view.headers.into_iter().map(|(name, value)| (name, json!(value))).collect();
        let page = Page::new(self.wire.clone(), number);
        page.ask(
            "open",
            json!({
                "javascript": view.javascript, "dark": view.dark,
                "width": view.width, "height": view.height, "headers": headers,
            }),
        )
        .await?;
        Ok(page)
    }
}
