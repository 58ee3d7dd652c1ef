//! `csi doctor`: looks at a driver from all sides, and says on one page what is well and what to do about what is not.
//!
//! Owns the command and the order of the checks. Each check has a file, in which looking and judging are apart: `socket.rs`,
//! `process.rs`, `driver.rs` with `meaning.rs`, `sizes.rs`, `kubelet.rs`, `leftovers.rs`, `mounts.rs`. `finding.rs` is what they
//! say. What goes into a bug report is in `bundle.rs`, with `log.rs` and `redacted.rs`. Nothing here changes anything, nor waits
//! longer than its limit.

mod bundle;
mod driver;
mod finding;
mod kubelet;
mod leftovers;
mod log;
mod meaning;
mod mounts;
mod process;
mod redacted;
mod sizes;
mod socket;

use crate::arguments::secrets::Secrets;
use crate::call::endpoint::Endpoint;
use crate::call::secrets::looked_for;
use crate::call::session::Connection;
use crate::error::{Error, OrError};
use crate::invocation::connect::{self, block_on};
use crate::invocation::defaults::Defaults;
use crate::invocation::globals::Globals;
use crate::invocation::mount_points;
use crate::invocation::parse::{self, with_flags};
use crate::invocation::request;
use crate::invocation::rpc_command::output_error;
use crate::output::{self, json, terminal};
use crate::say::say;
use bundle::Bundle;
use clap::{ArgMatches, Args, Command};
use driver::Said;
use finding::{Finding, WIDTH, document, page, wrong};
use log::LogPlaces;
use process::ProcessFacts;
use socket::{Connected, SocketFacts};
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// How long one question may take, where --timeout is longer: a page should come soon.
const LIMIT: Duration = Duration::from_secs(5);

#[derive(Args)]
struct DoctorFlags {
    /// The driver, in the place of --endpoint
    #[arg(value_name = "ENDPOINT")]
    driver: Option<String>,
    /// The kubelet's folder on this node
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/kubelet")]
    kubelet: PathBuf,
    /// Where runs of this program may have left something
    #[arg(long, value_name = "FOLDER")]
    mount_parent: Option<PathBuf>,
    /// Pack the page and the driver's log, without secrets, into a new tar file for a bug report
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Secrets that must not be in the bundle: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE", requires = "bundle")]
    secrets_file: Option<String>,
}

/// The command.
pub fn command() -> Command {
    Command::new("doctor")
        .about("Look at a driver from all sides, and say what to do about what is wrong")
        .after_help(
            "It changes nothing. No question takes longer than 5s, or --timeout.\n\n\
             Exit codes: 0 nothing is wrong, 3 something is.\n\n\
             Examples:\n  csi doctor /csi/csi.sock\n  csi -e unix:///csi/csi.sock doctor --bundle report.tar",
        )
        .defer(with_flags::<DoctorFlags>)
}

/// Looks, and prints the page.
///
/// # Errors
/// That something is wrong with the driver; that the page or the bundle cannot be written.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = parse::flags::<DoctorFlags>(matches)?;
    let is_json = globals.json_or_lines("it prints a page, or JSON with -o json")?;
    let mut globals = globals.clone();
    if let Some(driver) = &flags.driver {
        globals.name_driver(driver);
    }
    globals.timeout = globals.timeout().map_or(LIMIT, |limit| limit.min(LIMIT));
    let endpoint = connect::endpoint(&globals)?;
    // Before anything is looked at: a file that cannot be read is no finding.
    let secrets = match &flags.bundle {
        Some(_) => {
            let file = defaults.secrets_file(&flags.secrets_file, &globals);
            request::secrets(file.as_deref(), &[])?
        }
        None => Secrets::default(),
    };
    let mut looked = Looked::default();
    block_on(defaults, async {
        looked = look(&endpoint, &flags, &globals).await;
        if let Some(path) = &flags.bundle {
            bundle(path, &looked, &endpoint, &secrets).await?;
        }
        endpoint.settled().await;
        Ok(())
    })?;
    let findings = &looked.findings;
    let text = match is_json {
        true => pretty(&endpoint, findings)?,
        false => page(
            findings,
            terminal::width().map_or(WIDTH, |width| width.min(WIDTH)),
        ),
    };
    output::print(text.as_bytes())?;
    match wrong(findings) {
        0 => Ok(()),
        1 => Err(Error::failed("something is wrong with the driver")),
        count => Err(Error::failed(format!(
            "{count} things are wrong with the driver"
        ))),
    }
}

fn pretty(endpoint: &Endpoint, findings: &[Finding]) -> Result<String, Error> {
    let document = document(&endpoint.without_credentials(), findings);
    json::text(&document).map_err(output_error)
}

/// What was seen.
#[derive(Default)]
struct Looked {
    findings: Vec<Finding>,
    process: Option<ProcessFacts>,
}

async fn look(endpoint: &Endpoint, flags: &DoctorFlags, globals: &Globals) -> Looked {
    let limit = globals.timeout;
    let mut findings = Vec::new();
    let mut process = None;
    let mut is_reachable = true;
    match endpoint.socket() {
        Some(path) => {
            let socket = SocketFacts::look(path, limit).await;
            findings.push(socket.finding());
            is_reachable = matches!(socket.connected, Connected::Accepted(_));
            process = socket.listener().map(ProcessFacts::look);
            findings.push(match is_reachable {
                true => ProcessFacts::finding(process.as_ref()),
                false => Finding::unknown("listener", "there is no connection"),
            });
        }
        None => {
            let why = format!(
                "{} is no socket of this machine",
                endpoint.without_credentials()
            );
            findings.push(Finding::unknown("socket", why));
        }
    }
    let said = match is_reachable {
        true => converse(endpoint, globals).await,
        // One cause is one fault.
        false => Said::nothing(Finding::unknown(
            "plugin",
            "not asked: there is no connection",
        )),
    };
    let name = &said.info.name;
    findings.extend(said.findings);
    findings.push(sizes::finding(said.volumes.as_deref()));
    let sockets = kubelet::registrations(&flags.kubelet, name, limit).await;
    let serves_node = said.advertised.serves_node;
    let nameless = |check| Finding::unknown(check, "the driver's name is not known");
    findings.push(match name.is_empty() {
        true => nameless("registration"),
        false => {
            let sockets = sockets.as_deref().map_err(io::Error::kind);
            kubelet::finding(sockets, name, serves_node)
        }
    });
    let points = mount_points::all().unwrap_or_default();
    let parent = flags.mount_parent.clone().unwrap_or_else(env::temp_dir);
    let folders = leftovers::folders(&parent, &points);
    let volumes = said.volumes.as_deref();
    findings.extend(leftovers::findings(&folders, volumes, endpoint));
    let runs = folders.iter().filter(|folder| folder.is_of(endpoint));
    let runs: Vec<&Path> = runs.map(|folder| folder.path.as_path()).collect();
    let points = kubelet::mounts_of(points, &flags.kubelet, name, &runs, kubelet::noted_driver);
    findings.push(match name.is_empty() && points.is_empty() {
        true => nameless("mounts"),
        false => mounts::finding(&mounts::ask(&points, limit)),
    });
    findings.push(Finding::fine(
        "versions",
        versions(&said.info.vendor_version),
    ));
    Looked { findings, process }
}

/// Connects, and lets the driver say everything.
async fn converse(endpoint: &Endpoint, globals: &Globals) -> Said {
    let limit = globals.timeout + globals.wait.unwrap_or_default();
    let otherwise = "look at the driver's log; --wait 1m waits for a driver that starts";
    Said::nothing(
        match timeout(limit, connect::session(endpoint, globals)).await {
            Ok(Ok(session)) => {
                let endpoint = endpoint.clone();
                return driver::ask(&Connection { endpoint, session }).await;
            }
            Ok(Err(error)) => driver::of_error("plugin", &error, otherwise),
            Err(_) => {
                let problem = format!("no connection within {limit:?}");
                Finding::wrong("plugin", problem, otherwise)
            }
        },
    )
}

/// The versions of everything that takes part.
fn versions(driver: &str) -> String {
    let mut all = vec![
        format!("csi {}", env!("CARGO_PKG_VERSION")),
        format!("CSI {}", csi_proto::SPEC_VERSION),
    ];
    if !driver.is_empty() {
        all.push(format!("driver {driver}"));
    }
    if let Ok(kernel) = fs::read_to_string("/proc/sys/kernel/osrelease") {
        all.push(format!("Linux {}", kernel.trim_end()));
    }
    all.join(", ")
}

async fn bundle(
    path: &Path,
    looked: &Looked,
    endpoint: &Endpoint,
    secrets: &Secrets,
) -> Result<(), Error> {
    let bundle = Bundle {
        page: page(&looked.findings, WIDTH),
        document: pretty(endpoint, &looked.findings)?,
        log: log::of(looked.process.as_ref(), &LogPlaces::default()).await,
        secrets: looked_for(secrets.reveal().values().cloned().collect()),
    };
    if let Err(why) = &bundle.log {
        for line in why.lines() {
            say!("note: the bundle has no log of the driver: {line}");
        }
    }
    bundle.write(path).or_because(format_args!(
        "the bundle {} cannot be written",
        path.display()
    ))?;
    say!(
        "note: {} is for a bug report: read it before you send it",
        path.display()
    );
    Ok(())
}
