# Everything that is built from this tree, each from the files that matter to it and no others.
{ pkgs }:
let
  inherit (pkgs) lib;
  workspace = import ./workspace.nix { inherit lib; };
  call = file: let make = import file; in make (builtins.intersectAttrs (builtins.functionArgs make) (pkgs // parts));
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
  };
  programs = lib.genAttrs workspace.programs (name: parts.binaries.only name);
in
{
  inherit workspace;
  packages = programs // parts.images // {
    default = parts.binaries;
    inherit (parts) charts crds docs sbom release;
  };
}
