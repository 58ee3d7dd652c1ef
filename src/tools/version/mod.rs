//! `csi version`: the version of this program, of the specification that it speaks, and of the driver that is named.
//!
//! Without a driver it asks none and cannot fail for want of one.

use bytes::Bytes;
use clap::{ArgMatches, Args, Command};
use csi_call::call_error;
use csi_error::Error;
use csi_invocation::connect::{named, with_driver};
use csi_invocation::parse::{self, with_flags};
use csi_invocation::{Defaults, Globals};
use csi_proto::value::{Secrets, decode};
use csi_proto::{Request as _, escaped, v1};
use serde_json::{Value as Json, json as object};

#[derive(Args)]
struct VersionFlags {
    /// Ask no driver, also where one is named
    #[arg(long)]
    client: bool,
}

pub fn command() -> Command {
    Command::new("version")
        .about("Print the versions of this program, of CSI, and of the driver that is named")
        .after_help("Examples:\n  csi version\n  csi -e unix:///csi/csi.sock version -o json")
        .defer(with_flags::<VersionFlags>)
}

/// Prints the versions; those of this side also where the driver does not answer.
///
/// # Errors
/// When a driver is named and does not tell its version.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = parse::flags::<VersionFlags>(matches)?;
    globals.json_or_lines("it prints a line a version, or JSON with -o json")?;
    let mut versions = object!({
        "clientVersion": env!("CARGO_PKG_VERSION"),
        "csiVersion": csi_proto::SPEC_VERSION,
    });
    let asked = match flags.client {
        true => Ok(None),
        false => plugin(globals, defaults),
    };
    if let Ok(Some(plugin)) = &asked {
        versions["plugin"] = plugin.clone();
    }
    globals.print(&versions, || lines(&versions))?;
    asked.map(drop)
}

/// A line a version, as kubectl has them.
fn lines(versions: &Json) -> String {
    let shown = [
        ("Client Version", "/clientVersion"),
        ("CSI Version", "/csiVersion"),
        ("Plugin Name", "/plugin/name"),
        ("Plugin Version", "/plugin/vendorVersion"),
    ];
    let line = |(name, place)| {
        let version = versions.pointer(place)?.as_str()?;
        Some(format!("{name}: {}\n", escaped(version)))
    };
    shown.into_iter().filter_map(line).collect()
}

/// What the driver says of itself, as JSON; nothing where none is named.
fn plugin(globals: &Globals, defaults: &Defaults) -> Result<Option<Json>, Error> {
    let mut globals = globals.clone();
    // Here, and not before the tool runs: contexts that cannot be read hide no version of this side.
    if !defaults.is_csc() {
        globals.choose_context()?;
    }
    if named(&globals).is_none() {
        return Ok(None);
    }
    let globals = &globals;
    let method = v1::GetPluginInfoRequest::METHOD;
    with_driver(globals, defaults, async |driver| {
        let answer = driver.session.call(method, Bytes::new()).await;
        let reply = answer.map_err(|error| call_error(&error, &driver.endpoint))?;
        let invalid = |error: &dyn std::error::Error| {
            Error::local(format!("the reply is not valid: {error}"))
        };
        let bytes = reply.into_inner();
        let value =
            decode(method.response, &bytes, Secrets::Mask).map_err(|error| invalid(&error))?;
        let plugin = serde_json::to_value(value).map_err(|error| invalid(&error))?;
        Ok(Some(plugin))
    })
}
