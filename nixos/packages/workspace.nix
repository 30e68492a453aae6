# What the manifests say, and which files each build is made from: so that a change of any other file rebuilds nothing.
{ lib }:
let
  inherit (lib.fileset) toSource unions maybeMissing;
  root = ../..;
  manifest = lib.importTOML (root + "/Cargo.toml");
  manifestOf = folder: lib.importTOML (root + "/${folder}/Cargo.toml");

  # Our crates by name: those that others use, and the mains.
  mains = { address-controller = "crates/address-controller"; metallb-iad = "crates/metallb-iad"; dashboard = "dashboard"; };
  local = lib.mapAttrs (_: crate: crate.path) (lib.filterAttrs (_: crate: crate ? path) manifest.workspace.dependencies) // mains;

  # The folders of all crates that are compiled into the mains.
  shipped = map (crate: local.${crate.key}) (builtins.genericClosure {
    startSet = map (key: { inherit key; }) (builtins.attrNames mains);
    operator = { key }:
      let used = manifestOf local.${key}; in
      map (key: { inherit key; }) (lib.intersectLists (builtins.attrNames local)
        (builtins.attrNames (used.dependencies or { } // used.build-dependencies or { })));
  });

  # All code, with what is compiled into its tests.
  code = [ "Cargo.toml" "Cargo.lock" "rustfmt.toml" "clippy.toml" "crates" "dashboard" "fuzz" "docs/tracing.md" ];
  of = names: toSource { inherit root; fileset = unions (map (name: root + "/${name}") names); };

  # Of a crate, what the compiler reads: no tests, no examples.
  compiled = folder: map (name: maybeMissing (root + "/${folder}/${name}")) [ "Cargo.toml" "build.rs" "src" "assets" "templates" ];
in
{
  inherit (manifest.workspace.package) version license repository;
  inherit shipped mains;
  # What a crate of ours declares for its own code, by name.
  dependenciesOf = lib.mapAttrs (_: folder: let crate = manifestOf folder; in crate.dependencies or { } // crate.build-dependencies or { }) local;
  lock = root + "/Cargo.lock";
  programs = [ "address-controller" "metallb-iad" "address-dashboard" ];
  describe = name: (manifestOf (if name == "address-dashboard" then "dashboard" else local.${name})).package.description;

  sources = {
    binaries = toSource { inherit root; fileset = unions ([ (root + "/Cargo.toml") (root + "/Cargo.lock") ] ++ lib.concatMap compiled shipped); };
    code = of code;
    # What tests read besides.
    tested = of (code ++ [ "chart" "nixos/module" "docs/contract.md" "docs/operations.md" "docs/memory.jsonl" "docs/memory.svg" ]);
    chart = name: let folder = root + "/chart/${name}"; in toSource { root = folder; fileset = folder; };
    crds = let folder = root + "/chart/address-controller/templates/crds"; in toSource { root = folder; fileset = folder; };
    docs = toSource { inherit root; fileset = unions [ (root + "/README.md") (root + "/CHANGELOG.md") (root + "/LICENSE") (root + "/docs") ]; };
  };
}
