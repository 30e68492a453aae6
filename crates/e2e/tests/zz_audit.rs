//! Contract §13: after all other tests, the audit log shows no denied request and no rule that was never used.
//!
//! The API server says of each request which role granted it, so a right that a `ClusterRole` and a `Role` both give is
//! told apart. The module's name is the last in the alphabet, as tests are begun in that order.

use crate::rig;

/// Whether this run of the binary leaves tests out: then a rule may go unused.
fn is_a_part() -> bool {
    // `--name=value` is one word, as `cargo verify` writes it; any other word picks tests.
    std::env::args().skip(1).any(|word| !word.starts_with("--") || word.starts_with("--skip"))
}

/// §13: nothing was denied to our service accounts, every rule of the charts' roles was used, and nothing was done by a right
/// from elsewhere.
#[test]
fn c13_rbac_is_least_privilege() {
    rig::run(async |rig| {
        let tests = rig::all_others_are_done().await;
        rig.assert_none_denied();
        let (granted, used) = (rig.granted().await, rig.used());
        let unused: Vec<_> = granted.difference(&used).collect();
        let from_elsewhere: Vec<_> = used.difference(&granted).collect();
        println!("{tests} tests, {} rules granted, {} used", granted.len(), used.len());
        println!("never used: {unused:#?}, from elsewhere: {from_elsewhere:#?}");
        assert!(!used.is_empty() && from_elsewhere.is_empty(), "from elsewhere: {from_elsewhere:#?}");
        assert!(is_a_part() || unused.is_empty(), "never used: {unused:#?}");
    });
}
