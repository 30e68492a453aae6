# `nix develop`: what `cargo verify` needs.
{ pkgs }:
pkgs.mkShell {
  packages = [
    pkgs.cargo
    pkgs.rustc
    pkgs.clippy
    pkgs.rustfmt
    pkgs.cargo-deny
    pkgs.go
    pkgs.kubernetes-helm
    pkgs.kubectl
    pkgs.nodejs
    pkgs.skopeo
    pkgs.jq
    pkgs.python3
    pkgs.prometheus
    pkgs.prometheus.cli
  ] ++ pkgs.lib.optionals pkgs.stdenv.hostPlatform.isLinux [ pkgs.chromium pkgs.iproute2 pkgs.nftables ];
}
