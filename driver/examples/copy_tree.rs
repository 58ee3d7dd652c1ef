//! Copies a folder with the driver's copy engine and prints what it took: for measurements of time, calls and memory.
//!
//! Usage: copy_tree SOURCE TARGET, where TARGET's parent exists and TARGET does not.

use csi_nfs_store::files::copying::{LinksFolder, Progress, View, copy};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(source), Some(target)) = (arguments.next(), arguments.next()) else {
        return Err("usage: copy_tree SOURCE TARGET".into());
    };
    std::fs::create_dir(&target)?;
    let parent = target.parent().filter(|parent| *parent != Path::new(""));
    let open = |path: &Path| -> std::io::Result<OwnedFd> { Ok(File::open(path)?.into()) };
    let parent = open(parent.unwrap_or(Path::new(".")))?;
    let links = format!(".copy_tree-links-{}", std::process::id());
    let progress = Progress::default();
    let began = Instant::now();
    let links = LinksFolder::new(parent, links);
    let view = View::new(open(&source)?, open(&target)?, links);
    let report = copy(view, &|| None, &progress)?;
    let took = began.elapsed();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    eprintln!(
        "{} entries, {} bytes in {took:.3?}; {}; left out: {}",
        report.files,
        report.bytes,
        peak.unwrap_or_default(),
        report.omissions().unwrap_or_else(|| "nothing".to_owned())
    );
    Ok(())
}
