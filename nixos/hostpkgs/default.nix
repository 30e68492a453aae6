# hostpkgs: what `import nixpkgs { ... }` gives, over the host's tools.  README.md tells what this is and is not.
args@{ system ? (if builtins.isString args.localSystem or null then args.localSystem else args.localSystem.system or builtins.currentSystem)
, localSystem ? { inherit system; }, crossSystem ? localSystem, config ? { }, overlays ? [ ], crossOverlays ? [ ], ... }:
let
  lib = import ./lib.nix;
  inherit (lib) optionals optionalString isFunction toFunction;
  needsReal = what: throw "hostpkgs: ${what} needs real nixpkgs";
  sys = s: if builtins.isString s then s else s.system or s;
  cpu = builtins.head (lib.splitString "-" system);
  # Darwin is here to be evaluated (development shells), nothing of it is built.
  isDarwin = lib.hasSuffix "-darwin" system;
  triple = if isDarwin then "${cpu}-apple-darwin" else "${cpu}-unknown-linux-gnu";
  goarch = { x86_64 = "amd64"; aarch64 = "arm64"; }.${cpu} or (needsReal "the system ${system}");
  platform = {
    inherit system; config = triple; isLinux = !isDarwin; inherit isDarwin; isStatic = false; isMusl = false; isGnu = !isDarwin;
    isx86_64 = cpu == "x86_64"; isAarch64 = cpu == "aarch64"; rust = { rustcTarget = triple; rustcTargetSpec = triple; }; go.GOARCH = goarch;
  };

  hostHome = "$(/usr/bin/getent passwd $(/usr/bin/id -u) | /usr/bin/cut -d: -f6)";
  # A derivation that looks at the host (outside the sandbox, where that is "relaxed").
  # It ends with a builtin: bash would become its last program, and nix kills a builder whose output is closed, which
  # coreutils do a moment before they end.
  raw = name: script: derivation {
    inherit name system; builder = "/bin/bash"; __noChroot = true; preferLocalBuild = true; allowSubstitutes = false;
    args = [ "-c" "set -e; export PATH=/usr/bin:/bin; ${script}\nexit 0" ];
  };
  # stdenv's tools and no others, so that a program missing from nativeBuildInputs is missed here too.
  toolbox = raw "hostpkgs-toolbox" ''
    mkdir -p $out/bin
    for p in coreutils findutils diffutils sed grep gawk tar gzip bzip2 make bash patch xz-utils file; do
      dpkg -L $p 2>/dev/null | grep -E '^(/usr)?/s?bin/[^/]+$' | while read -r f; do ln -sf $f $out/bin/; done || true
    done
    ln -sf /usr/bin/awk $out/bin/awk; ln -sf /bin/bash $out/bin/sh
  '';
  # The C library that everything compiled here is linked to, as a store path: so it gets into images.
  libc = raw "hostpkgs-glibc" ''
    mkdir -p $out/lib
    for l in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libgcc_s.so.1 libstdc++.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2; do
      cp -L $(gcc -print-file-name=$l) $out/lib/$l
    done
    chmod 555 $out/lib/*
  '';
  cc = raw "hostpkgs-cc" ''
    mkdir -p $out/bin
    for t in ld ar as ranlib strip nm objcopy objdump readelf strings size cpp; do ln -s /usr/bin/$t $out/bin/; done
    for t in cc gcc c++ g++; do
      printf '%s\n' '#!/bin/bash' 'for a; do case $a in -c|-S|-E|-M|-MM|-r|-v|-static*|--version|-dump*|-print*) exec /usr/bin/'$t' "$@" ;; esac; done' \
        "exec /usr/bin/$t \"\$@\" -Wl,--dynamic-linker=${libc}/lib/ld-linux-x86-64.so.2,-rpath,${libc}/lib" > $out/bin/$t
      chmod +x $out/bin/$t
    done
  '';
  stdenvDir = { cc }: raw "hostpkgs-stdenv" ''
    mkdir $out; sed 's,@toolbox@,${toolbox},g; s,@cc@,${if cc == null then "" else cc},g' ${./setup.sh} > $out/setup
  '';
  # Programs of the host, looked for when they are called; never let into an image.
  hostTool = pname: { bins ? [ pname ], mainProgram ? builtins.head bins, dirs ? [ "\\\${HOSTPKGS_BIN:-/opt/hostpkgs}" "/usr/local/bin" "/root/go/bin" "/root/.cargo/bin" "/usr/local/go/bin" "/usr/local/sbin" "/usr/bin" "/usr/sbin" "/bin" ] }:
    mkDrv { cc = null; } {
      inherit pname; version = "host"; meta = { inherit mainProgram; platforms = lib.platforms.linux; };
      buildCommand = ''
        mkdir -p $out/bin $out/nix-support; echo ${pname} > $out/nix-support/hostpkgs-host-tool
        for b in ${toString bins}; do
          printf '%s\n' '#!/bin/bash' "for d in ${toString dirs}; do [ ! -x \$d/$b ] || exec \$d/$b \"\$@\"; done" \
            "echo \"hostpkgs: this host has no $b (package ${pname}): looked in ${toString dirs}\" >&2; exit 127" > $out/bin/$b
          chmod +x $out/bin/$b
        done
      '';
    };
  rustTool = pname: bins: mkDrv { cc = null; } {
    inherit pname; version = "host"; meta = { mainProgram = builtins.head bins; platforms = lib.platforms.linux; };
    passthru = { targetPlatforms = lib.platforms.linux; badTargetPlatforms = [ ]; };
    __noChroot = true;
    # rustup's proxies are passed by (no rust-toolchain.toml, no HOME); outside a sandbox the build folder is mapped to /build.
    buildCommand = ''
      export HOME=${hostHome}; mkdir -p $out/bin $out/nix-support; echo ${pname} > $out/nix-support/hostpkgs-host-tool
      for d in $HOME/.cargo/bin /usr/local/bin /usr/bin; do [ ! -x $d/rustc ] || { root=$($d/rustc --print sysroot); break; }; done
      [ -n "$root" ] || { echo "hostpkgs: no rustc on this host" >&2; exit 1; }
      for b in ${toString bins}; do ln -s $root/bin/$b $out/bin/$b; done
      if [ -L $out/bin/rustc ]; then
        rm $out/bin/rustc
        printf '%s\n' '#!/bin/bash' "[ \"\''${NIX_BUILD_TOP:-/build}\" = /build ] || set -- \"\$@\" --remap-path-prefix \"\$NIX_BUILD_TOP=/build\"" "exec $root/bin/rustc \"\$@\"" > $out/bin/rustc
        chmod +x $out/bin/rustc; $root/bin/rustc -vV > $out/nix-support/version
      fi
    '';
  };

  mkDrv = { cc }: fnOrAttrs:
    let
      final = attrs // { finalPackage = drv; inherit (drv) overrideAttrs; };
      attrs = toFunction fnOrAttrs final;
      name = attrs.name or "${attrs.pname}-${attrs.version}";
      env = attrs.env or { };
      clash = lib.intersectLists (builtins.attrNames env) (builtins.attrNames (removeAttrs attrs [ "env" ]));
      badEnv = builtins.filter (n: !(lib.isDerivation env.${n} || builtins.elem (builtins.typeOf env.${n}) [ "string" "bool" "int" ])) (builtins.attrNames env);
      deps = n: builtins.filter (d: d != null) (lib.flatten (attrs.${n} or [ ]));
      doCheck = attrs.doCheck or false;
      doInstallCheck = attrs.doInstallCheck or false;
      outputs = attrs.outputs or [ "out" ];
      meta = { inherit name; outputsToInstall = [ (builtins.head outputs) ]; available = true; } // attrs.meta or { };
      drv0 = derivation (removeAttrs attrs [ "meta" "passthru" "pos" "env" "nativeCheckInputs" "checkInputs" "nativeInstallCheckInputs" ] // env // {
        inherit name system doCheck doInstallCheck outputs;
        builder = attrs.builder or "/bin/bash";
        args = attrs.args or [ "-c" "source $stdenv/setup; if [ -n \"$buildCommandPath\" ]; then source $buildCommandPath; else genericBuild; fi" ];
        stdenv = stdenvDir { inherit cc; };
        nativeBuildInputs = deps "nativeBuildInputs" ++ optionals doCheck (deps "nativeCheckInputs") ++ optionals doInstallCheck (deps "nativeInstallCheckInputs");
        buildInputs = deps "buildInputs" ++ optionals doCheck (deps "checkInputs");
      } // lib.optionalAttrs (meta ? mainProgram) { NIX_MAIN_PROGRAM = meta.mainProgram; });
      more = attrs.passthru or { } // {
        inherit name meta; passthru = attrs.passthru or { };
        overrideAttrs = f: mkDrv { inherit cc; } (self: let prev = toFunction fnOrAttrs self; in prev // lib.toExtension f self prev);
      } // lib.optionalAttrs (attrs ? pname) { inherit (attrs) pname; } // lib.optionalAttrs (attrs ? version) { inherit (attrs) version; };
      drv =
        if clash != [ ] then throw "The ‘env’ attribute set cannot contain any attributes passed to derivation. The following attributes are overlapping: ${toString clash}"
        else if badEnv != [ ] then throw "The ‘env’ attribute set can only contain derivations, strings, booleans or integers: ${toString badEnv}"
        else drv0 // lib.genAttrs outputs (o: drv0.${o} // more) // more;
    in drv;
  mkStdenv = cc: { mkDerivation = mkDrv { inherit cc; }; inherit cc system; shell = "/bin/bash"; shellDryRun = "/bin/bash -n -O extglob";
    hostPlatform = platform; buildPlatform = platform; targetPlatform = platform; isLinux = !isDarwin; inherit isDarwin; isAarch64 = cpu == "aarch64"; isx86_64 = cpu == "x86_64"; outPath = stdenvDir { inherit cc; }; };

  base = final: let inherit (final) runCommand writeTextFile stdenv; in {
    inherit lib system config overlays; path = ./.;
    pkgs = final; buildPackages = final; targetPackages = final;
    callPackage = lib.callPackageWith final;
    extend = f: import ./. (args // { inherit system; overlays = overlays ++ [ f ]; });
    appendOverlays = fs: import ./. (args // { inherit system; overlays = overlays ++ fs; });
    stdenv = mkStdenv cc; stdenvNoCC = mkStdenv null; runtimeShell = "/bin/bash";
    pkgsStatic = needsReal "pkgsStatic"; pkgsMusl = needsReal "pkgsMusl"; pkgsCross = needsReal "pkgsCross";
    nixos = _: needsReal "pkgs.nixos"; fetchurl = _: needsReal "fetchurl"; fetchFromGitHub = _: needsReal "fetchFromGitHub"; fetchzip = _: needsReal "fetchzip"; fetchgit = _: needsReal "fetchgit";
  } // import ./builders.nix { inherit lib final needsReal hostHome triple goarch libc cc hostTool rustTool raw; };
in
assert lib.assertMsg (sys crossSystem == system) "hostpkgs: no cross compilation";
lib.fix (lib.foldl (lib.flip lib.extends) base overlays)
