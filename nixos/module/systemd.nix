# The programs as services of this machine.
{ config, lib, ... }:
let
  cfg = config.services.address-controller;
  options = cfg.systemd;

  bind = default: description: lib.mkOption { type = lib.types.str; inherit default description; };
  extraArgs = program: lib.mkOption {
    type = lib.types.listOf lib.types.str;
    default = [ ];
    example = [ "--log-format=json" ];
    description = "Further flags of ${program}; `${program} --help` lists them.";
  };

  # A word of a command line as systemd reads it: quoted as JSON is, with "%" and "$" twice.
  word = text: lib.replaceStrings [ "%" "$" ] [ "%%" "$$" ] (builtins.toJSON text);

  # Nothing but to talk to the API server and to be asked over HTTP.
  hardening = {
    DynamicUser = true;
    CapabilityBoundingSet = "";
    AmbientCapabilities = "";
    LockPersonality = true;
    MemoryDenyWriteExecute = true;
    NoNewPrivileges = true;
    PrivateDevices = true;
    PrivateTmp = true;
    PrivateUsers = true;
    ProcSubset = "pid";
    ProtectClock = true;
    ProtectControlGroups = true;
    ProtectHome = true;
    ProtectHostname = true;
    ProtectKernelLogs = true;
    ProtectKernelModules = true;
    ProtectKernelTunables = true;
    ProtectProc = "invisible";
    ProtectSystem = "strict";
    RemoveIPC = true;
    RestrictAddressFamilies = [ "AF_INET" "AF_INET6" "AF_UNIX" ];
    RestrictNamespaces = true;
    RestrictRealtime = true;
    RestrictSUIDSGID = true;
    SystemCallArchitectures = "native";
    SystemCallFilter = [ "@system-service" "~@privileged" "~@resources" ];
    SystemCallErrorNumber = "EPERM";
    UMask = "0077";
  };

  service = name: { namespace, args }: {
    description = cfg.packages.${name}.meta.description or name;
    wantedBy = [ "multi-user.target" ];
    wants = [ "network-online.target" ];
    after = [ "network-online.target" ];
    # A lost lease ends the process, as it has to: another one may have begun. It starts again and waits for its turn.
    startLimitIntervalSec = 0;
    environment = { POD_NAMESPACE = namespace; };
    serviceConfig = hardening // {
      # %d is where the service finds its copy of the file, which no other user of this machine can read.
      ExecStart = "${cfg.packages.${name}}/bin/${name} --kubeconfig=%d/kubeconfig ${lib.concatMapStringsSep " " word args}";
      LoadCredential = "kubeconfig:${options.kubeconfig}";
      Restart = "always";
      RestartSec = 2;
    };
  };

  controller = bound: extra: [
    "--leader-elect=${lib.boolToString options.leaderElect}"
    "--metrics-bind-address=${bound.metricsBindAddress}"
    "--health-probe-bind-address=${bound.healthProbeBindAddress}"
  ] ++ extra;
in
{
  options.services.address-controller.systemd = {
    kubeconfig = lib.mkOption {
      type = lib.types.str;
      example = "/run/secrets/address-controller.kubeconfig";
      description = ''
        The kubeconfig file of the services, readable by root. A string and not a path: it must not get into the store. Its
        user needs the rights that the charts give to their service accounts.
      '';
    };

    leaderElect = lib.mkOption {
      type = lib.types.bool;
      default = true;
      description = "Whether the controllers take part in a leader election. Needed where more than one machine runs them.";
    };

    core = {
      metricsBindAddress = bind "127.0.0.1:8080" ''Where the core serves metrics; "0" turns them off.'';
      healthProbeBindAddress = bind "127.0.0.1:8081" ''Where the core answers probes; "0" turns them off.'';
      extraArgs = extraArgs "address-controller";
    };

    driver = {
      metricsBindAddress = bind "127.0.0.1:8082" ''Where the driver serves metrics; "0" turns them off.'';
      healthProbeBindAddress = bind "127.0.0.1:8083" ''Where the driver answers probes; "0" turns them off.'';
      extraArgs = extraArgs "metallb-iad";
    };

    dashboard = {
      bindAddress = bind "127.0.0.1:8084" "Where the dashboard serves its pages.";
      metricsBindAddress = bind "127.0.0.1:8085" ''Where the dashboard serves metrics; "0" turns them off.'';
      authMode = lib.mkOption {
        type = lib.types.enum [ "none" "kubernetes" ];
        default = "none";
        description = "`none`: whoever reaches the port sees everything. `kubernetes`: by tokens of the cluster.";
      };
      extraArgs = extraArgs "address-dashboard";
    };
  };

  config = lib.mkIf (cfg.enable && cfg.mode == "systemd") {
    systemd.services = {
      address-controller = service "address-controller" {
        namespace = "address-controller-system";
        args = controller options.core options.core.extraArgs;
      };
    }
    // lib.optionalAttrs cfg.driver.enable {
      metallb-iad = service "metallb-iad" {
        namespace = cfg.placeholderNamespace;
        args = controller options.driver [
          "--metallb-namespace=${cfg.metallbNamespace}"
          "--placeholder-namespace=${cfg.placeholderNamespace}"
          "--lb-class=${cfg.loadBalancerClass}"
        ] ++ options.driver.extraArgs;
      };
    }
    // lib.optionalAttrs cfg.dashboard.enable {
      address-dashboard = service "address-dashboard" {
        namespace = "address-dashboard-system";
        args = [
          "--bind-address=${options.dashboard.bindAddress}"
          "--metrics-bind-address=${options.dashboard.metricsBindAddress}"
          "--auth-mode=${options.dashboard.authMode}"
          "--metallb-namespace=${cfg.metallbNamespace}"
          "--placeholder-namespace=${cfg.placeholderNamespace}"
        ] ++ options.dashboard.extraArgs;
      };
    };
  };
}
