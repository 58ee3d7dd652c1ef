//! Completion, in shells and in `csi shell`: candidates for the next word of a line, from the tree of commands itself.
//!
//! Beside `cli/completion/script.rs` the only file that knows `clap_complete`, whose engine is not stable yet and therefore pinned. The engine cannot ask a
//! driver, so an argument that takes an id is marked by a placeholder, which becomes ids once the engine is done.

use super::contexts::file::Contexts;
use super::globals::Globals;
use super::verbs;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete,
};
use csi_arguments::capability::{KUBERNETES_MODES, MODES};
use csi_output::Format;
use csi_output::view::Column;
use csi_rpc::{Rpc, facts::IdKind};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// How long the driver may take to list its ids. A person notices more than a second.
const LIMIT: Duration = Duration::from_millis(800);

/// How long the driver may take to list its ids, where calls have that limit.
pub fn limit(globals: &Globals) -> Duration {
    globals
        .timeout()
        .map_or(LIMIT, |timeout| timeout.min(LIMIT))
}

/// Something that can stand next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The whole word.
    pub value: String,
    /// A line about it.
    pub help: Option<String>,
}

/// Candidates that only a driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriverCandidates {
    /// The driver's ids of a kind.
    Ids(IdKind),
    /// The keys of the parameters that it takes.
    Parameters,
}

impl DriverCandidates {
    /// The candidates of a placeholder, on a line of these words.
    fn of_placeholder(name: &str, words: &[String]) -> Option<Self> {
        match name {
            PARAMETERS => Some(Self::Parameters),
            THING => words
                .iter()
                .find_map(|word| IdKind::of_field(&format!("{word}_id")))
                .map(Self::Ids),
            name => IdKind::of_field(name).map(Self::Ids),
        }
    }
}

/// The placeholder of an id whose kind is the word before it.
const THING: &str = "thing";

/// The placeholder of parameters' keys.
const PARAMETERS: &str = "parameters";

/// The parameters of the driver of that name, where they are known.
pub fn parameters_of(driver: &str) -> Vec<String> {
    #[cfg(feature = "embedded")]
    if driver == csi_nfs::process::config::DEFAULT_NAME {
        return csi_nfs::calls::parameters::KNOWN.map(str::to_owned).into();
    }
    let _ = driver;
    Vec::new()
}

/// A tree of commands that can be asked again and again.
pub struct Tree {
    command: Command,
    /// The flags that every command has.
    globals: Vec<String>,
}

/// Begins a placeholder; no argument can hold it.
const MARK: char = '\0';

impl Tree {
    /// Completion for these commands.
    pub fn new(mut command: Command) -> Self {
        command.build();
        let globals = command.get_arguments().filter(|arg| arg.is_global_set());
        let globals = globals.filter_map(Arg::get_long);
        Self {
            globals: globals.map(|long| format!("--{long}")).collect(),
            command: with_values(command, "", Prints::Anything),
        }
    }

    /// The candidates for the last of `words`, which holds the part of it that was typed, possibly nothing. `ask` is called
    /// where only the driver knows the candidates.
    pub fn candidates(
        &mut self,
        words: &[String],
        ask: &mut dyn FnMut(DriverCandidates) -> Vec<String>,
    ) -> Vec<Candidate> {
        let Some((current, before_current)) = words.split_last() else {
            return Vec::new();
        };
        let before_current = verbs::with_group_if_missing(&self.command, before_current.to_vec());
        let words = [before_current.as_slice(), std::slice::from_ref(current)].concat();
        let folder = std::env::current_dir().ok();
        let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        let index = words.len() - 1;
        let Ok(found) = complete(&mut self.command, arguments, index, folder.as_deref()) else {
            return Vec::new();
        };
        let verb = |(verb, about): (&str, &str)| Candidate {
            value: verb.to_owned(),
            help: Some(about.to_owned()),
        };
        let mut candidates: Vec<Candidate> =
            verbs::begun(&self.command, &words).map(verb).collect();
        let mut takes_id = false;
        // A thing is named once on a line.
        let mut named: HashSet<String> = before_current.iter().cloned().collect();
        for candidate in found {
            // What is not text cannot be typed here either.
            let Some(value) = candidate.get_value().to_str() else {
                continue;
            };
            // The current folder is no file.
            if value == "." {
                continue;
            }
            // Of a command's names the engine keeps one, which may be an alias.
            let name = candidate
                .get_id()
                .and_then(|id| id.strip_prefix("command::"));
            let value = match name {
                Some(name) if name.starts_with(current.as_str()) => name,
                _ => value,
            };
            if repeats(value) || is_refused(value, &before_current) {
                continue;
            }
            match value.split_once(MARK) {
                None => candidates.push(Candidate {
                    value: value.to_owned(),
                    help: candidate.get_help().map(|help| {
                        let help = help.to_string();
                        help.lines().next().unwrap_or_default().to_owned()
                    }),
                }),
                Some((before, wanted)) => {
                    takes_id = true;
                    let wanted = DriverCandidates::of_placeholder(wanted, &before_current);
                    let answers = wanted.map(&mut *ask).unwrap_or_default();
                    let typed = current.strip_prefix(before).unwrap_or_default();
                    let values = match wanted {
                        Some(DriverCandidates::Parameters) => next_keys(typed, &answers),
                        _ => answers,
                    };
                    let whole = values.into_iter().map(|value| format!("{before}{value}"));
                    let whole = whole.filter(|value| value.starts_with(current.as_str()));
                    let whole = whole.filter(|value| named.insert(value.clone()));
                    candidates.extend(whole.map(|value| Candidate { value, help: None }));
                }
            }
        }
        // Flags are offered where nothing else can stand, or when one was begun.
        let is_flag = |candidate: &Candidate| candidate.value.starts_with('-');
        if current.is_empty() && (takes_id || candidates.iter().any(|one| !is_flag(one))) {
            candidates.retain(|one| !is_flag(one));
        }
        // A command's own flags come before those of all commands.
        candidates.sort_by_key(|one| self.globals.contains(&one.value));
        candidates
    }
}

/// Whether the last word of a list stands in it already. A flag may stand before them: `--columns=a,b`.
fn repeats(words: &str) -> bool {
    let Some((before, last)) = words.rsplit_once(',') else {
        return false;
    };
    before.split([',', '=']).any(|other| other == last)
}

/// Whether the value of a flag has no meaning with other words before it.
fn is_refused(value: &str, before: &[String]) -> bool {
    let last = before.last().map(String::as_str).unwrap_or_default();
    let (flag, value) = value.split_once('=').unwrap_or((last, value));
    let behind = |command: &str, word: &str| {
        let mut words = before.iter().skip_while(|one| *one != command);
        words.next().map(|_| words.any(|one| one == word))
    };
    match (flag, value) {
        ("--for", "healthy" | "abnormal") => behind("wait", "snapshot") == Some(true),
        ("-o" | "--output", "name") => behind("sanity", "--list") == Some(false),
        ("-o" | "--output", "github") => behind("sanity", "--list") == Some(true),
        _ => false,
    }
}

/// What a command prints: the formats that it has follow from that, and whether columns can be chosen.
#[derive(Clone, Copy)]
enum Prints {
    /// That depends on the command that comes next.
    Anything,
    Replies,
    /// No replies, in one of these formats.
    Own(&'static [Format]),
}

impl Prints {
    /// Of the command of that name below one that prints so.
    fn of(self, parent: &str, name: &str) -> Self {
        use Format::{Github, Json, Jsonl, Name, Table};
        match (self, name) {
            (Self::Anything, "sanity") => Self::Own(&[Table, Json, Jsonl, Name, Github]),
            (Self::Own(_), "explain") if parent == "sanity" => Self::Own(&[Table]),
            (Self::Own(_), "list" | "current") if parent == "context" => {
                Self::Own(&[Table, Json, Jsonl, Name])
            }
            (
                Self::Anything,
                "bench" | "context" | "doctor" | "lifecycle" | "man" | "mock" | "new" | "proxy"
                | "replay" | "version" | "wait",
            ) => Self::Own(&[Table, Json, Jsonl]),
            (Self::Anything, _) => Self::Replies,
            _ => self,
        }
    }

    fn has_format(self, name: &str) -> bool {
        let format = Format::named(name.trim_end_matches('='));
        match self {
            Self::Anything => true,
            Self::Replies => format != Some(Format::Github),
            Self::Own(formats) => format.is_some_and(|format| formats.contains(&format)),
        }
    }
}

/// A map `k=v,…` with one more key of those that it has not.
fn next_keys(typed: &str, keys: &[String]) -> Vec<String> {
    let (before, comma) = match typed.rsplit_once(',') {
        Some((before, _)) => (before, ","),
        None => ("", ""),
    };
    let given = |key: &&String| {
        let mut given = before
            .split(',')
            .filter_map(|entry| entry.split('=').next());
        given.any(|other| other == key.as_str())
    };
    let left = keys.iter().filter(|key| !given(key));
    left.map(|key| format!("{before}{comma}{key}=")).collect()
}

/// The tree with completers at all arguments whose values can be known; `parent` is the name of the command above.
fn with_values(command: Command, parent: &str, prints: Prints) -> Command {
    let name = command.get_name().to_owned();
    let rpc = rpc_of(parent, &name);
    let id = match name.as_str() {
        "wait" => Some(THING),
        _ => rpc.and_then(positional_id),
    };
    let command = command.mut_args(|arg| with_value(arg, id, rpc, prints));
    let names: Vec<String> = command
        .get_subcommands()
        .map(|inner| inner.get_name().to_owned())
        .collect();
    names.into_iter().fold(command, |command, inner| {
        let prints = prints.of(&name, &inner);
        command.mut_subcommand(inner, |inner| with_values(inner, &name, prints))
    })
}

/// The RPC of a command. bench has the RPCs also by their full names.
fn rpc_of(parent: &str, name: &str) -> Option<&'static Rpc> {
    let mut all = csi_rpc::with_groups();
    let (_, rpc) = all.find(|(group, rpc)| {
        (group.name == parent && rpc.verb() == name) || rpc.method.kebab_name == name
    })?;
    Some(rpc)
}

/// The field that the positional ids of an RPC's command fill: the first id that its request must have.
fn positional_id(rpc: &Rpc) -> Option<&'static str> {
    let mut required = rpc.method.request.required.iter().copied();
    required.find(|field| IdKind::of_field(field).is_some())
}

fn with_value(
    arg: Arg,
    positional: Option<&'static str>,
    rpc: Option<&'static Rpc>,
    prints: Prints,
) -> Arg {
    let value = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map(|name| name.as_str().to_owned())
        .unwrap_or_default();
    let long = arg.get_long().unwrap_or_default().replace('-', "_");
    if !arg.get_action().takes_values() {
        return arg;
    }
    if long == "endpoint" || value == "ENDPOINT" {
        return arg.add(ArgValueCompleter::new(endpoints));
    }
    if long == "context" || value == "CONTEXT" {
        return arg.add(ArgValueCompleter::new(contexts));
    }
    if long == "columns" || long == "sort_by" {
        return arg.add(ArgValueCompleter::new(
            move |current: &OsStr| match prints {
                Prints::Own(_) => Vec::new(),
                _ => columns(current, rpc),
            },
        ));
    }
    if long == "output" && arg.is_global_set() {
        let formats = arg.get_possible_values().into_iter();
        let formats = formats.filter(|format| prints.has_format(format.get_name()));
        return arg.value_parser(PossibleValuesParser::new(formats));
    }
    if value.contains("METHOD") {
        let end = if value.contains('=') { "=" } else { "" };
        return arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            methods(current, end)
        }));
    }
    if long == "cap" {
        return arg.add(ArgValueCompleter::new(capabilities));
    }
    if long == "params" {
        return arg.add(placeholder(PARAMETERS.to_owned()));
    }
    if IdKind::of_field(&long).is_some() {
        return arg.add(placeholder(long));
    }
    if arg.is_positional()
        && value.contains("ID")
        && let Some(name) = positional
    {
        return arg.add(placeholder(name.to_owned()));
    }
    match value.contains("PATH") || value.contains("FILE") || value == "SOCKET" {
        true if arg.get_value_hint() == ValueHint::Unknown => arg.value_hint(ValueHint::AnyPath),
        _ => arg,
    }
}

/// The heads of an RPC's table, or of all tables where no RPC is named.
fn columns(current: &OsStr, rpc: Option<&'static Rpc>) -> Vec<CompletionCandidate> {
    let heads = match rpc {
        Some(rpc) => rpc.view.columns.iter().map(Column::typed).collect(),
        None => csi_rpc::heads(csi_rpc::all())
            .into_iter()
            .collect::<Vec<_>>(),
    };
    let current = current.to_string_lossy().to_lowercase();
    let fitting = heads.into_iter().filter(|head| head.starts_with(&current));
    fitting.map(CompletionCandidate::new).collect()
}

fn placeholder(field: String) -> ArgValueCompleter {
    ArgValueCompleter::new(move |_: &OsStr| {
        vec![CompletionCandidate::new(format!("{MARK}{field}"))]
    })
}

/// The names of the contexts that this user keeps.
fn contexts(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let kept = Contexts::load().unwrap_or_default();
    let names = kept.contexts.into_iter();
    names
        .filter(|(name, _)| name.starts_with(&*current))
        .map(|(name, context)| CompletionCandidate::new(name).help(Some(context.endpoint.into())))
        .collect()
}

/// The RPCs in a fault, with what stands behind their names.
fn methods(current: &OsStr, end: &str) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let names = csi_rpc::all().map(|rpc| rpc.method.kebab_name);
    let fitting = names.filter(|name| name.starts_with(&*current));
    fitting
        .map(|name| CompletionCandidate::new(format!("{name}{end}")))
        .collect()
}

/// The schemes of endpoints, and sockets by their paths, with or without `unix:`.
fn endpoints(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let (scheme, path) = ["unix://", "unix:", "embedded:", "mock:"]
        .into_iter()
        .find_map(|scheme| Some((scheme, current.strip_prefix(scheme)?)))
        .unwrap_or(("", &current));
    let mut found = Vec::new();
    if scheme.is_empty() {
        let schemes = [
            "unix://",
            "embedded:",
            "mock:",
            "exec:",
            "tcp://",
            "https://",
            "dns:///",
            "pod:",
            "kubectl:",
            "unix-abstract:",
        ];
        let fitting = schemes.into_iter().filter(|one| one.starts_with(&*current));
        found.extend(fitting.map(CompletionCandidate::new));
    }
    if !path.is_empty() || !scheme.is_empty() {
        let paths = PathCompleter::any().complete(OsStr::new(path));
        let paths = paths.into_iter().filter(|path| path.get_value() != ".");
        found.extend(paths.map(|path| path.add_prefix(scheme)));
    }
    found
}

/// The next field of a capability `MODE,TYPE` or `key=value,…`.
fn capabilities(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let (before, _) = current.rsplit_once(',').unwrap_or_default();
    let comma = if before.is_empty() { "" } else { "," };
    let modes = MODES.iter().skip(1).map(|mode| mode.name);
    let modes = modes.chain(KUBERNETES_MODES.map(|(short, ..)| short));
    let nexts: Vec<String> = match before {
        "" => modes
            .clone()
            .map(str::to_owned)
            .chain(modes.map(|mode| format!("mode={mode}")))
            .collect(),
        before if before.contains('=') => ["type=mount", "type=block", "fs=", "flag=", "group="]
            .into_iter()
            .filter(|next| {
                let key = next.split('=').next().unwrap_or_default();
                key == "flag" || !before.contains(&format!("{key}="))
            })
            .map(str::to_owned)
            .collect(),
        before if !before.contains(',') => vec!["mount".to_owned(), "block".to_owned()],
        _ => Vec::new(),
    };
    let whole = nexts
        .into_iter()
        .map(|next| format!("{before}{comma}{next}"));
    whole
        .filter(|next| next.to_lowercase().starts_with(&current.to_lowercase()))
        // The long form is offered once it was begun.
        .filter(|next| next.contains('=') == current.starts_with("mode="))
        .map(CompletionCandidate::new)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::globals::with_global_flags;
    use crate::parse::with_rpcs;

    fn after(line: &str) -> Vec<String> {
        let mut tree = Tree::new(with_rpcs(with_global_flags(Command::new("csi"))));
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = tree.candidates(&words, &mut |wanted| match wanted {
            DriverCandidates::Ids(kind) => vec![format!("{kind:?}#1")],
            DriverCandidates::Parameters => vec!["server".to_owned(), "share".to_owned()],
        });
        found.into_iter().map(|one| one.value).collect()
    }

    #[test]
    fn verbs_flags_values_and_ids_come_from_the_tree() {
        assert!(after("csi cont").contains(&"controller".to_owned()));
        assert!(after("csi controller dele").contains(&"delete-volume".to_owned()));
        assert_eq!(after("csi list-v"), ["list-volumes"]);
        assert_eq!(after("csi help list-v"), ["list-volumes"]);
        assert_eq!(
            after("csi help list-volumes --"),
            after("csi help controller list-volumes --")
        );
        assert!(after("csi controller create-volume --req").contains(&"--req-bytes".to_owned()));
        assert_eq!(after("csi -o js"), ["json", "jsonl", "jsonpath="]);
        for (line, id) in [
            ("csi controller delete-volume ", "Volume#1"),
            ("csi controller rm ", "Volume#1"),
            ("csi node publish ", "Volume#1"),
            ("csi controller delete-snapshot ", "Snapshot#1"),
            (
                "csi controller create-volume --source-snapshot ",
                "Snapshot#1",
            ),
            ("csi controller publish v --node-id ", "Node#1"),
            ("csi snapshot-metadata get-metadata-delta ", "Snapshot#1"),
            (
                "csi group-controller delete-volume-group-snapshot ",
                "GroupSnapshot#1",
            ),
        ] {
            assert_eq!(after(line), [id], "{line}");
        }
        assert_eq!(
            after("csi controller create-volume --source-volume=Vol"),
            ["--source-volume=Volume#1"]
        );
        assert!(after("csi controller delete-volume x").is_empty());
    }

    #[test]
    fn parameters_complete_key_by_key() {
        let params = |text: &str| after(&format!("csi controller create-volume {text}"));
        assert_eq!(params("--params "), ["server=", "share="]);
        assert_eq!(params("--params server=x,"), ["server=x,share="]);
        assert_eq!(
            params("--params=s"),
            ["--params=server=", "--params=share="]
        );
        assert!(params("--params server=x").is_empty());
    }

    #[test]
    fn columns_are_those_of_the_command_one_after_the_other() {
        let columns = |text: &str| after(&format!("csi {text}"));
        let list = "controller list-volumes --columns";
        assert_eq!(
            columns(&format!("{list} c")),
            ["capacity", "condition", "context"]
        );
        assert_eq!(columns(&format!("{list}=cap")), ["--columns=capacity"]);
        assert_eq!(
            columns(&format!("{list} capacity,c")),
            ["capacity,condition", "capacity,context"]
        );
        assert_eq!(columns("list-volumes --sort-by n"), ["nodes"]);
        assert_eq!(
            columns("controller list-snapshots --columns so"),
            ["source-volume"]
        );
        assert_eq!(columns("--columns snap"), ["snapshot-id"]);
    }

    #[test]
    fn no_word_of_a_list_is_offered_twice() {
        let only = Arg::new("only").long("only").value_delimiter(',');
        let only = only.value_parser(["stats", "expand"]);
        let mut tree = Tree::new(Command::new("csi").arg(only));
        for (typed, expected) in [
            ("stats,", "stats,expand"),
            ("expand,s", "expand,stats"),
            ("expan", "expand"),
        ] {
            let words = ["csi", "--only", typed].map(str::to_owned);
            let found = tree.candidates(&words, &mut |_| Vec::new());
            let found: Vec<&str> = found.iter().map(|one| one.value.as_str()).collect();
            assert_eq!(found, [expected], "{typed}");
        }
    }

    #[test]
    fn an_id_with_commas_is_no_list() {
        let mut tree = Tree::new(with_rpcs(with_global_flags(Command::new("csi"))));
        let words = ["csi", "controller", "get-volume", ""].map(str::to_owned);
        let ids = ["pool,pool", "plain", "s=a,a", "x,y"];
        let found = tree.candidates(&words, &mut |_| ids.map(str::to_owned).into());
        let found: Vec<String> = found.into_iter().map(|one| one.value).collect();
        assert_eq!(found, ids);
        assert_eq!(
            after("csi list-volumes --columns capacity,cap"),
            [] as [&str; 0]
        );
    }

    #[test]
    fn capabilities_complete_field_by_field() {
        let cap = |text: &str| after(&format!("csi controller create-volume --cap {text}"));
        assert_eq!(cap("single_node_w"), ["SINGLE_NODE_WRITER"]);
        assert_eq!(cap("rw"), ["RWO", "RWX", "RWOP"]);
        assert_eq!(cap("mode=RO"), ["mode=ROX"]);
        assert_eq!(cap("RWX,"), ["RWX,mount", "RWX,block"]);
        assert_eq!(cap("5,"), ["5,mount", "5,block"]);
        assert_eq!(cap("mode=MULTI_NODE_S"), ["mode=MULTI_NODE_SINGLE_WRITER"]);
        assert_eq!(
            cap("mode=5,type=mount,f"),
            ["mode=5,type=mount,fs=", "mode=5,type=mount,flag="]
        );
    }
}
