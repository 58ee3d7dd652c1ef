//! Flags that several RPCs share; each sets its part of a request. An RPC's own flags stand in its block.

use crate::arguments::map::{self, Map};
use crate::arguments::request::{self, RequestSource};
use crate::arguments::secrets::{Secrets, parse_key};
use crate::arguments::{capability, size, topology};
use clap::Args;
use csi_proto::json::{self, JsonError};
use csi_proto::schema::Message;
use csi_proto::{help, v1};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use thiserror::Error;

/// Flags of every RPC beside its own.
#[derive(Args, Debug)]
pub struct RequestFlags {
    /// The whole request as JSON: a file, - for stdin, or the document itself; other flags override it
    #[arg(long, value_name = "FILE|-|JSON", value_parser = request::parse, help_heading = REQUEST)]
    pub request: Option<RequestSource>,
    /// Print the request as JSON instead of sending it; secrets are left out
    #[arg(long, help_heading = REQUEST)]
    pub dry_run: bool,
    /// With several names or ids: go on after a failure, and exit with the first one's code
    #[arg(long, help_heading = REQUEST)]
    pub keep_going: bool,
    /// Secrets from a file: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE", help_heading = REQUEST)]
    pub secrets_file: Option<String>,
    /// Secrets to ask for on the terminal, without echo
    #[arg(long, value_name = "KEY,…", value_delimiter = ',', value_parser = parse_key, help_heading = REQUEST)]
    pub secrets_prompt: Vec<String>,
}

const REQUEST: &str = "Request";

/// Everything beside its own flags that a request is built from.
#[derive(Debug, Default)]
pub struct RequestContext {
    /// The required capability that is sent when no flag names one; none is sent without it, as csc does.
    pub default_capability: Option<v1::VolumeCapability>,
    /// The secrets, for every request that has such a field.
    pub secrets: Secrets,
    /// The document of `--request`.
    pub base: Option<Json>,
}

/// Flags that do not make a request.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A needed argument is missing.
    #[error("missing {0}: name at least one, or give the whole request with --request")]
    NoSubject(&'static str),
    /// Two ways to say one thing.
    #[error("{0}")]
    Conflict(String),
    /// clap's own words.
    #[error("{0}")]
    Flags(clap::Error),
    /// The document of `--request` does not fit.
    #[error("--request does not fit {message}: {source}")]
    Json {
        /// The request's message.
        message: &'static str,
        /// The place that does not fit.
        source: JsonError,
    },
    /// The document of `--request` made bytes that are not the message: a defect of this program.
    #[error("--request cannot be read back: {0}")]
    Base(prost::DecodeError),
}

impl RequestContext {
    /// Whether `--request` was given.
    pub fn has_base(&self) -> bool {
        self.base.is_some()
    }

    /// The bytes of `--request` as a request of the type `message`.
    pub(super) fn base(&self, message: &'static Message) -> Result<Vec<u8>, RequestError> {
        let Some(document) = &self.base else {
            return Ok(Vec::new());
        };
        json::encode(message, document).map_err(|source| RequestError::Json {
            message: message.short_name(),
            source,
        })
    }

    /// Adds the secrets to a request's own, whose keys they replace.
    pub fn add_secrets(&self, secrets: &mut BTreeMap<String, String>) {
        secrets.extend(self.secrets.reveal().clone());
    }
}

/// The arguments of a command of which each makes a call.
pub struct Subjects<'a> {
    /// The name of one of them in the help, such as `ID`.
    pub value_name: &'static str,
    /// All arguments, in the order of the command line.
    pub all: Vec<&'a str>,
}

macro_rules! subjects {
    ($(#[$doc:meta])* $name:ident, $value:literal, $long:literal, $help:expr) => {
        $(#[$doc])*
        #[derive(Args, Debug)]
        pub struct $name {
            #[arg(value_name = $value, help = $help)]
            positional: Vec<String>,
            #[arg(long = $long, value_name = $value, help = "The same as the argument", hide_short_help = true)]
            flag: Vec<String>,
        }

        impl $name {
            /// Arguments, then flags.
            pub fn subjects(&self) -> Subjects<'_> {
                let all = self.positional.iter().chain(&self.flag).map(String::as_str);
                Subjects { value_name: $value, all: all.collect() }
            }
        }
    };
}

subjects!(
    /// `ID…` of volumes, also as `--volume-id`.
    VolumeIds, "ID", "volume-id", "Volume ids as CreateVolume returned them; one call each"
);
subjects!(
    /// `ID…` of snapshots, also as `--snapshot-id`.
    SnapshotIds, "ID", "snapshot-id", "Snapshot ids as CreateSnapshot returned them; one call each"
);
subjects!(
    /// `ID…` of group snapshots, also as `--group-snapshot-id`.
    GroupSnapshotIds, "ID", "group-snapshot-id", "Group snapshot ids; one call each"
);
subjects!(
    /// `NAME…` of what is to be created, also as `--name`.
    Names, "NAME", "name", "Names of what is to be created; one call each"
);

/// `--req-bytes` and `--lim-bytes`.
#[derive(Args, Debug)]
pub struct CapacityFlags {
    /// Smallest acceptable size: bytes, or with a unit such as 10Gi or 1.5G
    #[arg(long, visible_alias = "required-bytes", value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    req_bytes: Option<i64>,
    /// Largest acceptable size: bytes, or with a unit such as 10Gi or 1.5G
    #[arg(long, visible_alias = "limit-bytes", value_name = "SIZE", value_parser = size::parse, allow_hyphen_values = true)]
    lim_bytes: Option<i64>,
}

impl CapacityFlags {
    /// Puts the sizes into `range`, which stays unset when neither was given.
    pub fn fill(&self, range: &mut Option<v1::CapacityRange>) {
        if let Some(bytes) = self.req_bytes {
            range.get_or_insert_default().required_bytes = bytes;
        }
        if let Some(bytes) = self.lim_bytes {
            range.get_or_insert_default().limit_bytes = bytes;
        }
    }
}

const CAPABILITY_HELP: &str = "\
Capability of the volume: MODE,TYPE[,FS[,FLAG…]] or key=value

MODE is a number or a name: 1 SINGLE_NODE_WRITER, 2 SINGLE_NODE_READER_ONLY, 3 MULTI_NODE_READER_ONLY,
4 MULTI_NODE_SINGLE_WRITER, 5 MULTI_NODE_MULTI_WRITER, 6 SINGLE_NODE_SINGLE_WRITER, 7 SINGLE_NODE_MULTI_WRITER.
TYPE is mount or block. The keys are mode, type, fs, flag and group: 'mode=5,type=mount,fs=nfs4,flag=\"a,b\",group=1000'.";

/// `--cap` where the request must have one.
#[derive(Args, Debug)]
pub struct RequiredCapability {
    #[command(flatten)]
    given: OptionalCapability,
    /// Send no capability; without --cap it is SINGLE_NODE_WRITER,mount
    #[arg(long, conflicts_with = "cap")]
    no_cap: bool,
}

/// `--cap` where the request may go without.
#[derive(Args, Debug)]
pub struct OptionalCapability {
    #[arg(
        long, visible_aliases = ["volume-capability", "volume-capabilities"], value_name = "MODE,TYPE[,FS[,FLAG…]]",
        value_parser = capability::parse, help = "Capability of the volume, such as 5,mount or SINGLE_NODE_WRITER,block",
        long_help = CAPABILITY_HELP
    )]
    cap: Vec<v1::VolumeCapability>,
}

impl OptionalCapability {
    /// Puts all into `list`.
    pub fn fill_all(&self, list: &mut Vec<v1::VolumeCapability>) {
        if !self.cap.is_empty() {
            list.clone_from(&self.cap);
        }
    }

    /// Puts the first into `one`, as csc does.
    pub fn fill_one(&self, one: &mut Option<v1::VolumeCapability>) {
        if let Some(first) = self.cap.first() {
            *one = Some(first.clone());
        }
    }
}

impl RequiredCapability {
    /// Puts all into `list`, or the default where there is none.
    pub fn fill_all(&self, context: &RequestContext, list: &mut Vec<v1::VolumeCapability>) {
        self.given.fill_all(list);
        if self.no_cap {
            list.clear();
        } else if let Some(default) = self.default(context) {
            *list = vec![default.clone()];
        }
    }

    /// Puts the first into `one`, or the default where there is none.
    pub fn fill_one(&self, context: &RequestContext, one: &mut Option<v1::VolumeCapability>) {
        self.given.fill_one(one);
        if self.no_cap {
            *one = None;
        } else if let Some(default) = self.default(context) {
            *one = Some(default.clone());
        }
    }

    /// A request that was given whole is sent as it is.
    fn default<'a>(&self, context: &'a RequestContext) -> Option<&'a v1::VolumeCapability> {
        let default = context.default_capability.as_ref();
        default.filter(|_| self.given.cap.is_empty() && !context.has_base())
    }
}

/// Puts the entries of a map flag, as often as it was given, into `map`; the last of a key counts.
pub fn fill_map(maps: &[Map], map: &mut BTreeMap<String, String>) {
    let all = maps.iter().flat_map(Map::iter);
    map.extend(all.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

/// `--params`.
#[derive(Args, Debug)]
pub struct Parameters {
    #[arg(long, visible_alias = "parameters", value_name = "K=V,…", value_parser = map::parse, help = help::create_volume_request::PARAMETERS)]
    params: Vec<Map>,
}

impl Parameters {
    /// Adds the entries to `map`.
    pub fn fill(&self, map: &mut BTreeMap<String, String>) {
        fill_map(&self.params, map);
    }
}

/// `--mutable-params`.
#[derive(Args, Debug)]
pub struct MutableParameters {
    #[arg(long, visible_alias = "mutable-parameters", value_name = "K=V,…", value_parser = map::parse, help = help::create_volume_request::MUTABLE_PARAMETERS)]
    mutable_params: Vec<Map>,
}

impl MutableParameters {
    /// Adds the entries to `map`.
    pub fn fill(&self, map: &mut BTreeMap<String, String>) {
        fill_map(&self.mutable_params, map);
    }
}

/// `--vol-context`.
#[derive(Args, Debug)]
pub struct VolumeContext {
    #[arg(long, visible_alias = "volume-context", value_name = "K=V,…", value_parser = map::parse, help = help::node_publish_volume_request::VOLUME_CONTEXT)]
    vol_context: Vec<Map>,
}

impl VolumeContext {
    /// Adds the entries to `map`.
    pub fn fill(&self, map: &mut BTreeMap<String, String>) {
        fill_map(&self.vol_context, map);
    }
}

/// `--pub-context`.
#[derive(Args, Debug)]
pub struct PublishContext {
    #[arg(long, visible_alias = "publish-context", value_name = "K=V,…", value_parser = map::parse, help = help::node_publish_volume_request::PUBLISH_CONTEXT)]
    pub_context: Vec<Map>,
}

impl PublishContext {
    /// Adds the entries to `map`.
    pub fn fill(&self, map: &mut BTreeMap<String, String>) {
        fill_map(&self.pub_context, map);
    }
}

/// `--staging-target-path`.
#[derive(Args, Debug)]
pub struct StagingTargetPath {
    #[arg(long, value_name = "PATH", help = help::node_publish_volume_request::STAGING_TARGET_PATH)]
    staging_target_path: Option<String>,
}

impl StagingTargetPath {
    /// Puts the path into `field` when it was given.
    pub fn fill(&self, field: &mut String) {
        fill_text(self.staging_target_path.as_ref(), field);
    }
}

/// Puts what the command line named into `field`.
pub fn put(subject: Option<&str>, field: &mut String) {
    if let Some(subject) = subject {
        subject.clone_into(field);
    }
}

/// Puts a flag's text into `field` when it was given.
pub fn fill_text(flag: Option<&String>, field: &mut String) {
    if let Some(text) = flag {
        field.clone_from(text);
    }
}

/// `--requisite` and `--preferred`.
#[derive(Args, Debug)]
pub struct TopologyRequirement {
    #[arg(long, value_name = "K=V,…", value_parser = topology::parse, help = help::topology_requirement::REQUISITE)]
    requisite: Vec<v1::Topology>,
    #[arg(long, value_name = "K=V,…", value_parser = topology::parse, help = help::topology_requirement::PREFERRED)]
    preferred: Vec<v1::Topology>,
}

impl TopologyRequirement {
    /// Puts the places into `requirement`, which stays unset when none was given.
    pub fn fill(&self, requirement: &mut Option<v1::TopologyRequirement>) {
        if !self.requisite.is_empty() {
            requirement
                .get_or_insert_default()
                .requisite
                .clone_from(&self.requisite);
        }
        if !self.preferred.is_empty() {
            requirement
                .get_or_insert_default()
                .preferred
                .clone_from(&self.preferred);
        }
    }
}

/// `--max-entries`, `--starting-token` and `--all`.
#[derive(Args, Debug)]
pub struct PageFlags {
    #[arg(long, value_name = "N", allow_negative_numbers = true, help = help::list_volumes_request::MAX_ENTRIES)]
    max_entries: Option<i32>,
    #[arg(long, value_name = "TOKEN", help = help::list_volumes_request::STARTING_TOKEN)]
    starting_token: Option<String>,
    /// Follow next_token until the last page, printing each page as it arrives
    #[arg(long, visible_alias = "paging")]
    all: bool,
    /// csc's Go templates are not supported
    #[arg(long, value_name = "TEMPLATE", hide = true)]
    format: Option<String>,
}

impl PageFlags {
    /// Puts the page's limits into a request.
    ///
    /// # Errors
    /// For csc's `--format`.
    pub fn fill(
        &self,
        max_entries: &mut i32,
        starting_token: &mut String,
    ) -> Result<(), RequestError> {
        if self.format.is_some() {
            let text = "--format (Go templates) is not supported: use -o json, for example with jq, or --columns";
            return Err(RequestError::Conflict(text.to_owned()));
        }
        *max_entries = self.max_entries.unwrap_or(*max_entries);
        fill_text(self.starting_token.as_ref(), starting_token);
        Ok(())
    }

    /// Whether to follow `next_token`.
    pub fn all(&self) -> bool {
        self.all
    }
}
