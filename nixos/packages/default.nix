# Everything that is built from this tree, each from the files that matter to it and no others.
{ pkgs }:
let
  inherit (pkgs) lib;
  workspace = import ./workspace.nix { inherit lib; };
  callWith = more: file:
    let make = import file; in
    make (builtins.intersectAttrs (builtins.functionArgs make) (pkgs // parts // more));
  call = callWith { };
  parts = {
    inherit workspace;
    inherit (workspace) version;
    binaries = call ./binaries.nix;
    images = call ./images.nix;
    charts = call ./charts.nix;
    crds = call ./crds.nix;
    docs = call ./docs.nix;
    sbom = call ./sbom.nix;
    release = call ./release.nix;
    join = call ./multiarch.nix;
  };
  # The release of several systems, from the packages of each: its images are for all of them, and so are its charts.
  multiarch = systems:
    let
      images = lib.mapAttrs (name: _: parts.join (map (packages: packages.${name}) systems)) parts.images;
      charts = callWith { inherit images; } ./charts.nix;
    in
    callWith { inherit images charts; } ./release.nix;
  programs = lib.genAttrs workspace.programs (name: parts.binaries.only name);
in
{
  inherit workspace multiarch;
  inherit (parts) join;
  packages = programs // parts.images // {
    default = parts.binaries;
    inherit (parts) charts crds docs sbom release;
  };
}
