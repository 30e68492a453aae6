//! `cargo xtask screenshots`: the pictures of the documentation.

use crate::tools::{self, BROWSER};

/// Writes docs/dashboard/*.png anew: the pages of the dashboard in Chromium, light and dark, on a real control plane.
#[derive(clap::Args)]
pub struct Args {}

impl Args {
    #[expect(clippy::unused_self, reason = "as every command")]
    pub fn run(self) -> anyhow::Result<()> {
        tools::preflight(BROWSER)?;
        tools::all_present(BROWSER)?;
        let test = ["test", "--workspace", "--test", "browser", "--", "--ignored", "--exact"];
        tools::cargo(&[&test[..], &["screenshots::screenshots"]].concat())
    }
}
