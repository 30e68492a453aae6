# services.address-controller: the controllers and the dashboard on NixOS, as systemd services against any cluster's
# kubeconfig, or as charts of this machine's k3s.
{ config, lib, pkgs, ... }:
let
  cfg = config.services.address-controller;
in
{
  imports = [ ./systemd.nix ./k3s.nix ];

  options.services.address-controller = {
    enable = lib.mkEnableOption "address-controller: IP addresses that tenants of a Kubernetes cluster can own";

    mode = lib.mkOption {
      type = lib.types.enum [ "k3s" "systemd" ];
      default = if config.services.k3s.enable then "k3s" else "systemd";
      defaultText = lib.literalExpression ''if config.services.k3s.enable then "k3s" else "systemd"'';
      description = ''
        How it runs. `k3s`: the charts are deployed by this machine's k3s server, with images out of the store, so that
        nothing is pulled. `systemd`: hardened services of this machine, against the cluster of `kubeconfig`, which has the
        CRDs already and grants the rights that the charts grant.
      '';
    };

    packages = lib.mkOption {
      type = lib.types.attrsOf lib.types.package;
      default = pkgs.address-controller-flake.packages;
      defaultText = lib.literalExpression "pkgs.address-controller-flake.packages";
      description = "The programs, images and charts that are used, by the names they have in the flake.";
    };

    driver.enable = lib.mkOption {
      type = lib.types.bool;
      default = true;
      description = "Whether `metallb-iad`, the driver for MetalLB, runs.";
    };

    dashboard.enable = lib.mkOption {
      type = lib.types.bool;
      default = false;
      description = "Whether `address-dashboard` runs, which shows which Service holds which IP.";
    };

    metallbNamespace = lib.mkOption {
      type = lib.types.str;
      default = "metallb-system";
      description = "The namespace of MetalLB and its IPAddressPools.";
    };

    placeholderNamespace = lib.mkOption {
      type = lib.types.str;
      default = "metallb-iad-system";
      description = ''
        The namespace of the placeholder Services, which hold the addresses that no Service has. Tenants must not be able
        to write to it. Do not change it while addresses are held.
      '';
    };

    loadBalancerClass = lib.mkOption {
      type = lib.types.str;
      default = "";
      example = "metallb.io/metallb";
      description = "The load balancer class of the MetalLB to work with; empty for one that runs without.";
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [{
      assertion = cfg.mode != "k3s" || (config.services.k3s.enable && config.services.k3s.role == "server");
      message = ''services.address-controller.mode = "k3s" needs services.k3s.enable = true and services.k3s.role = "server"'';
    }];
    # The errands of an admin: migrate, adopt, release.
    environment.systemPackages = lib.optional cfg.driver.enable cfg.packages.metallb-iad;
  };
}
