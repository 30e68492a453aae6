//! `cargo xtask release`: what a release is, built by the flake, listed and published.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::nix::Nix;
use crate::{tools, workspace};

/// Builds a release by the flake, lists what is in it, and publishes it: images and charts to a registry.
#[derive(clap::Args)]
pub struct Args {
    /// Publish nothing: list, and say what would be run.
    #[arg(long)]
    dry_run: bool,
    /// Build by this machine's own tools, without nixpkgs. Such a release is listed and never published.
    #[arg(long, requires = "dry_run")]
    host_tools: bool,
    /// Images for every architecture in one. Takes a builder of each, or their images in this machine's store.
    #[arg(long, conflicts_with = "host_tools")]
    multiarch: bool,
    /// Where images and charts are published.
    #[arg(long, value_name = "REGISTRY", default_value = "ghcr.io/cozystack")]
    to: String,
}

impl Args {
    pub fn run(self) -> Result<()> {
        let tools: &[tools::Tool] = if self.host_tools { tools::NIX } else { &[tools::Tool::Nix] };
        tools::preflight(tools)?;
        tools::all_present(tools)?;
        let nix = if self.host_tools { Nix::of_host_tools()? } else { Nix::real() };
        let output = if self.multiarch { "release-multiarch" } else { "release" };
        let folder = nix.build(&workspace::root(), output)?;
        let release = Release::read(&folder)?;
        release.list();
        for mut command in release.publish(&self.to) {
            if self.dry_run {
                println!("would run: {}", tools::shown(&command));
            } else {
                tools::run(&mut command)?;
            }
        }
        Ok(())
    }
}

/// A folder that the flake made.
struct Release {
    folder: PathBuf,
    /// Each with its tag, and its digest.
    images: Vec<(String, String)>,
    /// Each with its checksum.
    files: Vec<(String, String)>,
}

impl Release {
    fn read(folder: &Path) -> Result<Self> {
        let images = pairs(&folder.join("images.txt"))?;
        let sums = pairs(&folder.join("SHA256SUMS"))?;
        let files = sums.into_iter().map(|(sum, file)| (file.trim().to_owned(), sum)).collect();
        Ok(Self { folder: folder.to_owned(), images, files })
    }

    fn list(&self) {
        println!("release {} in {}", env!("CARGO_PKG_VERSION"), self.folder.display());
        for (image, digest) in &self.images {
            println!("image  {image}@{digest}");
        }
        for (file, sum) in &self.files {
            let size = std::fs::metadata(self.folder.join(file)).map_or(0, |about| about.len());
            println!("file   {file}  {size} bytes  sha256:{sum}");
        }
    }

    /// The commands that publish it.
    fn publish(&self, registry: &str) -> Vec<Command> {
        let mut commands = Vec::new();
        for (file, _) in &self.files {
            let path = self.folder.join(file);
            if let Some(image) = file.strip_suffix("-image.tar") {
                let name = image.strip_suffix(concat!("-", env!("CARGO_PKG_VERSION"))).unwrap_or(image);
                let mut skopeo = Command::new("skopeo");
                // The charts name the digest: what arrives has to have it. Of several architectures, all.
                skopeo
                    .args(["copy", "--all", "--preserve-digests"])
                    .arg(format!("oci-archive:{}", path.display()));
                skopeo.arg(format!("docker://{registry}/{name}:{}", env!("CARGO_PKG_VERSION")));
                commands.push(skopeo);
            } else if Path::new(file).extension().is_some_and(|extension| extension == "tgz") {
                let mut helm = Command::new("helm");
                helm.arg("push").arg(&path).arg(format!("oci://{registry}/charts"));
                commands.push(helm);
            }
        }
        commands
    }
}

/// The lines of a file, each two words.
fn pairs(file: &Path) -> Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let pair = |line: &str| line.split_once(' ').map(|(first, second)| (first.to_owned(), second.to_owned()));
    let pairs: Vec<_> = text.lines().filter_map(pair).collect();
    ensure!(!pairs.is_empty(), "{} is empty", file.display());
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[test]
    fn images_and_charts_are_published_under_the_names_that_the_charts_use() {
        let folder = tempfile::tempdir().unwrap();
        let digest = "sha256:00";
        std::fs::write(
            folder.path().join("images.txt"),
            format!("ghcr.io/cozystack/a-b:{VERSION} {digest}\n"),
        )
        .unwrap();
        let files =
            [format!("a-b-{VERSION}-image.tar"), format!("a-b-{VERSION}.tgz"), "crds.yaml".to_owned()];
        let sums: Vec<_> = files.iter().map(|file| format!("11  {file}")).collect();
        std::fs::write(folder.path().join("SHA256SUMS"), sums.join("\n")).unwrap();
        let release = Release::read(folder.path()).unwrap();
        assert_eq!(release.images, [(format!("ghcr.io/cozystack/a-b:{VERSION}"), digest.to_owned())]);
        let place = folder.path().display();
        let shown: Vec<_> = release.publish("registry.example/x").iter().map(tools::shown).collect();
        assert_eq!(
            shown,
            [
                format!(
                    "skopeo copy --all --preserve-digests oci-archive:{place}/a-b-{VERSION}-image.tar docker://registry.example/x/a-b:{VERSION}"
                ),
                format!("helm push {place}/a-b-{VERSION}.tgz oci://registry.example/x/charts"),
            ]
        );
    }
}
