# One machine with k3s, MetalLB and our charts: an address is claimed, given to a Service, kept when that is deleted, and
# given to the next.
{ pkgs }:
let
  metallb = import ./metallb.nix { inherit pkgs; };
  # What a tenant and an admin write, as one manifest each.
  manifest = name: objects: pkgs.writeText "${name}.json"
    (builtins.toJSON { apiVersion = "v1"; kind = "List"; items = objects; });
  api = "local.sdn.cozystack.io/v1alpha1";
  pool = manifest "pool" [{
    apiVersion = "metallb.io/v1beta1";
    kind = "IPAddressPool";
    metadata = { name = "public"; namespace = "metallb-system"; };
    # One address: whoever has it, nobody else can.
    spec = { addresses = [ "203.0.113.7/32" ]; autoAssign = false; };
  }];
  class = manifest "class" [{
    apiVersion = api;
    kind = "IPAddressClass";
    metadata = { name = "public"; annotations."ipaddressclass.local.sdn.cozystack.io/is-default-class" = "true"; };
    spec = { provisioner = "metallb.drivers.local.sdn.cozystack.io"; parameters.pool = "public"; };
  }];
  claim = manifest "claim" [{
    apiVersion = api;
    kind = "IPAddressClaim";
    metadata = { name = "web-ip"; namespace = "default"; };
    spec = { };
  }];
  web = name: manifest name [{
    apiVersion = "v1";
    kind = "Service";
    metadata = { inherit name; namespace = "default"; annotations."local.sdn.cozystack.io/ip-address-claim" = "web-ip"; };
    spec = { type = "LoadBalancer"; selector.app = "web"; ports = [{ port = 80; }]; };
  }];
in
{
  name = "address-controller";
  nodes.machine = { config, pkgs, ... }: {
    imports = [ ../module ];
    virtualisation = { memorySize = 2048; diskSize = 4096; cores = 2; };
    environment.systemPackages = [ pkgs.kubectl ];
    environment.variables.KUBECONFIG = "/etc/rancher/k3s/k3s.yaml";
    services.k3s = {
      enable = true;
      role = "server";
      # Without a network: everything is in the store, and what is not needed is left out.
      images = [ config.services.k3s.package.airgap-images metallb.image ];
      disable = [ "coredns" "local-storage" "metrics-server" "servicelb" "traefik" ];
      manifests.metallb.source = metallb.manifest;
    };
    services.address-controller = {
      enable = true;
      dashboard.enable = true;
    };
  };
  testScript = ''
    machine.wait_for_unit("k3s.service")
    up = "kubectl -n {} rollout status deployment {} --timeout=5s"
    machine.wait_until_succeeds(up.format("metallb-system", "controller"), timeout=600)
    for name in ["address-controller", "metallb-iad", "address-dashboard"]:
        machine.wait_until_succeeds(up.format(name + "-system", name), timeout=600)

    # MetalLB's webhook may take a while to answer.
    machine.wait_until_succeeds("kubectl apply -f ${pool}", timeout=300)
    machine.succeed("kubectl apply -f ${class}", "kubectl apply -f ${claim}")
    machine.succeed("kubectl wait ipaddressclaims.local.sdn.cozystack.io/web-ip --for=condition=Ready --timeout=120s")

    has = "kubectl get service {} -o jsonpath='{{.status.loadBalancer.ingress[0].ip}}' | grep -Fx 203.0.113.7"
    machine.succeed("kubectl apply -f ${web "web-a"}")
    machine.wait_until_succeeds(has.format("web-a"), timeout=120)
    machine.succeed("kubectl delete service web-a --timeout=120s")
    held = "kubectl get ipaddresses.local.sdn.cozystack.io ip-203-0-113-7 -o jsonpath='{.status.phase} {.status.associatedTo}' | grep -Fx 'Bound '"
    machine.wait_until_succeeds(held, timeout=120)
    machine.succeed("kubectl apply -f ${web "web-b"}")
    machine.wait_until_succeeds(has.format("web-b"), timeout=120)
    machine.succeed("kubectl get ipaddresses.local.sdn.cozystack.io ip-203-0-113-7 -o jsonpath='{.status.lastHandoff.unheldMilliseconds}' | grep -Fx 0")
  '';
}
