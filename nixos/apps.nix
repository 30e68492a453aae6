# `nix run .#NAME`.
{ pkgs }:
let
  inherit (pkgs) lib;
  app = package: { type = "app"; program = lib.getExe package; };
in
{
  # In a checkout: the demo builds a control plane from Go modules, which no sandbox lets it.
  demo = app (pkgs.writeShellApplication {
    name = "address-controller-demo";
    runtimeInputs = [ pkgs.cargo pkgs.rustc pkgs.stdenv.cc pkgs.go ];
    text = ''
      if ! grep -qs 'address-controller' Cargo.toml crates/address-controller/Cargo.toml; then
        echo "run this in a checkout of address-controller: git clone ${pkgs.address-controller-flake.workspace.repository}" >&2
        exit 1
      fi
      exec cargo run --quiet --package xtask -- demo "$@"
    '';
  });

  # Builds everything that a release holds a second time, and fails unless each is the same, bit for bit.
  reproduce = app (pkgs.writeShellApplication {
    name = "address-controller-reproduce";
    text = ''
      # NIX names another nix: the one in nixos/hostpkgs, where nixpkgs cannot be had.
      nix=''${NIX:-nix}
      for output in ${lib.concatStringsSep " " (builtins.attrNames pkgs.address-controller-flake.packages)}; do
        "$nix" build --no-link ".#$output"
        "$nix" build --no-link --rebuild ".#$output"
        echo "$output: the same again"
      done
    '';
  });
}
