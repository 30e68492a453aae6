# All that a release publishes, in one folder: images, charts, CRDs, the bill of materials, checksums.
{ lib, runCommand, jq, images, charts, crds, sbom, version }:
runCommand "address-controller-release-${version}" { nativeBuildInputs = [ jq ]; } ''
  mkdir $out
  cd $out
  ${lib.concatStrings (lib.mapAttrsToList (_: image: ''
    cp ${image} ${lib.last (lib.splitString "/" image.imageName)}-${version}-image.tar
    echo "${image.imageName}:${version} $(tar -xOf ${image} index.json | jq -r '.manifests[0].digest')" >> images.txt
  '') images)}
  cp ${charts}/*.tgz .
  cp ${crds}/crds.yaml address-controller-${version}-crds.yaml
  cp ${sbom}/*.json .
  sha256sum -- * > SHA256SUMS
''
