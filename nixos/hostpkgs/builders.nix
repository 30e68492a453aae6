# hostpkgs: the builders and packages.  Formal arguments and defaults are those of nixpkgs' own files.
{ lib, final, needsReal, hostHome, triple, goarch, libc, cc, hostTool, rustTool, raw }:
let
  inherit (lib) optionalString optionalAttrs optionals toList escapeShellArg;
  inherit (final) stdenv stdenvNoCC runCommand writeTextFile dockerTools rustPlatform;
  run = std: extra: name: env: buildCommand: std.mkDerivation ({
    enableParallelBuilding = true; inherit name buildCommand; passAsFile = [ "buildCommand" ] ++ (env.passAsFile or [ ]);
  } // extra // removeAttrs env [ "passAsFile" ]);
  local = { preferLocalBuild = true; allowSubstitutes = false; };
  hook = name: text: final.makeSetupHook { inherit name; } (final.writeText "${name}.sh" text);
  compressors = {
    none = { ext = ""; inputs = [ ]; cmd = "cat"; };
    gz = { ext = ".gz"; inputs = [ ]; cmd = "gzip -n -6"; };
    zstd = { ext = ".zst"; inputs = [ final.zstd ]; cmd = "zstd -T0"; };
  };
  compressor' = c: image: compressors.${c} or (throw "in docker image ${image}: compressor must be one of: [${toString (builtins.attrNames compressors)}]");
  python = "/usr/bin/python3";
  shellText = text: "#!${final.runtimeShell}\n${text}\n";
in
{
  # --- trivial builders
  runCommand = run stdenvNoCC { };
  runCommandLocal = run stdenvNoCC local;
  runCommandCC = run stdenv { };
  runCommandWith = { stdenv ? final.stdenv, runLocal ? false, derivationArgs ? { }, name }: run stdenv (optionalAttrs runLocal local) name derivationArgs;
  writeTextFile = { name, text, executable ? false, destination ? "", checkPhase ? "", meta ? { }, passthru ? { }, allowSubstitutes ? false, preferLocalBuild ? true, derivationArgs ? { } }:
    assert lib.assertMsg (destination != "" -> (lib.hasPrefix "/" destination && destination != "/")) "destination must be an absolute path, relative to the derivation's out path, got '${destination}' instead.";
    let prog = builtins.match "/bin/([^/]+)" destination; in
    runCommand name ({
      inherit text executable checkPhase allowSubstitutes preferLocalBuild passthru; passAsFile = [ "text" ];
      meta = optionalAttrs (executable && prog != null) { mainProgram = builtins.head prog; } // meta;
    } // derivationArgs) ''
      target=$out${escapeShellArg destination}; mkdir -p "$(dirname "$target")"; cp "$textPath" "$target"
      if [ -n "$executable" ]; then chmod +x "$target"; fi
      eval "$checkPhase"
    '';
  writeText = name: text: assert lib.assertMsg (lib.isString text || lib.isStringLike text) "pkgs.writeText \"${name}\": The second argument should be a string, but it's a ${builtins.typeOf text} instead.";
    writeTextFile { inherit name text; };
  writeTextDir = path: text: writeTextFile { inherit text; name = baseNameOf path; destination = "/${path}"; };
  writeScript = name: text: writeTextFile { inherit name text; executable = true; };
  writeScriptBin = name: text: writeTextFile { inherit name text; executable = true; destination = "/bin/${name}"; };
  writeShellScript = name: text: writeTextFile { inherit name; executable = true; text = shellText text; checkPhase = ''${stdenv.shellDryRun} "$target"''; };
  writeShellScriptBin = name: text: writeTextFile { inherit name; executable = true; destination = "/bin/${name}"; text = shellText text; checkPhase = ''${stdenv.shellDryRun} "$target"''; meta.mainProgram = name; };
  writeShellApplication = { name, text, runtimeInputs ? [ ], runtimeEnv ? null, meta ? { }, passthru ? { }, checkPhase ? null, excludeShellChecks ? [ ], extraShellCheckFlags ? [ ], bashOptions ? [ "errexit" "nounset" "pipefail" ], derivationArgs ? { }, inheritPath ? true }:
    writeTextFile {
      inherit name meta passthru derivationArgs; executable = true; destination = "/bin/${name}"; allowSubstitutes = true; preferLocalBuild = false;
      text = "#!${final.runtimeShell}\n" + lib.concatMapStrings (o: "set -o ${o}\n") bashOptions
        + optionalString (runtimeEnv != null) (lib.concatStrings (lib.mapAttrsToList (n: v: "${lib.toShellVar n v}\nexport ${n}\n") runtimeEnv))
        + optionalString (runtimeInputs != [ ]) "\nexport PATH=\"${lib.makeBinPath runtimeInputs}${optionalString inheritPath ":$PATH"}\"\n" + "\n${text}\n";
      checkPhase = if checkPhase != null then checkPhase else ''
        ${stdenv.shellDryRun} "$target"
        if [ -x /usr/bin/shellcheck ]; then /usr/bin/shellcheck ${optionalString (excludeShellChecks != [ ]) "--exclude ${lib.concatStringsSep "," excludeShellChecks}"} ${lib.escapeShellArgs extraShellCheckFlags} "$target"; fi
      '';
    };
  symlinkJoin = a@{ name ? assert lib.assertMsg (a ? pname && a ? version) "symlinkJoin requires either a `name` OR `pname` and `version`"; "${a.pname}-${a.version}", paths, stripPrefix ? "", preferLocalBuild ? true, allowSubstitutes ? false, postBuild ? "", failOnMissing ? stripPrefix == "", ... }:
    runCommand name (removeAttrs a [ "name" "postBuild" "stripPrefix" "paths" "failOnMissing" ] // {
      inherit preferLocalBuild allowSubstitutes; paths = map (p: "${p}${stripPrefix}") (builtins.filter (p: p != null) (lib.flatten paths)); passAsFile = [ "paths" ];
    }) ''
      mkdir -p $out
      for i in $(cat $pathsPath); do
        ${optionalString (!failOnMissing) "[ -d $i ] || continue"}
        cp -rs --no-preserve=mode $i/. $out/ 2>/dev/null || cp -rsn $i/. $out/; find $out -type d -exec chmod u+w {} +
      done
      ${postBuild}
    '';
  buildEnv = { name, paths, pathsToLink ? [ "/" ], ignoreCollisions ? false, checkCollisionContents ? true, extraOutputsToInstall ? [ ], extraPrefix ? "", postBuild ? "", manifest ? "", nativeBuildInputs ? [ ], buildInputs ? [ ], passthru ? { }, meta ? { }, pname ? null, version ? null }:
    final.symlinkJoin { inherit name paths nativeBuildInputs buildInputs passthru meta; postBuild = optionalString (pathsToLink != [ "/" ]) ''
      mv $out all; mkdir -p $out
      for p in ${toString pathsToLink}; do [ ! -e all$p ] || { mkdir -p $out$(dirname $p); mv all$p $out$p; }; done
    '' + postBuild; };
  linkFarm = name: entries:
    let es = if builtins.isAttrs entries then entries else if builtins.isList entries then builtins.foldl' (a: b: a // { "${b.name}" = b.path; }) { } entries else throw "linkFarm entries must be either attrs or a list!"; in
    runCommand name (local // { passthru.entries = es; }) ''
      mkdir -p $out; cd $out
      ${lib.concatStrings (lib.mapAttrsToList (n: p: ''mkdir -p -- "$(dirname -- ${escapeShellArg n})"; ln -s -- ${escapeShellArg "${p}"} ${escapeShellArg n}
      '') es)}
    '';
  linkFarmFromDrvs = name: drvs: final.linkFarm name (map (d: { inherit (d) name; path = d; }) drvs);
  makeSetupHook = { name ? "hook", propagatedBuildInputs ? [ ], propagatedNativeBuildInputs ? [ ], depsTargetTargetPropagated ? [ ], meta ? { }, passthru ? { }, substitutions ? { } }: script:
    runCommand name { inherit meta passthru; } ''
      mkdir -p $out/nix-support; cp ${script} $out/nix-support/setup-hook; chmod u+w $out/nix-support/setup-hook
      ${lib.concatStrings (lib.mapAttrsToList (n: v: "substituteInPlace $out/nix-support/setup-hook --subst-var-by ${n} ${escapeShellArg "${v}"}\n") substitutions)}
    '';
  writableTmpDirAsHomeHook = hook "writable-tmpdir-as-home-hook" ''if [ ! -w "$HOME" ]; then HOME=$(mktemp -d); export HOME; fi'';
  versionCheckHook = hook "version-check-hook" ''
    versionCheckHook() {
      local arg prog=''${versionCheckProgram:-$out/bin/''${NIX_MAIN_PROGRAM:-$pname}}
      for arg in ''${versionCheckProgramArg:---help --version}; do
        if env --ignore-environment --chdir=/ "$prog" $arg 2>&1 | tee /dev/stderr | grep -F -- "$version" > /dev/null; then return; fi
      done
      echo "versionCheckHook: did not find version $version in the output of $prog" >&2; exit 2
    }
    [ -n "$dontVersionCheck" ] || preInstallCheckHooks+=(versionCheckHook)
  '';
  mkShell = a@{ name ? "nix-shell", packages ? [ ], inputsFrom ? [ ], buildInputs ? [ ], nativeBuildInputs ? [ ], propagatedBuildInputs ? [ ], propagatedNativeBuildInputs ? [ ], ... }:
    let from = n: lib.subtractLists inputsFrom (lib.flatten (lib.catAttrs n inputsFrom)); in
    stdenv.mkDerivation (removeAttrs a [ "name" "packages" "inputsFrom" "buildInputs" "nativeBuildInputs" "shellHook" ] // {
      inherit name; nativeBuildInputs = packages ++ nativeBuildInputs ++ from "nativeBuildInputs"; buildInputs = buildInputs ++ from "buildInputs";
      shellHook = lib.concatStringsSep "\n" (lib.catAttrs "shellHook" (lib.reverseList inputsFrom ++ [ a ]));
      buildCommand = "export >> $out";
    });
  mkShellNoCC = final.mkShell;
  formats = lib.genAttrs [ "json" "yaml" "yaml_1_2" ] (f: { }: { generate = name: v: final.writeText name (builtins.toJSON v); type = needsReal "formats.${f}.type"; });

  # --- Rust
  rustPlatform = {
    inherit (final) rustc cargo;
    fetchCargoVendor = _: needsReal "fetchCargoVendor (cargoHash)";
    # Real: one fixed-output fetch per crate.  Here: the host's cargo, with its own configuration, cache and network,
    # is given a manifest that names each package of the lock file; what comes is checked against the lock's checksums.
    importCargoLock = a@{ lockFile ? null, lockFileContents ? null, allowBuiltinFetchGit ? false, extraRegistries ? { }, outputHashes ? { } }:
      assert (lockFile == null) != (lockFileContents == null);
      let
        text = if lockFile != null then builtins.readFile lockFile else a.lockFileContents;
        crates = builtins.filter (p: p ? source) (builtins.fromTOML text).package;
        git = builtins.filter (p: lib.hasPrefix "git+" p.source) crates;
        id = p: "${p.name}-${p.version}";
        stale = lib.subtractLists (map id git) (builtins.attrNames outputHashes);
        nohash = builtins.filter (p: !(outputHashes ? ${id p}) && !allowBuiltinFetchGit) git;
        dep = i: p: ''d${toString i} = { package = "${p.name}", version = "=${p.version}", default-features = false }'';
      in
      if stale != [ ] then throw "A hash was specified for ${builtins.head stale}, but there is no corresponding git dependency."
      else if nohash != [ ] then throw "No hash was found while vendoring the git dependency ${id (builtins.head nohash)}. You can add a hash through the `outputHashes` argument of `importCargoLock`"
      else if git != [ ] then needsReal "the git dependency ${id (builtins.head git)}"
      else stdenvNoCC.mkDerivation {
        name = "cargo-vendor-dir"; __noChroot = true; nativeBuildInputs = [ final.cargo final.rustc ];
        lock = text; sums = lib.concatMapStrings (p: "${id p} ${p.checksum}\n") crates; passAsFile = [ "buildCommand" "lock" "sums" "manifest" ];
        manifest = "[package]\nname = \"hostpkgs-vendor\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n[dependencies]\n" + lib.concatLines (lib.imap0 dep crates);
        passthru = optionalAttrs (lockFile != null) { inherit lockFile; };
        buildCommand = ''
          export HOME=${hostHome}
          export CARGO_HOME=$HOME/.cargo SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt CARGO_NET_RETRY=5
          [ -w "$CARGO_HOME" ] || export CARGO_HOME=$NIX_BUILD_TOP/cargo-home
          mkdir work; cd work; cp "$lockPath" Cargo.lock; cp "$manifestPath" Cargo.toml; touch lib.rs; mkdir -p $out/.cargo
          ${optionalString (crates != [ ]) "cargo vendor -q --versioned-dirs vendor > /dev/null"}
          while read -r crate sum; do
            grep -qF "\"package\":\"$sum\"" "vendor/$crate/.cargo-checksum.json" || { echo "hostpkgs: $crate does not have the lock's checksum $sum" >&2; exit 1; }
            mv "vendor/$crate" "$out/$crate"
          done < "$sumsPath"
          cp "$lockPath" $out/Cargo.lock
        '';
      };
    cargoSetupHook = hook "cargo-setup-hook.sh" ''
      cargoSetupPostUnpackHook() {
        export CARGO_HOME=$NIX_BUILD_TOP/cargo-home; mkdir -p "$CARGO_HOME" "$NIX_BUILD_TOP/.cargo"
        local dir=$NIX_BUILD_TOP/cargo-vendor-dir
        if [ -n "$cargoVendorDir" ]; then dir=$NIX_BUILD_TOP/$sourceRoot/''${cargoRoot:+$cargoRoot/}$cargoVendorDir
        else mkdir -p "$dir"; ln -s "$cargoDeps"/* "$dir"/; rm "$dir/Cargo.lock"; fi
        printf '%s\n' '[source.crates-io]' 'replace-with = "vendored-sources"' '[source.vendored-sources]' "directory = \"$dir\"" \
          '[target."${triple}"]' 'linker = "${cc}/bin/cc"' >> "$NIX_BUILD_TOP/.cargo/config.toml"
      }
      cargoSetupPostPatchHook() {
        diff "$cargoDeps/Cargo.lock" "$NIX_BUILD_TOP/$sourceRoot/''${cargoRoot:+$cargoRoot/}Cargo.lock" || { echo "ERROR: Cargo.lock of src and of cargoDeps differ (or src has none)" >&2; exit 1; }
      }
      postUnpackHooks+=(cargoSetupPostUnpackHook)
      [ -n "$cargoVendorDir" ] || postPatchHooks+=(cargoSetupPostPatchHook)
    '';
    cargoBuildHook = hook "cargo-build-hook.sh" ''
      hostpkgsCargo() { # SUBCOMMAND TYPE NODEFAULT FEATURES ARGS...
        local sub=$1 type=$2 nodef=$3 feats=$4; shift 4
        local flags=(-j "$NIX_BUILD_CORES" --target ${triple} --offline)
        [ "$type" = debug ] || flags+=(--profile "$type")
        [ -z "$nodef" ] || flags+=(--no-default-features)
        [ -z "$feats" ] || flags+=("--features=''${feats// /,}")
        local dir=.; if [ -n "$buildAndTestSubdir" ]; then export CARGO_TARGET_DIR=$PWD/target; dir=$buildAndTestSubdir; fi
        (cd "$dir"; set -x; cargo "$sub" "''${flags[@]}" "$@")
      }
      cargoBuildHook() {
        runHook preBuild
        export "CARGO_PROFILE_''${cargoBuildType@U}_STRIP=false"
        hostpkgsCargo build "''${cargoBuildType:-release}" "$cargoBuildNoDefaultFeatures" "$cargoBuildFeatures" $cargoBuildFlags
        runHook postBuild
      }
      [ -n "$dontCargoBuild" ] || [ -n "$buildPhase" ] || buildPhase=cargoBuildHook
    '';
    cargoCheckHook = hook "cargo-check-hook.sh" ''
      cargoCheckHook() {
        runHook preCheck
        hostpkgsCargo test "''${cargoCheckType:-release}" "$cargoCheckNoDefaultFeatures" "$cargoCheckFeatures" $cargoTestFlags -- ''${dontUseCargoParallelTests:+--test-threads=1} $checkFlags "''${checkFlagsArray[@]}"
        runHook postCheck
      }
      [ -n "$dontCargoCheck" ] || [ -n "$checkPhase" ] || checkPhase=cargoCheckHook
    '';
    cargoNextestHook = needsReal "cargoNextestHook (useNextest)";
    cargoInstallHook = hook "cargo-install-hook.sh" ''
      cargoInstallPostBuildHook() { # what `cargo build` made, before `cargo test` adds to it
        hostpkgsMade=$NIX_BUILD_TOP/hostpkgs-made; mkdir -p $hostpkgsMade/bin $hostpkgsMade/lib
        find target/${triple}/$cargoBuildType -maxdepth 1 -type f \( -name '*.so' -o -name '*.a' -o -name '*.dylib' \) -exec cp -t $hostpkgsMade/lib {} +
        find target/${triple}/$cargoBuildType -maxdepth 1 -type f -executable ! -name '*.so' ! -name '*.dylib' -exec cp -t $hostpkgsMade/bin {} +
      }
      cargoInstallHook() { runHook preInstall; rmdir --ignore-fail-on-non-empty $hostpkgsMade/*; mkdir -p $out; cp -r $hostpkgsMade/. $out/; runHook postInstall; }
      if [ -z "$dontCargoInstall" ] && [ -z "$installPhase" ]; then installPhase=cargoInstallHook; postBuildHooks+=(cargoInstallPostBuildHook); fi
    '';
    buildRustPackage = fnOrAttrs: stdenv.mkDerivation (finalAttrs:
      let
        ext = { auditable ? true, buildAndTestSubdir ? null, buildFeatures ? [ ], buildInputs ? [ ], buildNoDefaultFeatures ? false, buildType ? "release", cargoDeps ? null, cargoDepsHook ? "", cargoDepsName ? null, cargoLock ? null, cargoPatches ? [ ], cargoRoot ? null, cargoUpdateHook ? "", cargoVendorDir ? null, checkFeatures ? buildFeatures, checkNoDefaultFeatures ? buildNoDefaultFeatures, checkType ? buildType, depsExtraArgs ? { }, logLevel ? "", meta ? { }, nativeBuildInputs ? [ ], patches ? [ ], sourceRoot ? null, useFetchCargoVendor ? true, useNextest ? false, ... }@a:
          assert useFetchCargoVendor || throw "buildRustPackage: `useFetchCargoVendor` is non‐optional and enabled by default as of 25.05, remove it";
          removeAttrs a [ "depsExtraArgs" "cargoUpdateHook" "cargoLock" "useFetchCargoVendor" "RUSTFLAGS" ] // {
            inherit buildAndTestSubdir; patches = cargoPatches ++ patches; strictDeps = true;
            nativeBuildInputs = nativeBuildInputs ++ (with rustPlatform; [ cargoBuildHook (if useNextest then cargoNextestHook else cargoCheckHook) cargoInstallHook cargoSetupHook ]) ++ [ final.rustc final.cargo ];
            env = { RUST_LOG = logLevel; PKG_CONFIG_ALLOW_CROSS = 0; } // optionalAttrs (a ? RUSTFLAGS) { RUSTFLAGS = toString a.RUSTFLAGS; } // a.env or { };
            doCheck = a.doCheck or true;
            cargoBuildFeatures = buildFeatures; cargoBuildNoDefaultFeatures = buildNoDefaultFeatures; cargoBuildType = buildType;
            cargoCheckFeatures = checkFeatures; cargoCheckNoDefaultFeatures = checkNoDefaultFeatures; cargoCheckType = checkType;
            cargoDeps = if cargoVendorDir != null then null else if cargoDeps != null then cargoDeps else if cargoLock != null then rustPlatform.importCargoLock cargoLock
              else if a.cargoHash or null == null then throw "cargoHash, cargoVendorDir, cargoDeps, or cargoLock must be set" else needsReal "cargoHash (use cargoLock.lockFile)";
            configurePhase = a.configurePhase or "runHook preConfigure\nrunHook postConfigure\n";
            meta = meta // { platforms = lib.intersectLists meta.platforms or lib.platforms.all final.rustc.targetPlatforms; badPlatforms = meta.badPlatforms or [ ]; };
          };
      in ext (lib.toFunction fnOrAttrs finalAttrs));
  };
  rustc = rustTool "rustc" [ "rustc" "rustdoc" ];
  cargo = rustTool "cargo" [ "cargo" ];
  clippy = rustTool "clippy" [ "cargo-clippy" "clippy-driver" ];
  rustfmt = rustTool "rustfmt" [ "rustfmt" "cargo-fmt" ];

  # --- images
  dockerTools = {
    streamLayeredImage = lib.makeOverridable ({ name, tag ? null, fromImage ? null, contents ? [ ], config ? { }, architecture ? goarch, created ? "1970-01-01T00:00:01Z", mtime ? "1970-01-01T00:00:01Z", uid ? 0, gid ? 0, uname ? "root", gname ? "root", maxLayers ? 100, extraCommands ? "", fakeRootCommands ? "", enableFakechroot ? false, includeStorePaths ? true, includeNixDB ? false, passthru ? { }, meta ? { }, layeringPipeline ? null, debug ? false }:
      assert lib.assertMsg (maxLayers > 1) "the maxLayers argument of dockerTools.buildLayeredImage function must be greather than 1 (current value: ${toString maxLayers})";
      assert !enableFakechroot || needsReal "enableFakechroot"; assert !includeNixDB || needsReal "includeNixDB"; assert layeringPipeline == null || needsReal "layeringPipeline";
      let
        baseName = baseNameOf name;
        configJson = final.writeText "${baseName}-base.json" (builtins.toJSON config);
        pack = final.writeScript "pack-root" ''
          set -e
          ${fakeRootCommands}
          tar --sort=name --numeric-owner ${optionalString (fakeRootCommands == "") "--owner=0 --group=0"} --mtime="@$SOURCE_DATE_EPOCH" --hard-dereference -cf $out/layer.tar .
        '';
        root = final.symlinkJoin { name = "${baseName}-customisation-layer"; paths = toList contents; nativeBuildInputs = [ final.fakeroot ]; postBuild = ''
          mv $out root; mkdir $out; chmod 755 root; cd root
          ${extraCommands}
          ${optionalString (fakeRootCommands != "") "FAKEROOTDONTTRYCHOWN=1 fakeroot "}bash ${pack}
        ''; };
        tag' = if tag != null then tag else builtins.unsafeDiscardStringContext (builtins.head (lib.splitString "-" (baseNameOf root.outPath)));
        conf = runCommand "${baseName}-conf.json" {
          exportReferencesGraph = [ "graph" configJson "graph-root" root ]; passAsFile = [ "args_" ];
          args_ = builtins.toJSON { inherit architecture created mtime uid gid uname gname maxLayers includeStorePaths; root = "${root}"; config = "${configJson}";
            name = lib.toLower name; tag = tag'; fromImage = if fromImage == null then null else "${fromImage}"; };
        } "cat graph graph-root > all; ${python} ${./image.py} prepare $args_Path all > $out";
      in runCommand "stream-${baseName}" { imageName = lib.toLower name; inherit meta; passthru = passthru // { imageTag = tag'; inherit conf; }; } ''
        printf '%s\n' '#!/bin/bash' 'exec ${python} ${./image.py} stream ${conf}' > $out; chmod +x $out
      '');
    buildLayeredImage = lib.makeOverridable (a@{ name, compressor ? "gz", ... }:
      let stream = dockerTools.streamLayeredImage (removeAttrs a [ "compressor" ]); c = compressor' compressor name; in
      runCommand "${baseNameOf name}.tar${c.ext}" { inherit (stream) imageName; passthru = { inherit (stream) imageTag; inherit stream; }; nativeBuildInputs = c.inputs; } "${stream} | ${c.cmd} > $out");
    buildImage = lib.makeOverridable (a@{ name, tag ? null, fromImage ? null, fromImageName ? null, fromImageTag ? null, copyToRoot ? null, keepContentsDirlinks ? false, extraCommands ? "", uid ? 0, gid ? 0, architecture ? goarch, runAsRoot ? null, diskSize ? 1024, buildVMMemorySize ? 512, config ? null, created ? "1970-01-01T00:00:01Z", compressor ? "gz", includeNixDB ? false, contents ? null }:
      assert runAsRoot == null || needsReal "runAsRoot (a VM)"; assert contents == null || copyToRoot == null || throw "in docker image ${name}: You can not specify both contents and copyToRoot.";
      lib.warnIf (contents != null) "in docker image ${name}: The contents parameter is deprecated. Change to copyToRoot."
        (dockerTools.buildLayeredImage { inherit name tag fromImage extraCommands uid gid architecture created compressor includeNixDB; config = if config == null then { } else config;
          contents = builtins.filter (p: p != null) (toList (if copyToRoot == null then contents else copyToRoot)); }));
    pullImage = _: needsReal "pullImage";
    caCertificates = runCommand "ca-certificates" { } ''
      mkdir -p $out/etc/ssl/certs $out/etc/pki/tls/certs
      for f in ssl/certs/ca-bundle.crt ssl/certs/ca-certificates.crt pki/tls/certs/ca-bundle.crt; do ln -s ${final.cacert}/etc/ssl/certs/ca-bundle.crt $out/etc/$f; done
    '';
    fakeNss = final.fakeNss; binSh = needsReal "binSh"; usrBinEnv = needsReal "usrBinEnv";
  };
  fakeNss = lib.makeOverridable ({ extraPasswdLines ? [ ], extraGroupLines ? [ ] }: final.symlinkJoin { name = "fake-nss"; paths = [
    (final.writeTextDir "etc/passwd" ("root:x:0:0:root user:/var/empty:/bin/sh\n" + lib.concatLines extraPasswdLines + "nobody:x:65534:65534:nobody:/var/empty:/bin/sh\n"))
    (final.writeTextDir "etc/group" ("root:x:0:\n" + lib.concatLines extraGroupLines + "nobody:x:65534:\n"))
    (final.writeTextDir "etc/nsswitch.conf" "hosts: files dns\n") (runCommand "var-empty" { } "mkdir -p $out/var/empty") ]; }) { };
  # Mozilla's certificates as Debian ships them, without what this host added for itself.
  cacert = raw "nss-cacert" ''mkdir -p $out/etc/ssl/certs; LC_ALL=C; cat /usr/share/ca-certificates/mozilla/*.crt > $out/etc/ssl/certs/ca-bundle.crt'' // { meta = { }; };
  tzdata = needsReal "tzdata"; iana-etc = needsReal "iana-etc";

  # --- tests
  nixosTest = t: final.testers.runNixOSTest t;
  testers = {
    nixosTest = final.nixosTest;
    runNixOSTest = module:
      let
        m = let f = if builtins.isPath module then import module else module; in if lib.isFunction f then f { inherit lib; pkgs = final; hostPkgs = final; config = { }; } else f;
        unknown = lib.subtractLists [ "name" "nodes" "containers" "testScript" "meta" "passthru" "interactive" "skipLint" "skipTypeCheck" "enableOCR" "extraPythonPackages" "globalTimeout" "hostPkgs" "defaults" "node" "sshBackdoor" "imports" "_module" "_file" "options" "config" "enableDebugHook" "extraDriverArgs" "qemu" ] (builtins.attrNames m);
        script = if lib.isFunction m.testScript then m.testScript (builtins.intersectAttrs (lib.functionArgs m.testScript) { nodes = m.nodes or { }; }) else m.testScript;
      in assert lib.assertMsg (unknown == [ ]) "The option `${toString unknown}' does not exist (runNixOSTest)";
      assert lib.assertMsg (builtins.isAttrs (m.nodes or { }) && (lib.isFunction m.testScript || builtins.isString script)) "runNixOSTest: nodes is no attribute set or testScript no string";
      stdenvNoCC.mkDerivation { name = "vm-test-run-${m.name}"; meta = m.meta or { }; passthru = { nodes = m.nodes or { }; } // m.passthru or { }; requiredSystemFeatures = [ ]; buildCommand = ''echo "hostpkgs: the NixOS VM test ${m.name} needs real nixpkgs and KVM" >&2; exit 1''; };
    testVersion = { package, command ? "${lib.getExe package} --version", version ? package.version }:
      runCommand "${package.name}-test-version" { } ''out_=$(${command} 2>&1) && grep -qF -- ${escapeShellArg version} <<< "$out_" || { echo "no ${version} in: $out_" >&2; exit 1; }; touch $out'';
  };
} // lib.genAttrs [ "jq" "skopeo" "kubectl" "git" "nixfmt" "nixfmt-rfc-style" "pkg-config" "zstd" "shellcheck" "yq-go" "curl" "etcd" "cargo-nextest" "cargo-deny" "kubeconform" "treefmt" ]
  (n: hostTool n { bins = { nixfmt-rfc-style = [ "nixfmt" ]; yq-go = [ "yq" ]; }.${n} or [ n ]; })
// {
  kubernetes-helm = hostTool "kubernetes-helm" { bins = [ "helm" ]; };
  fakeroot = hostTool "fakeroot" { bins = [ "fakeroot" "faked" "getopt" ]; };
  protobuf = hostTool "protobuf" { bins = [ "protoc" ]; };
  chromium = hostTool "chromium" { };
  iproute2 = hostTool "iproute2" { bins = [ "ip" ]; };
  nftables = hostTool "nftables" { bins = [ "nft" ]; };
  prometheus = hostTool "prometheus" { } // { cli = hostTool "prometheus-cli" { bins = [ "promtool" ]; }; };
  python3 = hostTool "python3" { bins = [ "python3" ]; };
  nodejs = hostTool "nodejs" { bins = [ "node" "npm" "npx" ]; };
  go = hostTool "go" { bins = [ "go" "gofmt" ]; };
  bash = hostTool "bash" { }; bashInteractive = hostTool "bash-interactive" { bins = [ "bash" ]; };
  coreutils = hostTool "coreutils" { bins = [ "cat" "cp" "install" "ls" "mkdir" "mv" "rm" "sha256sum" "sort" ]; mainProgram = "coreutils"; };
  gnutar = hostTool "gnutar" { bins = [ "tar" ]; }; gzip = hostTool "gzip" { }; gnused = hostTool "gnused" { bins = [ "sed" ]; }; gnugrep = hostTool "gnugrep" { bins = [ "grep" ]; };
}
