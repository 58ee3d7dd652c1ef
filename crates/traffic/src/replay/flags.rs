//! The flags of `csi replay`.

use clap::Args;
use csi_proto::tables::METHODS;
use std::path::PathBuf;

/// The flags of `csi replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayFlags {
    /// The recording of `csi proxy --record`; - for stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Send each call when it was sent in the recording, and as many at once, instead of one after the other
    #[arg(long)]
    pub timing: bool,
    /// With --timing: so many times as fast
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed, requires = "timing")]
    pub speed: f64,
    /// Do not compare a field of replies, such as volume.volume_context.server, or status
    #[arg(long, value_name = "PATH", value_parser = ignored)]
    pub ignore: Vec<String>,
    /// Compare the messages of errors too, not only their codes
    #[arg(long)]
    pub messages: bool,
    /// Target and staging paths below OLD are below NEW here
    #[arg(long, value_name = "OLD=NEW", value_parser = path_pair)]
    pub map_path: Vec<(String, String)>,
    /// Do not make the folders in which an orchestrator would make targets
    #[arg(long)]
    pub no_folders: bool,
    /// Draw the recording on a page for a browser too, with what was answered otherwise
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Secrets from a file, in the place of those that the recording masks: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE")]
    pub secrets_file: Option<String>,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed >= 0.001 => Ok(speed),
        _ => Err(format!(
            "{text:?} is no speed: write a number such as 2 or 0.5"
        )),
    }
}

/// A path that at least one reply has: a misspelt one would ignore nothing, and nobody would notice.
fn ignored(text: &str) -> Result<String, String> {
    let first = text.split('.').next().unwrap_or_default();
    let known = first == "status"
        || METHODS
            .iter()
            .any(|method| method.response.field(first).is_some());
    match known {
        true => Ok(text.to_owned()),
        false => Err(format!("no reply of CSI has a field {first:?}")),
    }
}

fn path_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if old.starts_with('/') && new.starts_with('/') => {
            let clean = |path: &str| path.trim_end_matches('/').to_owned();
            Ok((clean(old), clean(new)))
        }
        _ => Err(format!("{text:?} is no pair of paths: write /OLD=/NEW")),
    }
}
