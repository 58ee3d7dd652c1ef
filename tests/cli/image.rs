//! The driver's image as an OCI archive: what a container runtime reads in it, and that the same binary gives the same bytes. What is
//! linked into the driver besides crates.

use crate::support::driver;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the script writes for a binary, in a folder of its own.
fn build(folder: &Path, binary: &Path) -> Vec<u8> {
    let out = folder.join("image.tar");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("driver/image/build");
    let ended = Command::new(script)
        .arg(&out)
        .arg(binary)
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env("CSI_SOURCE", "https://example.com/fork")
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    fs::read(out).unwrap()
}

/// The files of a tar, by name. All of ustar that such an archive has: a header of 512 bytes, then the content in blocks.
fn unpack(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0);
        String::from_utf8(bytes[..end.unwrap_or(bytes.len())].to_vec()).unwrap()
    };
    let number = |bytes: &[u8]| usize::from_str_radix(text(bytes).trim(), 8).unwrap();
    let (mut files, mut at) = (BTreeMap::new(), 0);
    while tar[at] != 0 {
        let header = &tar[at..at + 512];
        let size = number(&header[124..136]);
        assert_eq!(
            number(&header[136..148]),
            1_700_000_000,
            "the time of a file"
        );
        assert_eq!(number(&header[108..116]), 0, "the owner of a file");
        if header[156] == b'0' {
            files.insert(
                text(&header[..100]),
                tar[at + 512..at + 512 + size].to_vec(),
            );
        }
        at += 512 + size.div_ceil(512) * 512;
    }
    files
}

#[test]
fn an_image_holds_one_binary_and_is_the_same_each_time() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Neither its folder, nor its time, nor its owner's habits are to be seen.
    let copy = other.path().join("csi-nfs");
    fs::copy(driver::binary(), &copy).unwrap();
    let image = build(one.path(), &driver::binary());
    assert!(image == build(other.path(), &copy), "two builds differ");
    let files = unpack(&image);
    let json = |name: &str| serde_json::from_slice::<serde_json::Value>(&files[name]).unwrap();
    let blob = |descriptor: &serde_json::Value| {
        let digest = descriptor["digest"].as_str().unwrap().to_owned();
        let name = digest.replace("sha256:", "blobs/sha256/");
        let size = descriptor["size"].as_u64().unwrap();
        assert_eq!(files[&name].len() as u64, size, "{name}");
        (digest, name)
    };
    assert_eq!(json("oci-layout")["imageLayoutVersion"], "1.0.0");
    let described = &json("index.json")["manifests"][0];
    assert_eq!(described["platform"]["os"], "linux");
    let manifest = json(&blob(described).1);
    let config = json(&blob(&manifest["config"]).1);
    assert_eq!(
        config["config"]["Entrypoint"],
        serde_json::json!(["/csi-nfs"])
    );
    assert_eq!(config["config"]["User"], "0:0");
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");
    let label = |name: &str| {
        let label = &config["config"]["Labels"][format!("org.opencontainers.image.{name}")];
        label.as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(label("source"), "https://example.com/fork");
    assert_eq!(label("revision").trim_end_matches("-modified"), revision());
    let (digest, layer) = blob(&manifest["layers"][0]);
    assert_eq!(config["rootfs"]["diff_ids"][0], *digest);
    let layer = unpack(&files[&layer]);
    assert_eq!(layer.keys().collect::<Vec<_>>(), ["csi-nfs"]);
    assert!(layer["csi-nfs"] == fs::read(driver::binary()).unwrap());
    assert_eq!(files.len(), 5);
}

/// The commit that these sources are of.
fn revision() -> String {
    let git = ["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"];
    let ended = Command::new("git").args(git).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8(ended.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

/// What is no crate, in the words of the programs: the C library tells its version in each of them.
#[test]
fn an_sbom_names_the_c_library_that_is_linked_in() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages/linked");
    let ended = Command::new(script).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let lines = String::from_utf8(ended.stdout).unwrap();
    let components = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|component| (component["name"].as_str().unwrap().to_owned(), component));
    let components: BTreeMap<_, _> = components.collect();
    assert_eq!(
        components.keys().collect::<Vec<_>>(),
        ["glibc", "libgcc", "rust-std"]
    );
    let program = fs::read(driver::binary()).unwrap();
    let banner = b"GNU C Library (";
    let at = program.windows(banner.len()).position(|it| it == banner);
    let banner = &program[at.expect("a static glibc")..][..120];
    let banner = String::from_utf8_lossy(banner);
    let version = components["glibc"]["version"].as_str().unwrap();
    assert!(
        banner.contains(&format!(" {version}")),
        "{banner}: {version}"
    );
}

/// Both ways to the image make the same of it.
#[test]
fn the_dockerfile_says_what_the_script_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("driver/image");
    let dockerfile = fs::read_to_string(root.join("Dockerfile")).unwrap();
    let script = fs::read_to_string(root.join("build")).unwrap();
    assert!(dockerfile.contains(&format!("ARG VERSION={}\n", env!("CARGO_PKG_VERSION"))));
    let labels = dockerfile.lines().filter_map(|line| {
        let line = line
            .trim_start_matches("LABEL")
            .trim()
            .trim_end_matches(" \\");
        line.split_once('=')
            .filter(|(key, _)| key.starts_with("org."))
    });
    let labels: Vec<_> = labels.collect();
    assert_eq!(labels.len(), 6);
    for (key, value) in labels {
        let value = if value.starts_with("\"$") {
            "\"%s\""
        } else {
            value
        };
        assert!(script.contains(&format!("\"{key}\":{value}")), "{key}");
    }
    assert!(dockerfile.contains("ENTRYPOINT [\"/csi-nfs\"]"));
}
