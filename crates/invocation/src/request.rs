//! Builds an RPC's requests from `--request`, secrets and defaults, and the command that sends them.

use super::defaults::Defaults;
use super::globals::Globals;
use super::parse;
use super::rpc_command::Command;
use csi_arguments::request::RequestSource;
use csi_arguments::secrets::{self, PromptError, Secrets};
use csi_error::{Error, OrError as _};
use csi_output::Format;
use csi_rpc::context::{RequestContext, RequestError, RequestFlags, WatchFlags};
use csi_rpc::{Called, from_reply};

/// The command that matches ask for, ready to be sent.
///
/// # Errors
/// When its flags, its request or its secrets are not usable.
pub fn command(
    called: &Called<'_>,
    globals: &Globals,
    defaults: &Defaults,
) -> Result<Command, Error> {
    let flags = parse::flags(called.matches)?;
    let context = context(&flags, called, globals, defaults)
        .map_err(|error| error.doing(called.group.command_of(called.rpc)))?;
    command_in(&flags, called, globals, defaults, &context)
}

/// Builds a command as [`command`] does, with the given context for its requests.
///
/// # Errors
/// As [`command`].
pub fn command_in(
    flags: &RequestFlags,
    called: &Called<'_>,
    globals: &Globals,
    defaults: &Defaults,
    context: &RequestContext,
) -> Result<Command, Error> {
    if flags.dry_run {
        let known = [
            Format::Table,
            Format::Json,
            Format::Jsonl,
            Format::Yaml,
            Format::Jsonpath,
        ];
        globals.format_among(&known, "--dry-run prints the request as JSON")?;
    }
    let watch = match called.rpc.may_be_watched() {
        true => parse::flags::<WatchFlags>(called.matches)?.pause(),
        false => None,
    };
    let calls = (called.rpc.calls)(called.matches, context).map_err(|error| match error {
        RequestError::Base(_) => Error::local(error.to_string()),
        _ => Error::usage(error.to_string()),
    });
    let mut calls = calls.map_err(|error| error.doing(called.group.command_of(called.rpc)))?;
    // What stands on the next page is no less watched.
    calls.follow_pages |= watch.is_some();
    Ok(Command {
        group: called.group,
        rpc: called.rpc,
        calls,
        watch,
        output: globals.output(defaults.is_csc()),
        checks: globals.checks(),
        forgives: globals.forgives(),
        keep_going: flags.keep_going,
        dry_run: flags.dry_run,
        log: globals.log(),
    })
}

/// The context of requests: everything beside their own flags that they are built from.
///
/// # Errors
/// When `--request` or the secrets are not usable.
pub fn context(
    flags: &RequestFlags,
    called: &Called<'_>,
    globals: &Globals,
    defaults: &Defaults,
) -> Result<RequestContext, Error> {
    let secrets_file = defaults.secrets_file(&flags.secrets_file, globals);
    let secrets_file = secrets_file.as_deref();
    let has_request = flags.request.as_ref().is_some_and(RequestSource::is_stdin);
    let has_secrets = secrets_file == Some("-");
    let mut readers: Vec<&str> = Vec::new();
    readers.extend(has_request.then_some("request"));
    readers.extend(has_secrets.then_some("secrets-file"));
    readers.extend(from_reply::from_stdin(called.matches));
    if let [one, other, ..] = readers.as_slice() {
        return Err(Error::usage(format!(
            "--{one} and --{other} cannot both read stdin"
        )));
    }
    let request = flags.request.as_ref();
    let base = request.map(|source| source.read(called.rpc.method.request));
    Ok(RequestContext {
        default_capability: defaults.capability(globals),
        parameters: globals.parameters(),
        secrets: secrets(secrets_file, &flags.secrets_prompt)?,
        base: base.transpose().or_usage()?,
    })
}

/// The secrets of the environment, then those of a file, then those typed in.
///
/// # Errors
/// When they cannot be read.
pub fn secrets(file: Option<&str>, prompt: &[String]) -> Result<Secrets, Error> {
    let mut all = Secrets::from_environment().or_usage()?;
    if let Some(file) = file {
        all.extend(Secrets::from_file(file).or_usage()?);
    }
    if !prompt.is_empty() {
        all.extend(secrets::prompt(prompt).map_err(|error| match error {
            PromptError::Interrupted => Error::interrupted(),
            error => Error::usage(error.to_string()),
        })?);
    }
    Ok(all)
}
