# What the flake adds to a nixpkgs.
final: _prev:
let
  flake = import ./packages { pkgs = final; };
in
{
  address-controller-flake = flake;
  inherit (flake.packages) address-controller metallb-iad address-dashboard;
}
