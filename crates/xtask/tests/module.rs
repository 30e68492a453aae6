//! The services of the NixOS module: their flags are those of the programs, and no two listen at one port.
//!
//! The module is read as text, since nothing here evaluates NixOS.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::collections::BTreeSet;

use clap::{Args as _, Command, CommandFactory as _};
use runtime::args::{Common, Driver};

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../nixos/module/systemd.nix");
/// Where the text comes to what is of both controllers, and then to each service.
const CONTROLLERS: &str = "controller = bound: extra:";
const SERVICES: [&str; 3] = ["address-controller", "metallb-iad", "address-dashboard"];

fn text() -> String {
    std::fs::read_to_string(MODULE).unwrap()
}

/// The flags that a program has.
fn known(program: &str) -> BTreeSet<String> {
    let command = match program {
        "address-controller" => Common::augment_args(Command::new("core")),
        "metallb-iad" => Driver::augment_args(Common::augment_args(Command::new("driver"))),
        _ => dashboard::args::Args::command(),
    };
    command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

/// The flags that are given a value in a text.
fn given(text: &str) -> BTreeSet<String> {
    let of_word = |rest: &str| {
        let name = rest.split_once('=')?.0;
        let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        (is_name && !name.is_empty()).then(|| name.to_owned())
    };
    text.split("--").skip(1).filter_map(of_word).collect()
}

/// The flags that the module gives to a program: those of all services, those of the controllers, and its own.
fn given_to(program: &str) -> BTreeSet<String> {
    let text = text();
    let (for_all, rest) = text.split_once(CONTROLLERS).unwrap();
    let (for_controllers, _) = rest.split_once("\nin\n").unwrap();
    let own = text.split(&format!(" = service \"{program}\" {{")).nth(1).unwrap();
    let own = own.split(" = service \"").next().unwrap();
    let mut flags = given(for_all);
    flags.extend(given(own));
    if own.contains("controller options.") {
        flags.extend(given(for_controllers));
    }
    flags
}

#[test]
fn every_flag_of_a_service_is_one_of_its_program() {
    for program in SERVICES {
        let (given, known) = (given_to(program), known(program));
        assert!(given.len() >= 4, "{program}: {given:?}");
        let unknown: Vec<_> = given.difference(&known).collect();
        assert!(unknown.is_empty(), "{program} has no {unknown:?}");
    }
}

/// Programs listen everywhere unless told otherwise, and at the same ports: in pods of their own nobody minds.
#[test]
fn every_service_is_told_where_to_listen() {
    for program in SERVICES {
        let mut known = known(program);
        known.retain(|flag| flag.ends_with("bind-address"));
        let given = given_to(program);
        let open: Vec<_> = known.difference(&given).collect();
        assert!(known.len() == 2 && open.is_empty(), "{program} is not told {open:?}");
    }
}

#[test]
fn no_two_services_listen_at_one_port() {
    let text = text();
    let addresses = text.split(" = bind \"").skip(1);
    let ports: Vec<&str> = addresses
        .map(|rest| {
            rest.split('"')
                .next()
                .unwrap()
                .strip_prefix("127.0.0.1:")
                .expect("an address of this machine alone")
        })
        .collect();
    let different: BTreeSet<_> = ports.iter().collect();
    assert_eq!((ports.len(), different.len()), (6, 6), "{ports:?}");
}
