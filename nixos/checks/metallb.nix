# MetalLB for the VM test, from source: a VM has no network to pull images by. The same release as `devcluster` runs.
{ pkgs }:
let
  version = "0.15.2";
  # The module as the Go proxy has it; in one folder, which is of the module's name.
  module = pkgs.fetchzip {
    name = "metallb-${version}-module";
    url = "https://proxy.golang.org/go.universe.tf/metallb/@v/v${version}.zip";
    hash = "sha256-CcTZzvypD1yB/58umFtU1iMJV3VZD0hQ6JPiPrVnPus=";
  };
  controller = pkgs.buildGoModule {
    pname = "metallb-controller";
    inherit version;
    src = "${module}/metallb@v${version}";
    subPackages = [ "controller" ];
    vendorHash = "sha256-Szqxm27Yqx0zM4s0Un4tYrTV0ytyNNZcWD48Nw4BCGI=";
  };
in
{
  image = pkgs.dockerTools.buildLayeredImage {
    name = "quay.io/metallb/controller";
    tag = "v${version}";
    config.Entrypoint = [ "${controller}/bin/controller" ];
  };
  manifest = "${module}/metallb@v${version}/config/manifests/metallb-native.yaml";
}
