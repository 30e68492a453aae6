# What `nix flake check` builds. `cargo verify` does the same without nix, and more: see docs/packaging.md.
{ pkgs }:
let
  inherit (pkgs) lib runCommand;
  inherit (pkgs.address-controller-flake) workspace packages;

  # cargo over the whole workspace, with the crates of the lock file.
  cargo = name: { tools ? [ ], command, sources ? workspace.sources.code }: pkgs.rustPlatform.buildRustPackage {
    pname = "address-controller-${name}";
    inherit (workspace) version;
    src = sources;
    cargoLock.lockFile = workspace.lock;
    nativeBuildInputs = tools;
    # Clients of a cluster load the authorities that the system trusts, even if they talk to none.
    SSL_CERT_FILE = "${pkgs.cacert}/etc/ssl/certs/ca-bundle.crt";
    buildPhase = ''
      runHook preBuild
      ${command}
      runHook postBuild
    '';
    doCheck = false;
    installPhase = "touch $out";
    # Symbols of tests are nobody's.
    dontFixup = true;
  };
in
{
  fmt = cargo "fmt" { tools = [ pkgs.rustfmt ]; command = "cargo fmt --all --check"; };
  clippy = cargo "clippy" {
    tools = [ pkgs.clippy ];
    command = "cargo clippy --offline --workspace --all-targets -- --deny warnings";
  };
  # Not those that build a control plane: that takes Go modules from the network.
  unit = cargo "unit" {
    sources = workspace.sources.tested;
    command = "cargo test --offline --workspace --exclude e2e --exclude devcluster --exclude browser";
  };
  sim = cargo "sim" {
    command = "cargo run --offline --release --package sim --features planted -- run --hostile --seeds 0..2000";
  };

  chart-lint = runCommand "address-controller-chart-lint" { nativeBuildInputs = [ pkgs.kubernetes-helm ]; } ''
    export HOME=$TMPDIR
    for chart in ${packages.charts}/*.tgz; do
      helm lint --strict "$chart"
      helm template release "$chart" --namespace release-ns > rendered
      grep -q 'image: "ghcr.io/cozystack/.*@sha256:[0-9a-f]\{64\}"' rendered
    done
    touch $out
  '';

  # The same files at another time and with other rights, packed again, are the same archive.
  charts-reproducible = runCommand "address-controller-charts-reproducible" { } (lib.concatMapStrings
    (name: ''
      tar -xzf ${packages.charts.${name}}
      find ${name} -exec touch -d '2001-02-03 04:05:06' {} +
      chmod -R u=rwX,go= ${name}
      ${packages.charts.pack name "again.tgz"}
      cmp ${packages.charts.${name}} again.tgz
    '')
    workspace.programs + "touch $out\n");

  sbom = runCommand "address-controller-sbom-check" { nativeBuildInputs = [ pkgs.jq ]; } ''
    bom=$(echo ${packages.sbom}/*.json)
    jq -e '.bomFormat == "CycloneDX" and (.components | length > 100)' "$bom"
    # Every component has a licence and a checksum, but ours, which have no checksum; every edge ends at a component.
    jq -e '[.components[] | select(.licenses == null) | .purl] == []' "$bom"
    jq -e '[.components[] | select(.type == "library" and .licenses[0].expression != "${workspace.license}" and .hashes == null) | .purl] == []' "$bom"
    jq -e '([.components[]["bom-ref"]] + [.metadata.component["bom-ref"]]) as $known | [.dependencies[] | .ref, .dependsOn[]] - $known == []' "$bom"
    touch $out
  '';

  # Two architectures in one image: each reader finds its own, under the digest that a registry would know it by.
  multiarch = runCommand "address-controller-multiarch" { nativeBuildInputs = [ pkgs.skopeo pkgs.jq ]; } ''
    image=${pkgs.address-controller-flake.join (map packages.image-metallb-iad.saidToBeOf [ "amd64" "arm64" ])}
    skopeo="skopeo --insecure-policy --tmpdir $PWD"
    digest=$(tar -xOf $image index.json | jq -r '.manifests[0].digest')
    $skopeo copy --quiet --all --preserve-digests oci-archive:$image dir:copied
    [ "$digest" = "sha256:$(sha256sum copied/manifest.json | cut -d' ' -f1)" ]
    jq -e '[.manifests[].platform | "\(.os)/\(.architecture)"] == ["linux/amd64", "linux/arm64"]' copied/manifest.json
    for architecture in amd64 arm64; do
      $skopeo --override-arch $architecture inspect oci-archive:$image > about
      jq -e --arg is $architecture '.Architecture == $is' about
    done
    touch $out
  '';

  vm = pkgs.testers.runNixOSTest (import ./vm.nix { inherit pkgs; });
}
