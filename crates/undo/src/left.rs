//! Messages about what stays behind, and the command lines that take it back.
//!
//! Ids come from a driver: in commands they are quoted for a shell; words are escaped by whoever shows them.

use super::made::Item;
use super::requests::{id, name};
use bytes::Bytes;
use csi_arguments::{capability, map};
use csi_call::Endpoint;
use csi_output::json;
use csi_output::shell_word::word;
use csi_proto::schema::Cardinality;
use csi_proto::value::Secrets;
use csi_proto::{Method, contents, tables, v1};
use csi_rpc::facts::{IdKind, Making, Thing};
use prost::Message as _;
use std::fmt::{self, Write as _};

/// Names the item in a message.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "the folder {}", path.display()),
            Self::Asked {
                method,
                making,
                requests,
            } => {
                let name = requests.first().map(|request| name(method, request));
                let (noun, name) = (making.thing.noun().0, text(&name.unwrap_or_default()));
                write!(f, "perhaps a {noun} named {name}")
            }
            Self::Thing { making, undo } => {
                let mut ids = making
                    .identity()
                    .filter_map(|field| id(making, undo, field));
                let mut next = || ids.next().map(|id| text(&id));
                let (noun, first) = (making.thing.noun().0, next().unwrap_or_default());
                match (making.thing, next()) {
                    (Thing::AttachedVolume, Some(node)) => {
                        write!(f, "the volume {first} at node {node}")
                    }
                    (_, Some(path)) => write!(f, "the {noun} {first} at {path}"),
                    (_, None) => write!(f, "the {noun} {first}"),
                }
            }
        }
    }
}

/// The beginnings of command lines.
#[derive(Clone, Copy)]
pub struct Commands<'a> {
    /// The endpoint of the node.
    pub node: &'a Endpoint,
    /// The endpoint of the controller.
    pub controller: &'a Endpoint,
    /// The file of the secrets.
    pub secrets_file: Option<&'a str>,
}

impl Commands<'_> {
    /// The command line that takes an item back.
    pub fn take_back(&self, item: &Item) -> String {
        match item {
            Item::Folder(path) => format!("rmdir {}", word(&path.to_string_lossy())),
            Item::Thing { making, undo } => self.undo(making.undone_by, undo),
            Item::Asked {
                method,
                making,
                requests,
            } => {
                let request = requests.first().cloned().unwrap_or_default();
                self.ask_and_undo(method, making, &request)
            }
        }
    }

    /// The command that sends a request whose fields are texts.
    fn undo(&self, method: &Method, request: &Bytes) -> String {
        let mut command = self.csi(method, "");
        let mut subjects = String::new();
        for field in method.request.fields.iter().filter(|field| !field.secret) {
            for content in contents(method.request, request, field.name) {
                match IdKind::of_field(field.name) {
                    Some(IdKind::Volume | IdKind::Snapshot | IdKind::GroupSnapshot)
                        if field.cardinality == Cardinality::Singular =>
                    {
                        let _ = write!(subjects, " {}", subject(&text(content)));
                    }
                    _ => {
                        let flag = field.name.replace('_', "-");
                        let _ = write!(command, " --{flag} {}", word(&text(content)));
                    }
                }
            }
        }
        command + &subjects
    }

    /// The command that takes back what has no id yet.
    fn ask_and_undo(&self, method: &Method, making: &Making, request: &Bytes) -> String {
        let undo = self.csi(making.undone_by, "");
        let sources = ["source_volume_id", "source_volume_ids"].into_iter();
        let mut sources = sources.flat_map(|field| contents(method.request, request, field));
        match sources.next() {
            // It may be there without its source, of which nobody can ask for it again then.
            Some(source) => {
                let list = self.csi(&tables::CONTROLLER_LIST_SNAPSHOTS, "");
                let source = word(&text(source));
                format!("{list} --source-volume-id {source} tells its id, {undo} deletes it")
            }
            // The same name and arguments lead to the same thing. The flag comes first: a name that begins like one ends them.
            None => {
                let (ask, arguments) = (self.csi(method, " -o name"), arguments(method, request));
                format!("{undo} \"$({ask} {arguments})\"")
            }
        }
    }

    /// The beginning of a command that calls a method.
    fn csi(&self, method: &Method, flags: &str) -> String {
        let endpoint = match csi_rpc::is_at_node(method) {
            true => self.node,
            false => self.controller,
        };
        let mut command = format!("csi -e {}{flags}", word(&endpoint.to_string()));
        if let Some((group, rpc)) = csi_rpc::of_method(method) {
            let _ = write!(command, " {} {}", group.name, rpc.verb());
        }
        // Secrets that came on stdin are gone.
        if let Some(file) = self
            .secrets_file
            .filter(|file| method.request.takes_secrets() && *file != "-")
        {
            let _ = write!(command, " --secrets-file {}", word(file));
        }
        command
    }
}

/// The arguments that make this request, but for its secrets.
fn arguments(method: &Method, request: &Bytes) -> String {
    if method.path == tables::CONTROLLER_CREATE_VOLUME.path
        && let Some(arguments) = create_volume(request)
    {
        return arguments;
    }
    let document = json::Document {
        message: method.request,
        bytes: request,
        secrets: Secrets::Omit,
    };
    // The request was made here.
    let line = json::line_text(&document).unwrap_or_default();
    format!("--request {}", word(&line))
}

/// The flags and the name of a CreateVolume, for a request that has no more than these.
fn create_volume(request: &Bytes) -> Option<String> {
    let mut request = v1::CreateVolumeRequest::decode(request.clone()).ok()?;
    let mut out = String::new();
    for capability in std::mem::take(&mut request.volume_capabilities) {
        let _ = write!(out, "--cap {} ", word(&capability::text(&capability)));
    }
    let range = request.capacity_range.take().unwrap_or_default();
    let bounds = [
        ("--req-bytes", range.required_bytes),
        ("--lim-bytes", range.limit_bytes),
    ];
    for (flag, bytes) in bounds.into_iter().filter(|(_, bytes)| *bytes != 0) {
        let _ = write!(out, "{flag} {bytes} ");
    }
    if !request.parameters.is_empty() {
        let parameters = map::text(&std::mem::take(&mut request.parameters));
        let _ = write!(out, "--params {} ", word(&parameters));
    }
    out += &subject(&std::mem::take(&mut request.name));
    request.secrets.clear();
    (request == v1::CreateVolumeRequest::default()).then_some(out)
}

/// A name or id at the end of a command.
fn subject(text: &str) -> String {
    // One that begins like a flag is none.
    let end_of_flags = if text.starts_with('-') { "-- " } else { "" };
    format!("{end_of_flags}{}", word(text))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    fn item(method: &'static Method, request: &impl prost::Message) -> Item {
        let mut made = Made::default();
        let number = made.asked(method, &request.encode_to_vec().into());
        made.get(number.unwrap()).unwrap().clone()
    }

    #[test]
    fn what_is_left_is_said_with_a_command_that_takes_it_back() {
        let endpoint = |text: &str| Endpoint::parse(text).unwrap();
        let (node, controller) = (endpoint("unix:///n"), endpoint("unix:///c"));
        let commands = Commands {
            node: &node,
            controller: &controller,
            secrets_file: Some("s"),
        };
        let create = v1::CreateVolumeRequest {
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
        let snapshot = v1::CreateSnapshotRequest {
            source_volume_id: "v".into(),
            name: "s".into(),
            ..Default::default()
        };
        let attach = v1::ControllerPublishVolumeRequest {
            volume_id: "-v".into(),
            node_id: "it's".into(),
            ..Default::default()
        };
        let publish = v1::NodePublishVolumeRequest {
            volume_id: "v".into(),
            target_path: "/a b".into(),
            ..Default::default()
        };
        let group = v1::CreateVolumeGroupSnapshotRequest {
            name: "g".into(),
            source_volume_ids: vec!["v 1".into(), "v 2".into()],
            ..Default::default()
        };
        let csi = "csi -e unix:///c";
        let secrets = "--secrets-file s";
        for (item, words, command) in [
            (
                item(&tables::CONTROLLER_CREATE_VOLUME, &create),
                "perhaps a volume named a b",
                format!(
                    "{csi} controller delete-volume {secrets} \"$({csi} -o name controller create-volume {secrets} --cap \
                     'mode=5,type=mount,fs=nfs4,flag=ro' --req-bytes 1073741824 --params '\"k=x,y\"' 'a b')\""
                ),
            ),
            (
                item(&tables::CONTROLLER_CREATE_SNAPSHOT, &snapshot),
                "perhaps a snapshot named s",
                format!(
                    "{csi} controller list-snapshots {secrets} --source-volume-id v tells its id, \
                     {csi} controller delete-snapshot {secrets} deletes it"
                ),
            ),
            (
                item(&tables::CONTROLLER_CONTROLLER_PUBLISH_VOLUME, &attach),
                "the volume -v at node it's",
                "csi -e unix:///c controller unpublish --secrets-file s --node-id \"it's\" -- -v"
                    .into(),
            ),
            (
                item(&tables::NODE_NODE_PUBLISH_VOLUME, &publish),
                "the published volume v at /a b",
                "csi -e unix:///n node unpublish --target-path '/a b' v".into(),
            ),
            (
                item(
                    &tables::GROUP_CONTROLLER_CREATE_VOLUME_GROUP_SNAPSHOT,
                    &group,
                ),
                "perhaps a group snapshot named g",
                format!(
                    "{csi} controller list-snapshots {secrets} --source-volume-id 'v 1' tells its id, \
                     {csi} group-controller delete-volume-group-snapshot {secrets} deletes it"
                ),
            ),
            (
                Item::Folder("/a b".into()),
                "the folder /a b",
                "rmdir '/a b'".into(),
            ),
        ] {
            assert_eq!(item.to_string(), words);
            assert_eq!(commands.take_back(&item), command);
        }
    }
}
