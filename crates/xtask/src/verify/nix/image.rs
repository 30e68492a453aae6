//! An image of the flake: looked at by skopeo, unpacked, and its programs run as it says.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use devcluster::binaries::on_path;
use serde_json::Value;

use crate::tools;

/// An archive of an image, and where it is unpacked.
pub struct Image {
    archive: PathBuf,
    root: PathBuf,
    /// What skopeo says of it: name, digest, labels.
    about: Value,
    /// The config that a runtime goes by.
    config: Value,
}

impl Image {
    /// Reads an archive and unpacks its layers into a folder.
    pub fn open(archive: &Path, root: &Path) -> Result<Self> {
        let about = inspect("oci-archive", archive, &[])?;
        let config = inspect("oci-archive", archive, &["--config"])?["config"].take();
        let layout = tempfile::tempdir()?;
        fs::create_dir_all(root)?;
        tools::run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(layout.path()))?;
        for layer in about["Layers"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let blob = layout.path().join("blobs").join(layer.replace(':', "/"));
            tools::run(Command::new("tar").arg("-xzpf").arg(blob).arg("-C").arg(root))?;
            // A layer may say that nobody writes there; the next one has to be unpacked all the same.
            tools::run(Command::new("chmod").args(["--recursive", "u+w"]).arg(root))?;
        }
        Ok(Self { archive: archive.to_owned(), root: root.to_owned(), about, config })
    }

    /// It is small, runs as nobody, holds no time of its build, knows certificates, and every reader takes it for the same.
    pub fn check(&self, most: u64) -> Result<()> {
        let name = self.name();
        let size = fs::metadata(&self.archive)?.len();
        println!("{name} {} {:.1} MB", self.digest(), megabytes(size));
        ensure!(size <= most, "{name} has {size} bytes, more than {most}");
        let user = self.config["User"].as_str().unwrap_or_default();
        ensure!(user == "65532:65532", "{name} runs as {user:?}");
        ensure!(self.about["Created"] == "1970-01-01T00:00:01Z", "{name} says when it was built");
        let labels = &self.about["Labels"];
        for label in ["title", "description", "version", "licenses", "source"] {
            let label = format!("org.opencontainers.image.{label}");
            ensure!(
                labels[&label].as_str().is_some_and(|text| !text.is_empty()),
                "{name} has no label {label}"
            );
        }
        // Through the image's own links: they lead to /nix/store, which this machine has as well, so only the first is followed.
        let certificates = self.root.join("etc/ssl/certs/ca-bundle.crt");
        let target = fs::read_link(&certificates).with_context(|| format!("{name} has no certificates"))?;
        ensure!(self.root.join(target.strip_prefix("/")?).exists(), "{name} has no certificates");
        // As old versions of docker read it.
        let old = inspect("docker-archive", &self.archive, &["--config"])?;
        ensure!(old["config"] == self.config, "{name} is another image for `docker load`");
        Ok(())
    }

    /// That of its manifest, by which a registry knows it.
    pub fn digest(&self) -> &str {
        self.about["Digest"].as_str().unwrap_or_default()
    }

    /// What it starts.
    pub fn entrypoint(&self) -> Vec<String> {
        let words = self.config["Entrypoint"].as_array().into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Runs a program of it, with nothing but the image in sight.
    pub fn says_its_version(&self, program: &str) -> Result<()> {
        let output = self.command(program).arg("--version").output().context("running chroot")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let expected = format!("{program} {}\n", env!("CARGO_PKG_VERSION"));
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(said == expected, "{program} of {} says {said:?} and {errors:?}", self.name());
        Ok(())
    }

    /// Writes a script of the program's name to a folder, which runs the program as the image says: in the image's files
    /// alone, by its user, with its environment. The kubeconfig, which the script is told by KUBECONFIG, is put where it
    /// is on this machine.
    pub fn wrap(&self, program: &str, folder: &Path) -> Result<()> {
        let chroot = on_path("chroot").context("chroot is missing: it is part of coreutils")?;
        let exports: Vec<_> = self.env().map(|variable| format!("export '{variable}'")).collect();
        let script = format!(
            "#!/bin/sh\nset -e\nroot='{root}'\ninstall -D -m 444 \"$KUBECONFIG\" \"$root$KUBECONFIG\"\n{exports}\n\
             exec {chroot} --userspec={user} \"$root\" /bin/{program} \"$@\"\n",
            exports = exports.join("\n"),
            root = self.root.display(),
            chroot = chroot.display(),
            user = self.user(),
        );
        fs::create_dir_all(folder)?;
        let path = folder.join(program);
        fs::write(&path, script)?;
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={}", self.user())).arg(&self.root).arg(format!("/bin/{program}"));
        command
    }

    fn env(&self) -> impl Iterator<Item = &str> {
        self.config["Env"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    fn user(&self) -> &str {
        self.config["User"].as_str().unwrap_or_default()
    }

    fn name(&self) -> String {
        self.archive.file_name().unwrap_or_default().display().to_string()
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with one decimal")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// What skopeo says of an archive.
fn inspect(transport: &str, archive: &Path, args: &[&str]) -> Result<Value> {
    let mut skopeo = Command::new("skopeo");
    skopeo
        .args(["--insecure-policy", "inspect"])
        .args(args)
        .arg(format!("{transport}:{}", archive.display()));
    let Output { status, stdout, stderr } = skopeo.output().context("running skopeo")?;
    let said = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "skopeo does not read {} as {transport}: {said}", archive.display());
    serde_json::from_slice(&stdout).with_context(|| format!("what skopeo says of {}", archive.display()))
}
