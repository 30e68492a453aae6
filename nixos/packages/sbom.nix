# The bill of materials (CycloneDX): every crate that the lock file lets into the three programs, with its checksum, its
# licence and what it depends on. Crates that only tests or tools of this tree use are not in it; those that only other
# platforms need are, since the lock file does not tell them apart.
{ lib, runCommand, jq, binaries, workspace }:
let
  inherit (workspace) version;
  lock = (lib.importTOML workspace.lock).package;
  id = package: "${package.name}@${package.version}";
  versions = lib.groupBy (package: package.name) lock;
  byId = lib.listToAttrs (map (package: lib.nameValuePair (id package) package) lock);

  # "name", or "name version" where the lock file has several of that name.
  resolve = said:
    let words = lib.splitString " " said; name = builtins.head words; in
    if builtins.length words > 1 then "${name}@${builtins.elemAt words 1}" else id (builtins.head versions.${name});
  # The lock file of a crate of ours names what its tests need too; its manifest tells.
  dependencies = package:
    let
      all = map resolve (package.dependencies or [ ]);
      declared = builtins.attrNames (workspace.dependenciesOf.${package.name});
    in
    if package ? source then all else builtins.filter (key: builtins.elem byId.${key}.name declared) all;

  closure = builtins.genericClosure {
    startSet = map (name: { key = id (builtins.head versions.${name}); }) (builtins.attrNames workspace.mains);
    operator = { key }: map (key: { inherit key; }) (dependencies byId.${key});
  };
  ref = key: "pkg:cargo/${key}";
  component = { key }:
    let package = byId.${key}; in
    {
      type = if workspace.mains ? ${package.name} then "application" else "library";
      bom-ref = ref key;
      purl = ref key;
      inherit (package) name version;
    }
    // lib.optionalAttrs (package ? checksum) { hashes = [{ alg = "SHA-256"; content = package.checksum; }]; }
    // lib.optionalAttrs (!(package ? source)) { licenses = [{ expression = workspace.license; }]; };
  bom = {
    bomFormat = "CycloneDX";
    specVersion = "1.6";
    version = 1;
    metadata.component = { type = "application"; bom-ref = "address-controller-all"; name = "address-controller-all"; inherit version; };
    components = map component closure;
    dependencies = [{ ref = "address-controller-all"; dependsOn = map (name: ref (id (builtins.head versions.${name}))) (builtins.attrNames workspace.mains); }]
      ++ map ({ key }: { ref = ref key; dependsOn = map ref (dependencies byId.${key}); }) closure;
  };
in
runCommand "address-controller-sbom-${version}"
  {
    nativeBuildInputs = [ jq ];
    bom = builtins.toJSON bom;
    passAsFile = [ "bom" ];
  } ''
    # What each crate says of its licence: "A/B" is how it was written before "A OR B".
    awk -F'"' '/^license = "/ { n = split(FILENAME, path, "/"); gsub(" */ *", " OR ", $2); print path[n - 1] "\t" $2; nextfile }' \
      ${binaries.cargoDeps}/*/Cargo.toml | jq -R 'split("\t") | {(.[0]): .[1]}' | jq -s add > licences.json
    mkdir $out
    jq --slurpfile licences licences.json '.components |= (map(
      $licences[0]["\(.name)-\(.version)"] as $licence
      | if .licenses or $licence == null then . else .licenses = [{expression: $licence}] end) | sort_by(.["bom-ref"]))' \
      "$bomPath" > $out/address-controller-${version}-sbom.cdx.json
  ''
