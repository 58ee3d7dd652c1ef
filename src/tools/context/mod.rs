//! `csi context`: keeps drivers by names, with what their calls need.
//!
//! Owns the commands; the file is `invocation/contexts/file.rs`, and which context counts is decided beside it. Calls no
//! driver. What is shown of contexts is in `shown.rs`.

mod shown;

use clap::{ArgMatches, Args, Command, FromArgMatches as _, Subcommand};
use csi_arguments::secrets::Secrets;
use csi_arguments::{capability, map};
use csi_call::Endpoint;
use csi_call::endpoint::{EndpointError, TlsOptions, absolute};
use csi_error::{Error, OrError, say};
use csi_invocation::contexts::chosen::{Selectors, select};
use csi_invocation::contexts::file::{self, Context, Contexts};
use csi_invocation::{Defaults, Globals, connect};
use csi_output::Format;
use std::path::Path;

#[derive(Subcommand)]
enum Task {
    /// Keep a driver under a name: that of --endpoint, with its own flags and those for TLS, and no others
    Add(AddFlags),
    /// Make a context the current one, which counts where nothing else names a driver
    Use {
        /// Its name
        #[arg(value_name = "CONTEXT", required_unless_present = "none")]
        name: Option<String>,
        /// Have no current context
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// List the contexts; * marks the one that counts
    #[command(visible_alias = "ls")]
    List,
    /// Show a context; without a name the one that counts
    Show {
        /// Its name
        #[arg(value_name = "CONTEXT")]
        name: Option<String>,
    },
    /// Print the name of the context that counts
    Current,
    /// Give a context another name
    Rename {
        /// Its name
        #[arg(value_name = "CONTEXT")]
        name: String,
        /// Its name from now on
        #[arg(value_name = "NAME")]
        new_name: String,
    },
    /// Forget contexts
    #[command(visible_aliases = ["rm", "delete"])]
    Remove {
        /// Their names
        #[arg(value_name = "CONTEXT", required = true)]
        names: Vec<String>,
    },
}

#[derive(Args)]
struct AddFlags {
    /// The name, such as prod
    name: String,
    /// The capability where a request needs one and none is given, MODE,TYPE[,FS[,FLAG…]]
    #[arg(long, value_name = "MODE,TYPE[,FS[,FLAG…]]", value_parser = checked_cap)]
    cap: Option<String>,
    /// Parameters of new volumes; --params of a command changes single ones of them
    #[arg(long, visible_alias = "parameters", value_name = "K=V,…", value_parser = map::parse)]
    params: Vec<map::TextMap>,
    /// The file of the secrets: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE")]
    secrets_file: Option<String>,
    /// Write a context of that name anew
    #[arg(long)]
    replace: bool,
}

pub fn command() -> Command {
    Command::new("context")
        .about("Keep drivers by names, with what their calls need")
        .after_help(
            "The first of these counts: a flag, --context, a variable, CSI_CONTEXT, the current context. sanity, bench and lifecycle \
             do not run on the current context alone.\n\n\
             Examples:\n  csi context add prod --endpoint unix:///csi/csi.sock --cap RWX,mount --params server=10.0.0.4,share=/export\n  \
             csi context use prod\n  csi --context prod lifecycle",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .defer(Task::augment_subcommands)
}

/// Keeps, forgets or shows contexts.
///
/// # Errors
/// When the file cannot be used, or has not what is named.
pub fn run(matches: &ArgMatches, globals: &Globals, _: &Defaults) -> Result<(), Error> {
    let task = Task::from_arg_matches(matches).or_usage()?;
    let prints = "contexts are lines, or JSON with -o json";
    let own = match task {
        Task::List | Task::Current => Format::Name,
        _ => Format::Json,
    };
    let format = globals.tool_format(&[Format::Table, Format::Json, Format::Jsonl, own], prints)?;
    match task {
        Task::Add(flags) => add(&flags, globals),
        Task::Use { name, .. } => switch(name),
        Task::List => {
            let contexts = Contexts::load().or_usage()?;
            let counts = counting(&contexts, globals)?;
            let text = shown::list(&contexts, counts, format, !globals.no_headers)?;
            csi_output::print(text.as_bytes())
        }
        Task::Show { name } => show(name, globals, format),
        Task::Current => csi_output::print(shown::name(&current(globals)?, format)?.as_bytes()),
        Task::Rename { name, new_name } => rename(&name, &new_name),
        Task::Remove { names } => remove(&names),
    }
}

fn checked_cap(text: &str) -> Result<String, capability::CapabilityError> {
    capability::parse(text).map(|_| text.to_owned())
}

fn add(flags: &AddFlags, globals: &Globals) -> Result<(), Error> {
    if let Some(problem) = file::name_problem(&flags.name) {
        return Err(Error::usage(problem));
    }
    let endpoint = connect::named(globals).ok_or_else(|| {
        Error::usage("a context is a driver's: give its --endpoint")
            .hint("csi context add NAME --endpoint unix:///csi/csi.sock")
    })?;
    let endpoint = Endpoint::parse(&endpoint).or_usage()?;
    if globals.connect_options().tls != TlsOptions::default() && !endpoint.is_tls() {
        let problem = EndpointError::TlsUnused(endpoint.to_string());
        return Err(Error::usage(problem.to_string()));
    }
    if let Some(file) = &flags.secrets_file {
        if file == "-" {
            return Err(Error::usage(
                "--secrets-file: a context needs a file that stays",
            ));
        }
        // Now, and not at the first call.
        Secrets::from_file(file).or_usage()?;
    }
    let context = Context {
        endpoint: endpoint.named_everywhere(),
        cap: flags.cap.clone(),
        secrets_file: flags
            .secrets_file
            .as_deref()
            .map(|file| absolute(Path::new(file)).display().to_string()),
        cacert: globals.cacert.as_deref().map(absolute),
        cert: globals.cert.as_deref().map(absolute),
        key: globals.key.as_deref().map(absolute),
        server_name: globals.server_name.clone(),
        params: flags
            .params
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    };
    Contexts::change(|contexts| {
        if contexts.contexts.contains_key(&flags.name) && !flags.replace {
            let problem = format!("there is a context {} already", flags.name);
            return Err(Error::usage(problem).hint("--replace writes it anew"));
        }
        contexts.contexts.insert(flags.name.clone(), context);
        Ok(())
    })
}

fn switch(name: Option<String>) -> Result<(), Error> {
    Contexts::change(|contexts| {
        if let Some(name) = &name {
            contexts.named(name).or_usage()?;
        }
        contexts.current = name;
        Ok(())
    })
}

fn rename(name: &str, new_name: &str) -> Result<(), Error> {
    if let Some(problem) = file::name_problem(new_name) {
        return Err(Error::usage(problem));
    }
    Contexts::change(|contexts| {
        contexts.named(name).or_usage()?;
        if contexts.contexts.contains_key(new_name) {
            let problem = format!("there is a context {new_name} already");
            return Err(Error::usage(problem).hint("`csi context remove` forgets one"));
        }
        if let Some(context) = contexts.contexts.remove(name) {
            contexts.contexts.insert(new_name.to_owned(), context);
        }
        if contexts.current.as_deref() == Some(name) {
            contexts.current = Some(new_name.to_owned());
        }
        Ok(())
    })
}

fn remove(names: &[String]) -> Result<(), Error> {
    Contexts::change(|contexts| {
        for name in names {
            contexts.named(name).or_usage()?;
        }
        for name in names {
            contexts.contexts.remove(name);
            if contexts.current.as_ref() == Some(name) {
                contexts.current = None;
                say!("note: {name} was the current context; there is none now");
            }
        }
        Ok(())
    })
}

fn show(name: Option<String>, globals: &Globals, format: Format) -> Result<(), Error> {
    let contexts = Contexts::load().or_usage()?;
    let counts = counting(&contexts, globals)?;
    let Some(name) = name.or_else(|| counts.clone()) else {
        return Err(none_counts(globals));
    };
    let context = contexts.named(&name).or_usage()?;
    let counts = counts.as_ref() == Some(&name);
    csi_output::print(shown::one(&name, context, counts, format)?.as_bytes())
}

/// The name of the context that counts, where one does and there is one.
fn current(globals: &Globals) -> Result<String, Error> {
    let contexts = Contexts::load().or_usage()?;
    let name = counting(&contexts, globals)?.ok_or_else(|| none_counts(globals))?;
    contexts.named(&name).or_usage()?;
    Ok(name)
}

fn none_counts(globals: &Globals) -> Error {
    match connect::named(globals) {
        Some(_) => {
            Error::usage("no context counts here: --endpoint or CSI_ENDPOINT names the driver")
                .hint("`csi context list` lists them; `csi context show NAME` shows one")
        }
        None => Error::usage("no context counts here: there is no current one").hint(
            "`csi context list` lists them; `csi context use NAME` makes one the current one",
        ),
    }
}

/// The name of the context that would count for a command with these flags.
fn counting(contexts: &Contexts, globals: &Globals) -> Result<Option<String>, Error> {
    let variable = file::variable("CSI_CONTEXT")?;
    let of = Selectors {
        flag: globals.context.as_deref(),
        variable: variable.as_deref(),
        current: contexts.current.as_deref(),
        driver_is_named: connect::named(globals).is_some(),
    };
    Ok(select(of).map(|(name, _)| name.to_owned()))
}
