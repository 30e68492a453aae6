//! The charts as dependencies of another.

use std::path::Path;

use rstest::rstest;

use super::{CORE, DASHBOARD, DRIVER, helm, objects, pods};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { std::fs::copy(path, target).map(|_| ()).unwrap() }
    }
}

/// Rendered below a parent, a chart gets its values by its name, and `global`, which helm sets by itself; what it does not know is
/// refused there, too.
#[rstest]
#[ignore = "needs helm: cargo verify --only charts"]
fn works_as_a_subchart(#[values(CORE, DRIVER, DASHBOARD)] chart: &str) {
    let folder = tempfile::tempdir().unwrap();
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chart");
    copy(&charts.join(chart), &folder.path().join("charts").join(chart));
    std::fs::write(folder.path().join("Chart.yaml"), "apiVersion: v2\nname: parent\nversion: 1.0.0\n")
        .unwrap();
    let template = |values: &str| {
        let file = folder.path().join("values.yaml");
        std::fs::write(file, format!("global: {{anything: goes}}\n{chart}: {values}\n")).unwrap();
        helm(&["template", "parent", folder.path().to_str().unwrap()])
    };
    let output = template("{image: {tag: of-the-parent}}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects = objects(&String::from_utf8(output.stdout).unwrap());
    let images: Vec<_> = objects.iter().filter_map(pods::image).collect();
    assert!(!images.is_empty() && images.iter().all(|image| image.ends_with(":of-the-parent")), "{images:?}");
    let refused = template("{imag: {tag: x}}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("additional properties 'imag' not allowed"), "{said}");
}
