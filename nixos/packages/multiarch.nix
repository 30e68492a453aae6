# One image for several architectures: an archive of an OCI layout with the images of all of them, and an index by which a
# registry gives each machine its own. Made of archives that are built already, each by a machine of its architecture.
{ runCommand, jq, version }:
images:
let inherit (builtins.head images) imageName imageTag; in
runCommand "${baseNameOf imageName}-${version}-multiarch-image.tar"
  {
    nativeBuildInputs = [ jq ];
    inherit imageName;
    passthru = { inherit imageTag; };
  } ''
    mkdir layout
    cd layout
    for archive in ${toString images}; do
      tar -xf "$archive" oci-layout index.json blobs
      manifest=$(jq -r '.manifests[0].digest | ltrimstr("sha256:")' index.json)
      config=$(jq -r '.config.digest | ltrimstr("sha256:")' "blobs/sha256/$manifest")
      jq -c --slurpfile config "blobs/sha256/$config" '.manifests[0] | del(.annotations) + {
        platform: ($config[0] | {architecture, os})
      }' index.json >> ../manifests.json
    done
    jq -cs '{ schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: . }' ../manifests.json > ../index.json
    digest=$(sha256sum ../index.json | cut -d' ' -f1)
    jq -cn --arg name "$imageName:${version}" --arg digest "sha256:$digest" --argjson size "$(stat -c %s ../index.json)" '{
      schemaVersion: 2, manifests: [{
        mediaType: "application/vnd.oci.image.index.v1+json", digest: $digest, size: $size, annotations: {
          "io.containerd.image.name": $name, "org.opencontainers.image.ref.name": $name
        }
      }]
    }' > index.json
    mv ../index.json "blobs/sha256/$digest"
    tar --sort=name --format=ustar --mtime=@1 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf "$out" *
  ''
