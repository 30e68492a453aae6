//! `load`: the long test of faults on the real thing.

use crate::tools::cargo;

const TESTS: [&str; 4] = [
    "load::c3_a_load_goes_through_every_fault",
    "load::c3_a_load_outlives_its_leaders",
    "upheavals::crowds::j1_restarts_move_nothing_at_full_size",
    "upheavals::crowds::j2_two_drivers_at_once_at_full_size",
];

/// Let 200 claims, with Services, thieves and admins at work on them, go through every fault on a real control plane, one
/// after another (docs/contract.md, §3), and check that no address was ever lost; then the public cases of many addresses, at
/// the sizes that they ask for.
#[derive(clap::Args)]
pub struct Args {}

impl Args {
    pub fn run(self) -> anyhow::Result<()> {
        let Self {} = self;
        // Out of the whole workspace, as `verify` does it: nothing is compiled twice. One after the other.
        let mut test = vec!["test", "--workspace", "--test", "e2e", "--", "--ignored", "--exact"];
        test.extend(["--nocapture", "--test-threads=1"]);
        test.extend(TESTS);
        cargo(&test)
    }
}
