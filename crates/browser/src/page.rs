//! One page, and what a person does with it.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::wire::Wire;

/// A page with cookies of its own. Elements are named by CSS selectors, as playwright takes them.
#[derive(Debug)]
pub struct Page {
    wire: Wire,
    number: u64,
}

impl Page {
    pub(crate) fn new(wire: Wire, number: u64) -> Self {
        Self { wire, number }
    }

    pub(crate) async fn ask(&self, op: &str, mut request: Value) -> Result<Value> {
        request["op"] = op.into();
        request["page"] = self.number.into();
        let shown = request.to_string();
        self.wire.ask(request).await.with_context(|| format!("the browser was asked for {shown}"))
    }

    async fn told<T: DeserializeOwned>(&self, op: &str, request: Value) -> Result<T> {
        Ok(serde_json::from_value(self.ask(op, request).await?)?)
    }

    /// Goes to an address; returns the status of the answer.
    pub async fn goto(&self, url: &str) -> Result<u16> {
        self.told("goto", json!({ "url": url })).await
    }

    /// Asks for the page again; returns the status of the answer.
    pub async fn reload(&self) -> Result<u16> {
        self.told("reload", json!({})).await
    }

    /// Waits until an element with this text in it can be seen.
    pub async fn see(&self, selector: &str, text: &str) -> Result<()> {
        self.ask("see", json!({ "selector": selector, "text": text })).await.map(drop)
    }

    /// Waits until no element with this text in it can be seen.
    pub async fn gone(&self, selector: &str, text: &str) -> Result<()> {
        self.ask("gone", json!({ "selector": selector, "text": text })).await.map(drop)
    }

    /// Clicks the first element with this text in it.
    pub async fn click(&self, selector: &str, text: &str) -> Result<()> {
        self.ask("click", json!({ "selector": selector, "text": text })).await.map(drop)
    }

    /// Writes into a field.
    pub async fn fill(&self, selector: &str, value: &str) -> Result<()> {
        self.ask("fill", json!({ "selector": selector, "value": value })).await.map(drop)
    }

    /// Chooses an option by its value.
    pub async fn select(&self, selector: &str, value: &str) -> Result<()> {
        self.ask("select", json!({ "selector": selector, "value": value })).await.map(drop)
    }

    /// Presses a key, such as `Enter` or `Tab`.
    pub async fn press(&self, key: &str) -> Result<()> {
        self.ask("press", json!({ "key": key })).await.map(drop)
    }

    /// The texts of all elements that can be seen.
    pub async fn texts(&self, selector: &str) -> Result<Vec<String>> {
        self.told("texts", json!({ "selector": selector })).await
    }

    /// An attribute of all elements.
    pub async fn attributes(&self, selector: &str, name: &str) -> Result<Vec<String>> {
        self.told("attributes", json!({ "selector": selector, "name": name })).await
    }

    /// The value of a script, run from outside of the page: its policy does not govern it.
    pub async fn run<T: DeserializeOwned>(&self, script: &str) -> Result<T> {
        self.told("run", json!({ "script": script })).await
    }

    /// Where the page is.
    pub async fn url(&self) -> Result<String> {
        self.told("url", json!({})).await
    }

    /// The cookies, as playwright tells them.
    pub async fn cookies(&self) -> Result<Vec<Value>> {
        self.told("cookies", json!({})).await
    }

    /// The document as it is now.
    pub async fn html(&self) -> Result<String> {
        self.told("html", json!({})).await
    }

    /// What axe finds wrong for people who cannot see, hear or point well; nothing is right.
    pub async fn axe(&self) -> Result<Vec<String>> {
        self.told("axe", json!({})).await
    }

    /// What went wrong since this was asked last: errors and warnings of the console, what broke the page's policy,
    /// requests to other places.
    pub async fn problems(&self) -> Result<Vec<String>> {
        self.told("problems", json!({})).await
    }

    /// Takes a picture, of all of the page or of what can be seen.
    pub async fn screenshot(&self, path: &Path, full: bool) -> Result<()> {
        self.ask("screenshot", json!({ "path": path, "full": full })).await.map(drop)
    }

    /// Closes it.
    pub async fn close(self) -> Result<()> {
        self.ask("close", json!({})).await.map(drop)
    }
}
