# The three programs, by one build: they share nearly all of what they are compiled from.
{ lib, rustPlatform, runCommand, versionCheckHook, workspace }:
let
  inherit (workspace) version programs;
  meta = {
    homepage = workspace.repository;
    license = lib.licenses.asl20;
    platforms = lib.platforms.linux;
  };
  all = rustPlatform.buildRustPackage {
    pname = "address-controller-all";
    inherit version;
    src = workspace.sources.binaries;
    cargoLock.lockFile = workspace.lock;
    # Tests are checks of their own, so what only they need is not among the sources.
    postPatch = ''
      for manifest in ${lib.concatMapStringsSep " " (folder: "${folder}/Cargo.toml") workspace.shipped}; do
        sed -i '/^\[dev-dependencies/,/^\[/{/^\[dev-dependencies/d;/^\[/!d}' "$manifest"
      done
    '';
    cargoBuildFlags = lib.concatMap (name: [ "--package" name ]) (builtins.attrNames workspace.mains);
    doCheck = false;
    doInstallCheck = true;
    nativeInstallCheckInputs = [ versionCheckHook ];
    passthru = { inherit only; };
    meta = meta // { description = "The controllers and the dashboard"; mainProgram = "address-controller"; };
  };
  # One of them: nothing but the program, so that an image of it holds no other.
  only = name: runCommand "${name}-${version}"
    {
      inherit version;
      pname = name;
      meta = meta // { description = workspace.describe name; mainProgram = name; };
    } "install -D -m 555 ${all}/bin/${name} $out/bin/${name}";
in
assert lib.assertMsg (builtins.length programs == 3) "the images and charts are three";
all
