//! What a lifecycle says about that which it leaves: in words, with the command that takes it back. A load makes its
//! commands of the same words.
//!
//! Ids come from a driver: they are quoted for a shell, and escaped for a terminal.

use super::undo::Undo;
use super::{Lifecycle, say};
use crate::arguments::capability;
use crate::arguments::map::Map;
use crate::call::endpoint::Endpoint;
use crate::output::shell_word::word;
use csi_proto::text::escaped;
use csi_proto::v1;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

impl<W: Write> Lifecycle<'_, W> {
    /// Says that something stays.
    pub(super) fn say_left(&self, undo: &Undo) {
        let node = csi(&self.node.endpoint, None);
        let secrets = self.flags.secrets_file.as_deref();
        let controller = csi(&self.controller.endpoint, secrets);
        say(&format!("left: {}", left(undo, &node, &controller)));
    }

    /// Says that the writer's thread hangs.
    pub(super) fn say_writer_left(&self, target: &Path) {
        let target = target.to_string_lossy();
        say(&format!(
            "left: the thread that writes to {}, which does not answer: the thread ends with this process or when the \
             storage answers; perhaps the file .{} stays in the volume",
            escaped(&target),
            self.name,
        ));
    }
}

/// The beginning of a command for that driver.
pub fn csi(endpoint: &Endpoint, secrets_file: Option<&str>) -> String {
    let mut command = format!("csi -e {}", word(&endpoint.to_string()));
    // Secrets that came on stdin are gone.
    if let Some(file) = secrets_file.filter(|file| *file != "-") {
        let _ = write!(command, " --secrets-file {}", word(file));
    }
    command
}

/// What may be left, with the command that takes it back. `node` and `controller` begin commands for these.
fn left(undo: &Undo, node: &str, controller: &str) -> String {
    match undo {
        Undo::Folder(path) => {
            let path = path.to_string_lossy();
            format!("the folder {}: rmdir {}", escaped(&path), word(&path))
        }
        Undo::Create(request) => format!(
            "perhaps a volume named {}: {controller} controller create-volume {} tells its id, {controller} controller \
             delete-volume ID deletes it",
            escaped(&request.name),
            arguments(request),
        ),
        Undo::Volume(id) => format!(
            "the volume {}: {controller} controller delete-volume {}",
            escaped(id),
            subject(id)
        ),
        Undo::ControllerPublish { volume, node } => format!(
            "the volume {} at node {}: {controller} controller unpublish --node-id {} {}",
            escaped(volume),
            escaped(node),
            word(node),
            subject(volume),
        ),
        Undo::Stage { volume, staging } => format!(
            "the staged volume {}: {node} node unstage --staging-target-path {} {}",
            escaped(volume),
            word(staging),
            subject(volume),
        ),
        Undo::Publish { volume, target } => format!(
            "the published volume {}: {node} node unpublish --target-path {} {}",
            escaped(volume),
            word(target),
            subject(volume),
        ),
    }
}

/// The arguments of `controller create-volume` that make this request, but for its secrets.
fn arguments(request: &v1::CreateVolumeRequest) -> String {
    let mut out = String::new();
    for capability in &request.volume_capabilities {
        let _ = write!(out, "--cap {} ", word(&capability::text(capability)));
    }
    if let Some(range) = &request.capacity_range {
        for (flag, bytes) in [
            ("--req-bytes", range.required_bytes),
            ("--lim-bytes", range.limit_bytes),
        ] {
            if bytes != 0 {
                let _ = write!(out, "{flag} {bytes} ");
            }
        }
    }
    if !request.parameters.is_empty() {
        let mut parameters = Map::default();
        for (key, value) in &request.parameters {
            parameters.insert(key.clone(), value.clone());
        }
        let _ = write!(out, "--params {} ", word(&parameters.to_string()));
    }
    out + &subject(&request.name)
}

/// A name or id at the end of a command.
pub fn subject(text: &str) -> String {
    // One that begins like a flag is none.
    let end_of_flags = if text.starts_with('-') { "-- " } else { "" };
    format!("{end_of_flags}{}", word(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_of_unknown_id_is_found_with_what_it_was_created_with() {
        let request = v1::CreateVolumeRequest {
            name: "a b".into(),
            capacity_range: Some(v1::CapacityRange {
                required_bytes: 1 << 30,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![capability::parse("5,mount,nfs4,ro").unwrap()],
            parameters: [("k".to_owned(), "x,y".to_owned())].into(),
            secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
            ..Default::default()
        };
        let said = left(&Undo::Create(request), "csi -e n", "csi -e c");
        let expected = "csi -e c controller create-volume \
             --cap 'mode=5,type=mount,fs=nfs4,flag=ro' --req-bytes 1073741824 --params '\"k=x,y\"' 'a b'";
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}
