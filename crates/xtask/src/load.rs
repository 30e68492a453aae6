//! `load`: the long test of faults on the real thing.

use crate::tools::cargo;

/// Let 200 claims, with Services, thieves and admins at work on them, go through every fault on a real control plane, one
/// after another (docs/contract.md, §3), and check that no address was ever lost.
#[derive(clap::Args)]
pub struct Args {}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let Self {} = self;
        let name = "load::c3_a_load_goes_through_every_fault";
        // Out of the whole workspace, as `verify` does it: nothing is compiled twice.
        let test =
            ["test", "--workspace", "--test", "e2e", "--", "--ignored", "--exact", name, "--nocapture"];
        cargo(&test)
    }
}
