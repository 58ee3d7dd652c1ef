//! The global flags, and the options of connections, checks, output and log that they stand for.
//!
//! Owns their names and help texts. Must not connect or run anything.

use super::contexts::chosen::Chosen;
use super::contexts::file;
use super::help::help_all;
use clap::builder::{
    NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser,
};
use clap::{Arg, ArgAction, Args, Command};
use csi_arguments::map::TextMap;
use csi_arguments::metadata;
use csi_call::Log;
use csi_call::endpoint::{ConnectOptions, TlsOptions};
use csi_error::Error;
use csi_output::{AskedFormat, Format, FormatError, json};
use csi_proto::duration;
use csi_rpc::csc_flags;
use csi_rpc::validation::Checks;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Flags that may stand anywhere on the command line.
#[derive(Args, Clone, Debug)]
pub struct Globals {
    /// The driver: unix:PATH, a socket's path, HOST:PORT, tcp://, dns:///, https://, unix-abstract:NAME, exec:COMMAND,
    /// pod:NAMESPACE/POD, kubectl:[NAMESPACE][/NODE], embedded:[DIR], mock:[DIR]; without the flag what CSI_ENDPOINT names
    // Not by clap's `env`: with the variable set, a command without its verb would no longer print its help.
    // An empty one is a variable that somebody forgot to set: it names neither the current context's driver nor any other.
    #[arg(short, long, global = true, value_name = "ENDPOINT", value_parser = NonEmptyStringValueParser::new(), help_heading = CONNECTION)]
    pub endpoint: Option<String>,
    /// Speak with the driver of this context, with what the context says of its calls; `csi context` keeps them. Without the
    /// flag what CSI_CONTEXT names, or the current context
    #[arg(long, global = true, value_name = "CONTEXT", help_heading = CONNECTION)]
    pub context: Option<String>,
    /// The context that counts for this command.
    #[arg(skip)]
    pub chosen: Option<Chosen>,
    /// How long a call may take, such as 90s or 1m30s; 0 for no limit
    #[arg(short, long, global = true, value_name = "DURATION", default_value = "1m", value_parser = duration::parse, help_heading = CONNECTION)]
    pub timeout: Duration,
    /// Wait up to this long until the driver answers and Probe says that it is ready
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse, help_heading = CONNECTION)]
    pub wait: Option<Duration>,
    /// gRPC metadata to send along with every call
    #[arg(short, long, global = true, value_name = "K=V,…", value_parser = metadata::parse, help_heading = CONNECTION)]
    metadata: Vec<TextMap>,
    /// Certificates of the authorities to trust for https:// (PEM); the system's without it
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION)]
    pub cacert: Option<PathBuf>,
    /// This client's certificate for https:// (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "key", help_heading = CONNECTION)]
    pub cert: Option<PathBuf>,
    /// The key of --cert (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "cert", help_heading = CONNECTION)]
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must have, when it is not the endpoint's host
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION)]
    pub server_name: Option<String>,
    /// How to print replies
    #[arg(short, long, global = true, value_parser = Formats, value_name = "FORMAT", help_heading = OUTPUT)]
    output: Option<AskedFormat>,
    /// Print tables without heads
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub no_headers: bool,
    /// Columns of the table: heads, or paths such as volume.volume_context
    #[arg(long, global = true, value_name = "COLUMN,…", value_delimiter = ',', help_heading = OUTPUT)]
    pub columns: Vec<String>,
    /// Sort the rows of a list by a column; holds all rows back until the last has arrived
    #[arg(long, global = true, value_name = "COLUMN", help_heading = OUTPUT)]
    sort_by: Option<String>,
    /// Say more on stderr: -v the calls, -vv requests and replies (secrets masked), -vvv metadata and connections
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = OUTPUT)]
    pub verbose: u8,
    /// The flags of csc that csi takes as well.
    #[command(flatten)]
    pub csc: CscFlags,
}

const CONNECTION: &str = "Connection";
const OUTPUT: &str = "Output";
const CHECKS: &str = "Checks (off by default: a debugger must be able to send nonsense)";

/// Adds the flags of every command.
pub fn with_global_flags(root: Command) -> Command {
    Globals::augment_args(root.arg(help_all()))
}

/// Flags that csc has and that mean something here too.
#[derive(Args, Clone, Debug)]
pub struct CscFlags {
    /// Check requests and replies against the specification
    #[arg(long, global = true, help_heading = CHECKS)]
    pub with_spec_validation: bool,
    /// Check that the request has secrets
    #[arg(long, global = true, help_heading = CHECKS)]
    pub with_requires_creds: bool,
    /// Check that the request, or the volume just created, has a volume context
    #[arg(long, global = true, help_heading = CHECKS)]
    pub with_requires_vol_context: bool,
    /// Check that the request, or the reply of a controller publish, has a publish context
    #[arg(long, global = true, help_heading = CHECKS)]
    pub with_requires_pub_context: bool,
    /// Take ALREADY_EXISTS of a create for success
    #[arg(long, global = true, help_heading = CHECKS)]
    pub with_success_create_already_exists: bool,
    /// Take NOT_FOUND of a delete for success
    #[arg(long, global = true, help_heading = CHECKS)]
    pub with_success_delete_not_found: bool,
    /// Show each request on stderr
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub with_request_logging: bool,
    /// Show each reply on stderr
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub with_response_logging: bool,
    /// csc's level of logging: debug is -vv, info is -v
    #[arg(short, long, global = true, value_parser = ["panic", "fatal", "error", "warn", "info", "debug"], ignore_case = true, value_name = "LEVEL", hide = true)]
    log_level: Option<String>,
    /// csc's flag; connections are plain unless the endpoint is https://
    #[arg(short, long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", hide = true)]
    pub insecure: Option<bool>,
}

/// The names of formats, as clap offers and reads them.
#[derive(Clone)]
struct Formats;

impl TypedValueParser for Formats {
    type Value = AskedFormat;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<AskedFormat, clap::Error> {
        let asked = AskedFormat::parse(&value.to_string_lossy());
        if let Err(FormatError::Name(_)) = asked {
            // clap's own words, with all names and the likest.
            let names = PossibleValuesParser::new(self.possible_values().into_iter().flatten());
            names.parse_ref(command, arg, value)?;
        }
        (|text: &str| AskedFormat::parse(text)).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = Format::ALL.map(|(format, name, help)| {
            let name = match format {
                Format::Jsonpath => "jsonpath=",
                Format::CustomColumns => "custom-columns=",
                _ => name,
            };
            PossibleValue::new(name).help(help)
        });
        Some(Box::new(all.into_iter()))
    }
}

impl Globals {
    /// The format of replies that a flag asks for.
    pub fn format(&self) -> Format {
        self.output
            .as_ref()
            .map_or(Format::default(), |asked| asked.format)
    }

    /// The format as a flag would name it, with what to print behind `=`.
    pub fn format_as_asked(&self) -> &str {
        let asked = self.output.as_ref().map(|asked| asked.text.as_str());
        asked.unwrap_or(Format::default().name())
    }

    /// Prints replies in this format.
    pub fn set_format(&mut self, format: AskedFormat) {
        self.output = Some(format);
    }

    /// Takes from `outer` every flag that was not `typed`; `typed` gets the flag's id.
    pub fn inherit(&mut self, outer: &Self, typed: impl Fn(&str) -> bool) {
        macro_rules! take {
            ($inner:expr, $outer:expr, $($flag:ident)*) => {
                $(if !typed(stringify!($flag)) {
                    $inner.$flag.clone_from(&$outer.$flag);
                })*
            };
        }
        // Either flag says which driver it is, and nothing is left of what the other said.
        let names_driver = typed("endpoint") || typed("context") && self.context.is_some();
        if !names_driver {
            self.endpoint.clone_from(&outer.endpoint);
            self.context.clone_from(&outer.context);
            self.chosen.clone_from(&outer.chosen);
        }
        take!(self, outer, timeout wait metadata cacert cert key server_name
            output no_headers columns sort_by verbose);
        take!(self.csc, outer.csc, with_spec_validation with_requires_creds
            with_requires_vol_context with_requires_pub_context
            with_success_create_already_exists with_success_delete_not_found
            with_request_logging with_response_logging log_level insecure);
    }

    /// Decides which context counts, if one does, and takes the driver from it. Once is enough.
    ///
    /// # Errors
    /// When the contexts are needed and cannot be read, or the one that is named is not there.
    pub fn choose_context(&mut self) -> Result<(), Error> {
        if self.chosen.is_none() {
            let endpoint = self.endpoint.as_deref();
            let variable = match endpoint {
                Some(_) => None,
                None => file::variable("CSI_ENDPOINT")?,
            };
            let variable = variable.as_deref().filter(|text| !text.is_empty());
            if let Some((chosen, driver)) = Chosen::of(self.context.as_deref(), endpoint, variable)?
            {
                self.chosen = Some(chosen);
                self.endpoint = Some(driver);
            }
        }
        Ok(())
    }

    /// Names the driver from now on; no context counts.
    pub fn name_driver(&mut self, endpoint: &str) {
        self.endpoint = Some(endpoint.to_owned());
        self.context = None;
        self.chosen = None;
    }

    /// Takes the driver from that context from now on.
    pub fn name_context(&mut self, name: &str) -> Result<(), Error> {
        self.endpoint = None;
        self.context = Some(name.to_owned());
        self.chosen = None;
        self.choose_context()
    }

    /// The parameters of new volumes that the context gives.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        let chosen = self.chosen.as_ref();
        chosen.map_or_else(BTreeMap::new, |chosen| chosen.context.params.clone())
    }

    /// A prompt, with the context in which lines are typed.
    pub fn in_context(&self, prompt: String) -> String {
        match &self.chosen {
            Some(chosen) => format!("[{}] {prompt}", chosen.name),
            None => prompt,
        }
    }

    /// The deadline of a call; `None` for none.
    pub fn timeout(&self) -> Option<Duration> {
        (!self.timeout.is_zero()).then_some(self.timeout)
    }

    /// The metadata to send.
    pub fn metadata(&self) -> Vec<(String, String)> {
        let all = self.metadata.iter().flatten();
        let last: TextMap = all
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        last.into_iter().collect()
    }

    /// The flags that shape a connection, as they would be typed again.
    pub fn connection_flags(&self) -> Vec<String> {
        let mut typed = Vec::new();
        let tls = self.tls();
        for (flag, value) in [
            ("--cacert", &tls.cacert),
            ("--cert", &tls.cert),
            ("--key", &tls.key),
        ] {
            if let Some(path) = value {
                typed.extend([flag.to_owned(), path.display().to_string()]);
            }
        }
        if let Some(name) = &tls.server_name {
            typed.extend(["--server-name".to_owned(), name.clone()]);
        }
        typed
    }

    /// The options of output; the format is `csc` for a program called `csc`, unless a flag asks for another.
    pub fn output(&self, called_as_csc: bool) -> csi_output::Options {
        let format = match &self.output {
            None if called_as_csc => Format::Csc,
            _ => self.format(),
        };
        let asked = self.output.as_ref();
        let expressions = asked.map(|asked| asked.expressions.clone());
        csi_output::Options {
            format,
            expressions: expressions.unwrap_or_default(),
            no_headers: self.no_headers,
            columns: self.columns.clone(),
            sort_by: self.sort_by.clone(),
            ..csi_output::Options::default()
        }
    }

    /// The checks of requests and replies.
    pub fn checks(&self) -> Checks {
        Checks {
            spec: self.csc.with_spec_validation,
            credentials: self.csc.with_requires_creds,
            volume_context: self.csc.with_requires_vol_context,
            publish_context: self.csc.with_requires_pub_context,
        }
    }

    /// The log of calls on stderr.
    pub fn log(&self) -> Log {
        let verbosity = self.verbosity();
        Log {
            calls: verbosity > 0,
            requests: verbosity > 1 || self.csc.with_request_logging,
            replies: verbosity > 1 || self.csc.with_response_logging,
            metadata: verbosity > 2,
        }
    }

    /// The options of connections.
    pub fn connect_options(&self) -> ConnectOptions {
        let defaults = ConnectOptions::default();
        ConnectOptions {
            timeout: self.timeout().unwrap_or(defaults.timeout),
            tls: self.tls(),
        }
    }

    /// The options of TLS; a context's are for its own driver.
    fn tls(&self) -> TlsOptions {
        let own = self.chosen.as_ref().filter(|chosen| chosen.gives_driver);
        let given = own.map(|chosen| chosen.context.clone());
        let given = given.unwrap_or_default();
        TlsOptions {
            cacert: self.cacert.clone().or(given.cacert),
            cert: self.cert.clone().or(given.cert),
            key: self.key.clone().or(given.key),
            server_name: self.server_name.clone().or(given.server_name),
        }
    }

    /// The format of output that is no reply: one of `known`. `prints` says what is printed instead.
    ///
    /// # Errors
    /// When a flag asks for another.
    pub(crate) fn format_among(&self, known: &[Format], prints: &str) -> Result<Format, Error> {
        let format = self.format();
        if known.contains(&format) {
            return Ok(format);
        }
        let names: Vec<&str> = known.iter().map(|one| one.name()).collect();
        let problem = format!("-o {} has no meaning here: {prints}", format.name());
        Err(Error::usage(problem).hint(format!("the formats here are {}", names.join(", "))))
    }

    /// The format of a tool, which prints no replies, as [`Globals::format_among`].
    ///
    /// # Errors
    /// When a flag asks for another, or for what only tables of replies have.
    pub fn tool_format(&self, known: &[Format], prints: &str) -> Result<Format, Error> {
        for (given, flag) in [
            (!self.columns.is_empty(), "--columns"),
            (self.sort_by.is_some(), "--sort-by"),
        ] {
            if given {
                let problem = format!("{flag} has no meaning here: {prints}");
                return Err(Error::usage(problem));
            }
        }
        self.format_among(known, prints)
    }

    /// Whether a tool that prints lines for people, or JSON, is to print JSON.
    ///
    /// # Errors
    /// As [`Globals::tool_format`].
    pub fn json_or_lines(&self, prints: &str) -> Result<bool, Error> {
        let known = [Format::Table, Format::Json, Format::Jsonl];
        Ok(self.tool_format(&known, prints)? != Format::Table)
    }

    /// Prints what a tool has to say, as [`Globals::json_or_lines`] has it: a document, or else its text.
    pub fn print(&self, document: &Json, text: impl FnOnce() -> String) -> Result<(), Error> {
        let shown = match self.format() {
            Format::Table => text(),
            format => json::in_format(document, format)?,
        };
        csi_output::print(shown.as_bytes())
    }

    /// The number of `-v` flags.
    pub fn verbosity(&self) -> u8 {
        let level = self.csc.log_level.as_deref().unwrap_or_default();
        let level = match level.to_ascii_lowercase().as_str() {
            "debug" => 2,
            "info" => 1,
            _ => 0,
        };
        // csc's variable for debugging; anything but an explicit no switches it on.
        let debug = match std::env::var("X_CSI_DEBUG").as_deref() {
            Err(_) | Ok("") => 0,
            Ok(text) if csc_flags::truth(text) == Ok(false) => 0,
            Ok(_) => 2,
        };
        self.verbose.max(level).max(debug)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn every_global_flag_is_inherited_where_it_was_not_typed() {
        let parsed = |words: &[&str]| {
            let root = Command::new("t").no_binary_name(true);
            let matches = Globals::augment_args(root).try_get_matches_from(words);
            Globals::from_arg_matches(&matches.unwrap()).unwrap()
        };
        let words = "-e /s --context c -t 3s --wait 4s -m a=b --cacert a --cert c --key k --server-name s -o json --no-headers \
             --columns C --sort-by S -v --with-spec-validation --with-requires-creds --with-requires-vol-context \
             --with-requires-pub-context --with-success-create-already-exists --with-success-delete-not-found \
             --with-request-logging --with-response-logging -l debug -i=false";
        let words: Vec<&str> = words.split_whitespace().collect();
        let command = Globals::augment_args(Command::new("t"));
        for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
            let short = match flag {
                "endpoint" => "-e",
                "timeout" => "-t",
                "metadata" => "-m",
                "output" => "-o",
                "verbose" => "-v",
                "log-level" => "-l",
                "insecure" => "-i=false",
                _ => "",
            };
            let long = format!("--{flag}");
            assert!(
                words.contains(&short) || words.contains(&&*long),
                "{flag} is not tried"
            );
        }
        let outer = parsed(&words);
        let mut inner = parsed(&[]);
        inner.inherit(&outer, |_| false);
        assert_eq!(format!("{inner:?}"), format!("{outer:?}"));
        let mut typed = parsed(&["-o", "name"]);
        typed.inherit(&outer, |id| id == "output");
        assert_eq!(typed.format(), Format::Name);
        assert_eq!(typed.endpoint.as_deref(), Some("/s"));
    }
}
