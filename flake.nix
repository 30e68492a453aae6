{
  description = "address-controller: IP addresses that tenants of a Kubernetes cluster can own";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      linux = [ "x86_64-linux" "aarch64-linux" ];
      darwin = [ "x86_64-darwin" "aarch64-darwin" ];
      pkgsOf = lib.genAttrs (linux ++ darwin) (system: nixpkgs.legacyPackages.${system}.extend self.overlays.default);
      forLinux = make: lib.genAttrs linux (system: make pkgsOf.${system});
      forAll = make: lib.genAttrs (linux ++ darwin) (system: make pkgsOf.${system});
    in
    {
      # All that is built stands in one attribute set of the overlay: nixos/packages.
      overlays.default = import ./nixos/overlay.nix;

      packages = forLinux (pkgs: pkgs.address-controller-flake.packages // {
        # Takes a builder of each architecture, or the images of the others out of a cache.
        release-multiarch = pkgs.address-controller-flake.multiarch
          (map (system: pkgsOf.${system}.address-controller-flake.packages) linux);
      });

      checks = forLinux (pkgs: import ./nixos/checks { inherit pkgs; });

      apps = forLinux (pkgs: import ./nixos/apps.nix { inherit pkgs; });

      nixosModules.default = { imports = [ ./nixos/module ]; config.nixpkgs.overlays = [ self.overlays.default ]; };

      devShells = forAll (pkgs: { default = import ./nixos/shell.nix { inherit pkgs; }; });

      formatter = forAll (pkgs: pkgs.nixfmt);
    };
}
