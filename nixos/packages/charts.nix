# The charts as packages: their version is the workspace's, and each is pinned to the digest of the image built here.
{ lib, runCommand, jq, images, version, workspace }:
let
  # Not by helm, whose archives hold the time: the same files, packed so that they come out the same each time.
  pack = name: archive: ''
    tar --sort=name --format=ustar --mtime=@1 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
      --exclude='.*' --exclude='*.orig' --exclude='*~' -cf - ${name} | gzip -n9 > ${archive}
  '';
  chart = name: runCommand "${name}-${version}.tgz" { nativeBuildInputs = [ jq ]; } ''
    cp -r --no-preserve=mode ${workspace.sources.chart name} ${name}
    sed -i 's/^\(version\|appVersion\): .*/\1: ${version}/' ${name}/Chart.yaml
    digest=$(tar -xOf ${images."image-${name}"} index.json | jq -r '.manifests[0].digest')
    [ "$(grep -c '^  digest: ""$' ${name}/values.yaml)" = 1 ]
    sed -i "s/^  digest: \"\"$/  digest: $digest/" ${name}/values.yaml
    ${pack name "$out"}
  '';
  each = lib.genAttrs workspace.programs chart;
in
runCommand "address-controller-charts-${version}" { passthru = each // { inherit pack; }; } (''
  mkdir $out
'' + lib.concatStrings (lib.mapAttrsToList (name: tgz: "cp ${tgz} $out/${name}-${version}.tgz\n") each))
