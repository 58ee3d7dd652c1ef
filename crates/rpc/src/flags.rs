//! The flags of RPCs: how each is typed, and what it puts into the request.
//!
//! Most flags are a field of the request: one of a flag's names is the field's, the field's type says what the flag
//! takes, and the field's comment is the help.

use super::context::{RequestContext, RequestError};
use super::draft::Draft;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use csi_arguments::map::{self, TextMap};
use csi_arguments::{capability, record, size, topology, volume_paths};
use csi_proto::schema::{Cardinality, Field, Kind, Message, summary};
use csi_proto::{tables, v1};
use prost::Message as _;

/// A flag of an RPC, or several that belong together.
#[derive(Clone, Copy)]
pub struct Flag {
    form: Form,
    /// The name behind `--`, then its aliases.
    names: &'static [&'static str],
    /// The name of its value in the help.
    value: &'static str,
    /// The message whose field has the help, where that is not the request.
    described_in: Option<&'static Message>,
    /// The name of the flag that takes the field's map from the JSON of an earlier reply.
    from_reply: Option<&'static str>,
    /// Whether the field begins with the parameters of the request's context.
    of_context: bool,
}

#[derive(Clone, Copy)]
enum Form {
    /// A flag for a field.
    Field,
    /// Arguments, with this help, of which each makes a call. A flag says the same.
    Subjects(&'static str),
    /// An argument. A flag, with this help, says the same.
    Argument(&'static str),
    /// `ID PATH` or `ID:PATH[:STAGING]`: the first argument, which makes the call, and the flag for the id.
    VolumePath,
    /// `ID:PATH[:STAGING]…`, of which each makes a call, and the flag for the id.
    VolumePaths,
    /// The capability of a volume, and `--no-cap` where the request must have one.
    Capability,
    /// `--req-bytes` and `--lim-bytes`.
    Capacity,
    /// `--source-snapshot` and `--source-volume`.
    ContentSource,
    /// `--requisite` and `--preferred`.
    TopologyRequirement,
    /// `--all`, and csc's `--format`.
    AllPages,
}

/// A flag for a field: its name, then its aliases, and the name of its value.
pub const fn flag(names: &'static [&'static str], value: &'static str) -> Flag {
    Flag {
        form: Form::Field,
        names,
        value,
        described_in: None,
        from_reply: None,
        of_context: false,
    }
}

/// Arguments of which each makes a call, also as the flag of that name.
const fn subjects(names: &'static [&'static str], value: &'static str, help: &'static str) -> Flag {
    flag(names, value).form(Form::Subjects(help))
}

/// The help of the flag that says the same as the first argument.
const AS_FIRST: &str = "The same as the first argument";

/// The first argument, also as the flag of that name.
pub const fn first(names: &'static [&'static str], value: &'static str) -> Flag {
    flag(names, value).form(Form::Argument(AS_FIRST))
}

/// The second argument, also as the flag of that name.
pub const fn second(names: &'static [&'static str], value: &'static str) -> Flag {
    flag(names, value).form(Form::Argument("The same as the second argument"))
}

/// A map, whose help is in that message.
const fn entries(names: &'static [&'static str], described_in: &'static Message) -> Flag {
    flag(names, "K=V,…").described_in(described_in)
}

/// `ID…` of volumes.
pub(crate) const VOLUME_IDS: Flag = subjects(
    &["volume-id"],
    "ID",
    "Volume ids as CreateVolume returned them; one call each",
);
/// `ID…` of snapshots.
pub(crate) const SNAPSHOT_IDS: Flag = subjects(
    &["snapshot-id"],
    "ID",
    "Snapshot ids as CreateSnapshot returned them; one call each",
);
/// `ID…` of group snapshots.
pub(crate) const GROUP_SNAPSHOT_IDS: Flag = subjects(
    &["group-snapshot-id"],
    "ID",
    "Group snapshot ids; one call each",
);
/// `NAME…` of what is to be created.
pub const NAMES: Flag = subjects(
    &["name"],
    "NAME",
    "Names of what is to be created; one call each",
);
/// `ID:PATH[:STAGING]…` of volumes on a node.
pub(crate) const VOLUME_PATHS: Flag = flag(&["volume-id"], "ID").form(Form::VolumePaths);
/// `ID` of a volume on a node whose path is the second argument, or `ID:PATH[:STAGING]`.
pub(crate) const VOLUME_PATH: Flag = flag(&["volume-id"], "ID").form(Form::VolumePath);
/// `--cap`, where the request has one capability or several.
pub const CAPABILITY: Flag = flag(
    &["cap", "volume-capability", "volume-capabilities"],
    "MODE,TYPE[,FS[,FLAG…]]",
)
.form(Form::Capability);
/// `--req-bytes` and `--lim-bytes`.
pub const CAPACITY: Flag = flag(&[], "SIZE").form(Form::Capacity);
/// `--source-snapshot` and `--source-volume`.
pub(crate) const CONTENT_SOURCE: Flag = flag(&[], "ID").form(Form::ContentSource);
/// `--requisite` and `--preferred`.
pub(crate) const TOPOLOGY_REQUIREMENT: Flag = flag(&[], "K=V,…").form(Form::TopologyRequirement);
/// `--params`.
pub const PARAMETERS: Flag = entries(&["params", "parameters"], &tables::CREATE_VOLUME_REQUEST);
/// `--params` of what is no volume.
pub(crate) const OWN_PARAMETERS: Flag = flag(&["params", "parameters"], "K=V,…");
/// `--mutable-params`.
pub const MUTABLE_PARAMETERS: Flag = entries(
    &["mutable-params", "mutable-parameters"],
    &tables::CREATE_VOLUME_REQUEST,
);
/// `--vol-context`.
pub const VOLUME_CONTEXT: Flag = entries(
    &["vol-context", "volume-context"],
    &tables::NODE_PUBLISH_VOLUME_REQUEST,
)
.replied_by("volume-context-from");
/// `--pub-context`.
pub(crate) const PUBLISH_CONTEXT: Flag = entries(
    &["pub-context", "publish-context"],
    &tables::NODE_PUBLISH_VOLUME_REQUEST,
)
.replied_by("publish-context-from");
/// `--staging-target-path`.
pub(crate) const STAGING_TARGET_PATH: Flag =
    flag(&["staging-target-path"], "PATH").described_in(&tables::NODE_PUBLISH_VOLUME_REQUEST);
/// `--max-entries`.
pub(crate) const MAX_ENTRIES: Flag =
    flag(&["max-entries"], "N").described_in(&tables::LIST_VOLUMES_REQUEST);
/// `--starting-token`.
pub(crate) const STARTING_TOKEN: Flag =
    flag(&["starting-token"], "TOKEN").described_in(&tables::LIST_VOLUMES_REQUEST);
/// `--all`.
pub(crate) const ALL_PAGES: Flag = flag(&["all"], "").form(Form::AllPages);

const CAPABILITY_HELP: &str = "\
Capability of the volume: MODE,TYPE[,FS[,FLAG…]] or key=value

MODE is a number or a name: 1 SINGLE_NODE_WRITER, 2 SINGLE_NODE_READER_ONLY, 3 MULTI_NODE_READER_ONLY, \
4 MULTI_NODE_SINGLE_WRITER, 5 MULTI_NODE_MULTI_WRITER, 6 SINGLE_NODE_SINGLE_WRITER, 7 SINGLE_NODE_MULTI_WRITER; \
or Kubernetes' name: RWO is 1, ROX is 3, RWX is 5, RWOP is 6.

TYPE is mount or block. The keys are mode, type, fs, flag and group: 'mode=5,type=mount,fs=nfs4,flag=\"a,b\",group=1000'.";

/// The two bounds of a capacity range: flag, alias, field, and the first word of the help.
const BOUNDS: [[&str; 4]; 2] = [
    ["req-bytes", "required-bytes", "required_bytes", "Smallest"],
    ["lim-bytes", "limit-bytes", "limit_bytes", "Largest"],
];

/// The two sources of a volume: flag, field of the source, its message, field of the id.
const SOURCES: [(&str, &str, &Message, &str); 2] = [
    (
        "source-snapshot",
        "snapshot",
        &tables::VOLUME_CONTENT_SOURCE_SNAPSHOT_SOURCE,
        "snapshot_id",
    ),
    (
        "source-volume",
        "volume",
        &tables::VOLUME_CONTENT_SOURCE_VOLUME_SOURCE,
        "volume_id",
    ),
];

/// The two lists of a topology requirement.
const PLACES: [&str; 2] = ["requisite", "preferred"];

impl Flag {
    const fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    const fn described_in(mut self, message: &'static Message) -> Self {
        self.described_in = Some(message);
        self
    }

    const fn replied_by(mut self, name: &'static str) -> Self {
        self.from_reply = Some(name);
        self
    }

    /// The flag where the field holds the parameters of new volumes.
    pub const fn of_new_volumes(mut self) -> Self {
        self.of_context = true;
        self
    }

    /// The name behind `--`.
    fn long(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    /// The field of `message` that the flag is for.
    fn field(&self, message: &'static Message) -> Option<&'static Field> {
        let mut names = self.names.iter().map(|name| name.replace('-', "_"));
        names.find_map(|name| message.field(&name))
    }

    /// Whether it was given, in its own words or as a reply.
    pub fn is_given(&self, matches: &ArgMatches) -> bool {
        let names = [Some(self.long()), self.from_reply];
        let mut names = names.into_iter().flatten();
        names.any(|id| matches!(matches.try_contains_id(id), Ok(true)))
    }

    /// The flag as arguments of a command, for a request with these `required` fields.
    pub fn args(&self, request: &'static Message, required: &[&str]) -> Vec<Arg> {
        let field = self.field(self.described_in.unwrap_or(request));
        let about = field.map_or("", |field| summary(field.doc));
        let argument = || Arg::new(self.value).value_name(self.value).help(about);
        let option = |long| Arg::new(long).long(long).value_name(self.value);
        let again = || option(self.long()).hide_short_help(true);
        match self.form {
            Form::Field => {
                let aliases = self.names.get(1..).unwrap_or_default();
                let arg = option(self.long()).visible_aliases(aliases).help(about);
                vec![field.map_or(arg.clone(), |field| typed(arg, field))]
            }
            Form::Subjects(help) => vec![
                many(argument()).num_args(1..).help(help),
                many(again()).help("The same as the argument"),
            ],
            Form::Argument(help) => {
                // `BASE-ID` is an `ID`.
                let value = self.value.rsplit('-').next().unwrap_or(self.value);
                let again = again().value_name(value).conflicts_with(self.value);
                vec![argument(), again.help(help)]
            }
            Form::VolumePath => {
                let argument = argument().value_name("ID[:PATH[:STAGING]]");
                vec![
                    argument.help("Volume id with its path; a bare id where the path stands alone"),
                    again().conflicts_with(self.value).help(AS_FIRST),
                ]
            }
            Form::VolumePaths => {
                let paths = Arg::new("paths")
                    .value_name("ID:PATH[:STAGING]")
                    .num_args(1..);
                let help = "Volume ids with their paths, ID:PATH[:STAGING-PATH]; bare ids with --volume-path";
                vec![
                    many(paths).help(help),
                    many(again()).help("Volume id, with --volume-path"),
                ]
            }
            Form::Capability => {
                let cap =
                    many(option("cap")).visible_aliases(self.names.get(1..).unwrap_or_default());
                let none = Arg::new("no-cap").long("no-cap").action(ArgAction::SetTrue);
                let none = none.conflicts_with("cap");
                let is_required = field.is_some_and(|field| required.contains(&field.name));
                let cap = cap
                    .value_parser(capability::parse)
                    .help("Capability of the volume, such as RWX,mount or SINGLE_NODE_WRITER,block")
                    .long_help(CAPABILITY_HELP);
                let none =
                    none.help("Send no capability; without --cap, csi sends SINGLE_NODE_WRITER,mount, and csc none");
                [cap]
                    .into_iter()
                    .chain(is_required.then_some(none))
                    .collect()
            }
            Form::Capacity => BOUNDS
                .map(|[long, alias, _, which]| {
                    let bound = option(long).visible_alias(alias).value_parser(size::parse);
                    bound.allow_hyphen_values(true).help(format!(
                        "{which} acceptable size: bytes, or with a unit such as 10Gi or 1.5G"
                    ))
                })
                .into(),
            Form::ContentSource => {
                let [snapshot, volume] = SOURCES.map(|(long, _, source, id)| {
                    let id = source.field(id).map_or("", |field| summary(field.doc));
                    option(long).help(id)
                });
                vec![snapshot.conflicts_with("source-volume"), volume]
            }
            Form::TopologyRequirement => PLACES
                .map(|list| {
                    let field = tables::TOPOLOGY_REQUIREMENT.field(list);
                    let place = many(option(list)).value_parser(topology::parse);
                    place.help(field.map_or("", |field| summary(field.doc)))
                })
                .into(),
            Form::AllPages => {
                let all = Arg::new("all").long("all").visible_alias("paging");
                let help =
                    "Follow next_token until the last page, printing each page as it arrives";
                let format = Arg::new("format").long("format").value_name("TEMPLATE");
                let unsupported = format
                    .help("csc's Go templates are not supported")
                    .hide(true);
                vec![all.action(ArgAction::SetTrue).help(help), unsupported]
            }
        }
    }

    /// The flag that takes the field from the JSON of an earlier reply, and that field.
    pub fn replied(&self, request: &'static Message) -> Option<(&'static str, &'static Field)> {
        Some((self.from_reply?, self.field(request)?))
    }

    /// The arguments of which each makes a call, and the name of one; `None` for a flag that makes none.
    pub fn subjects<'a>(&self, matches: &'a ArgMatches) -> Option<(&'static str, Vec<&'a str>)> {
        let (name, id) = match self.form {
            Form::Subjects(_) | Form::VolumePath => (self.value, self.value),
            Form::VolumePaths => ("ID:PATH", "paths"),
            _ => return None,
        };
        let all = given::<String>(matches, id).chain(given(matches, self.long()));
        Some((name, all.map(String::as_str).collect()))
    }

    /// The field of the request that names what a call is about; `None` for a flag that makes no call.
    pub(crate) fn subject_field(&self, request: &'static Message) -> Option<&'static Field> {
        match self.form {
            Form::Subjects(_) | Form::VolumePath | Form::VolumePaths => self.field(request),
            _ => None,
        }
    }

    /// Whether the flag asks for all pages of a list.
    pub(crate) fn follows_pages(&self, matches: &ArgMatches) -> bool {
        matches!(self.form, Form::AllPages) && matches.get_flag("all")
    }

    /// Puts what was given into the request of the call that `subject` makes.
    ///
    /// # Errors
    /// When flags contradict each other or need something that is not there.
    pub fn fill(
        &self,
        matches: &ArgMatches,
        subject: Option<&str>,
        context: &RequestContext,
        draft: &mut Draft,
    ) -> Result<(), RequestError> {
        let field = self.field(draft.message);
        match self.form {
            Form::Field => {
                if let Some(field) = field {
                    let begins = self.of_context && context.base.is_none();
                    let given = begins.then_some(&context.parameters);
                    for (key, value) in given.into_iter().flatten() {
                        draft.put_entry(field.name, key, value);
                    }
                    put_typed(draft, field, matches, self.long());
                }
            }
            Form::Subjects(_) => {
                draft.put_all(&self.long().replace('-', "_"), subject);
            }
            Form::Argument(_) => {
                let texts = given::<String>(matches, self.value).chain(given(matches, self.long()));
                draft.put_all(&self.long().replace('-', "_"), texts);
            }
            Form::VolumePath | Form::VolumePaths => {
                let has = |id: &str| matches!(matches.try_contains_id(id), Ok(true));
                let is_bare = has("volume-path")
                    || matches!(self.form, Form::VolumePath)
                        && (has("PATH") || context.base.is_some());
                match subject {
                    Some(id) if is_bare => draft.put("volume_id", id),
                    Some(all) => {
                        let (id, path, staging) = volume_paths::parse(all)?;
                        draft.put("volume_id", id);
                        draft.put("volume_path", path);
                        let staging = (!staging.is_empty()).then_some(staging);
                        draft.put_all("staging_target_path", staging);
                    }
                    None => {}
                }
            }
            Form::Capability => {
                if let Some(field) = field {
                    put_capabilities(draft, field, matches, context);
                }
            }
            Form::Capacity => draft.inside("capacity_range", |range| {
                for [long, _, bound, _] in BOUNDS {
                    for bytes in given::<i64>(matches, long) {
                        range.put_number(bound, *bytes);
                    }
                }
            }),
            Form::ContentSource => {
                for (long, name, source, id) in SOURCES {
                    for text in given::<String>(matches, long) {
                        let mut source = Draft::new(source, Vec::new());
                        source.put(id, text);
                        draft.clear("volume_content_source");
                        draft.inside("volume_content_source", |of| of.put(name, source.bytes));
                    }
                }
            }
            Form::TopologyRequirement => draft.inside("accessibility_requirements", |of| {
                for list in PLACES {
                    let places = given::<v1::Topology>(matches, list);
                    of.replace(list, places.map(v1::Topology::encode_to_vec));
                }
            }),
            Form::AllPages if matches.contains_id("format") => {
                let text = "--format (Go templates) is not supported: use -o json, for example with jq, or --columns";
                return Err(RequestError::Conflict(text.to_owned()));
            }
            Form::AllPages => {}
        }
        Ok(())
    }
}

/// An argument that may be given several times.
fn many(arg: Arg) -> Arg {
    arg.action(ArgAction::Append)
}

/// The values that were given for an argument; none for one that the command has not.
fn given<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    id: &str,
) -> impl Iterator<Item = &'a T> {
    let values = matches.try_get_many::<T>(id).ok().flatten();
    values.into_iter().flatten()
}

/// An argument that takes what a field of that type holds.
fn typed(arg: Arg, field: &Field) -> Arg {
    match (field.cardinality, field.kind) {
        (Cardinality::Map, _) => many(arg).value_parser(map::parse),
        (Cardinality::Repeated, _) => many(arg).value_parser(record::list),
        (_, Kind::Bool) => arg.action(ArgAction::SetTrue),
        (_, Kind::Int32) => arg
            .value_parser(value_parser!(i32))
            .allow_negative_numbers(true),
        // Of bytes, wherever a flag is for one.
        (_, Kind::Int64) => arg
            .value_parser(size::parse_exact)
            .allow_negative_numbers(true),
        (_, Kind::Message(_)) => arg.value_parser(topology::parse),
        _ => arg,
    }
}

/// Puts the values of such an argument into the field.
fn put_typed(draft: &mut Draft, field: &Field, matches: &ArgMatches, id: &str) {
    let name = field.name;
    match (field.cardinality, field.kind) {
        (Cardinality::Map, _) => {
            for (key, value) in given::<TextMap>(matches, id).flatten() {
                draft.put_entry(name, key, value);
            }
        }
        (_, Kind::Bool) if matches.get_flag(id) => draft.put_number(name, 1),
        (_, Kind::Bool) => {}
        (_, Kind::Int32) => {
            given::<i32>(matches, id).for_each(|number| draft.put_number(name, i64::from(*number)))
        }
        (_, Kind::Int64) => {
            given::<i64>(matches, id).for_each(|number| draft.put_number(name, *number));
        }
        (_, Kind::Message(_)) => {
            let places = given::<v1::Topology>(matches, id);
            draft.replace(name, places.map(v1::Topology::encode_to_vec));
        }
        (Cardinality::Repeated, _) => {
            draft.replace(name, given::<Vec<String>>(matches, id).flatten());
        }
        _ => draft.replace(name, given::<String>(matches, id)),
    }
}

/// Puts capabilities into a list of them, or the first, as csc does, into a field for one. A request that was given whole
/// gets no default.
fn put_capabilities(
    draft: &mut Draft,
    field: &Field,
    matches: &ArgMatches,
    context: &RequestContext,
) {
    let most = match field.cardinality {
        Cardinality::Singular => 1,
        _ => usize::MAX,
    };
    let given = given::<v1::VolumeCapability>(matches, "cap");
    let mut given: Vec<_> = given.take(most).collect();
    // Where the request needs none there is no flag to have none.
    match matches.try_get_one::<bool>("no-cap") {
        Ok(Some(true)) => draft.clear(field.name),
        Ok(Some(false)) if given.is_empty() && context.base.is_none() => {
            given.extend(&context.default_capability);
        }
        _ => {}
    }
    draft.replace(
        field.name,
        given.into_iter().map(v1::VolumeCapability::encode_to_vec),
    );
}
