{
  description = "hostpkgs: a nixpkgs-shaped double over a Debian host's own tools (see README.md)";
  outputs = { self }:
    let lib = import ./lib.nix; in {
      lib = lib // { nixosSystem = _: throw "hostpkgs: the NixOS module system needs real nixpkgs"; };
      legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ] (system: import ./. { inherit system; });
    };
}
