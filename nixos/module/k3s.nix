# The charts on this machine's k3s server.
{ config, lib, ... }:
let
  cfg = config.services.address-controller;

  values = name: lib.mkOption {
    type = lib.types.attrsOf lib.types.anything;
    default = { };
    example = lib.literalExpression "{ controller.replicas = 2; }";
    description = "Further values of the ${name} chart. They end up in the store, which everybody can read.";
  };

  chart = name: namespace: given: {
    package = cfg.packages.charts.${name};
    targetNamespace = namespace;
    createNamespace = true;
    # By tag: the image is the one out of the store, and an imported image is known by its tag, not by a registry's digest.
    values = lib.recursiveUpdate { image = { tag = cfg.packages."image-${name}".imageTag; digest = ""; }; imagePullPolicy = "IfNotPresent"; } given;
  };
  metallb = { inherit (cfg) metallbNamespace placeholderNamespace; };
in
{
  options.services.address-controller.k3s = {
    core.values = values "address-controller";
    driver.values = values "metallb-iad";
    dashboard.values = values "address-dashboard";
  };

  config = lib.mkIf (cfg.enable && cfg.mode == "k3s") {
    services.k3s.images = [ cfg.packages.image-address-controller ]
      ++ lib.optional cfg.driver.enable cfg.packages.image-metallb-iad
      ++ lib.optional cfg.dashboard.enable cfg.packages.image-address-dashboard;
    services.k3s.autoDeployCharts = {
      address-controller = chart "address-controller" "address-controller-system" cfg.k3s.core.values;
    }
    // lib.optionalAttrs cfg.driver.enable {
      metallb-iad = chart "metallb-iad" "metallb-iad-system"
        (lib.recursiveUpdate (metallb // { inherit (cfg) loadBalancerClass; }) cfg.k3s.driver.values);
    }
    // lib.optionalAttrs cfg.dashboard.enable {
      address-dashboard = chart "address-dashboard" "address-dashboard-system" (lib.recursiveUpdate metallb cfg.k3s.dashboard.values);
    };
  };
}
