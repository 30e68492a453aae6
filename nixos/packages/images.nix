# Images: each program in one of its own, and all three in one. As archives that hold an OCI layout and also what `docker
# load` of any age reads. The digest is that of the manifest: the one a registry gives it too.
{ lib, dockerTools, runCommand, skopeo, jq, binaries, version, workspace }:
let
  registry = "ghcr.io/cozystack";
  # The user that the charts run it as.
  user = "65532";

  image = args@{ name, programs, entrypoint, description, architecture ? null }:
    let
      stream = dockerTools.streamLayeredImage (lib.optionalAttrs (architecture != null) { inherit architecture; } // {
        name = "${registry}/${name}";
        tag = version;
        # A moment that is not the build's, or no two builds would be equal.
        created = "1970-01-01T00:00:01Z";
        contents = map binaries.only programs ++ [
          dockerTools.caCertificates
          (dockerTools.fakeNss.override {
            extraPasswdLines = [ "nonroot:x:${user}:${user}:nonroot:/var/empty:/sbin/nologin" ];
            extraGroupLines = [ "nonroot:x:${user}:" ];
          })
        ];
        config = entrypoint // {
          User = "${user}:${user}";
          WorkingDir = "/";
          Env = [ "PATH=/bin" "SSL_CERT_FILE=/etc/ssl/certs/ca-bundle.crt" ];
          Labels = {
            "org.opencontainers.image.title" = name;
            "org.opencontainers.image.description" = description;
            "org.opencontainers.image.version" = version;
            "org.opencontainers.image.licenses" = workspace.license;
            "org.opencontainers.image.source" = workspace.repository;
          };
        };
      });
    in
    runCommand "${name}-${version}-image.tar"
      {
        nativeBuildInputs = [ skopeo jq ];
        imageName = "${registry}/${name}";
        passthru = {
          inherit stream;
          imageTag = version;
          # The same files under the name of another architecture: for the check of what joins several.
          saidToBeOf = architecture: image (args // { inherit architecture; });
        };
      } ''
        ${stream} > docker.tar
        # The converter alone decides how layers are compressed, so one nixpkgs gives one digest.
        skopeo --insecure-policy --tmpdir "$PWD" copy --quiet docker-archive:docker.tar oci:layout:${version}
        cd layout
        # By which k3s and docker name what they import, and podman.
        jq -c --arg name "$imageName:${version}" '.manifests[0].annotations += {
          "io.containerd.image.name": $name, "org.opencontainers.image.ref.name": $name
        }' index.json > named.json
        mv named.json index.json
        manifest=blobs/sha256/$(jq -r '.manifests[0].digest | ltrimstr("sha256:")' index.json)
        jq -c --arg tag "$imageName:${version}" '[{
          Config: .config.digest, RepoTags: [$tag], Layers: [.layers[].digest]
        }] | walk(if type == "string" then sub("^sha256:"; "blobs/sha256/") else . end)' "$manifest" > manifest.json
        tar --sort=name --format=ustar --mtime=@1 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf "$out" *
      '';

  single = name: image {
    inherit name;
    programs = [ name ];
    entrypoint = { Entrypoint = [ "/bin/${name}" ]; };
    description = workspace.describe name;
  };
in
{
  # Without an entrypoint: what is run is said by name, `docker run IMAGE metallb-iad --version`.
  image = image {
    name = "address-controller-all";
    inherit (workspace) programs;
    entrypoint = { Cmd = [ "address-controller" ]; };
    description = "The controllers and the dashboard, each run by its name";
  };
}
// lib.listToAttrs (map (name: lib.nameValuePair "image-${name}" (single name)) workspace.programs)
