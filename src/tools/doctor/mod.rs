//! `csi doctor`: looks at a driver from all sides, and says on one page what is well and what to do about what is not.
//!
//! Owns the command and the order of the checks. Each check has a file, in which looking and judging are apart: `socket.rs`,
//! `process.rs`, `driver.rs` with `meaning.rs`, `sizes.rs`, `kubelet.rs`, `leftovers.rs`, `mounts.rs`; for a driver in a pod
//! `pod.rs` has those that would look at this machine. `finding.rs` is what they say. What goes into a bug report is in `bundle.rs`, with `log.rs`. Nothing here changes anything, nor waits
//! longer than its limit.

mod bundle;
mod driver;
mod finding;
mod kubelet;
mod leftovers;
mod log;
mod meaning;
mod mounts;
mod pod;
mod process;
mod sizes;
mod socket;

use bundle::Bundle;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgMatches, Args, Command};
use csi_arguments::secrets::Secrets;
use csi_call::secrets::looked_for;
use csi_call::user_folders;
use csi_call::{Connection, Endpoint, Session};
use csi_error::{Error, say};
use csi_invocation::connect::{self, block_on};
use csi_invocation::parse::{self, with_flags};
use csi_invocation::{Defaults, Globals, defaults, mount_points};
use csi_output::{json, terminal};
use driver::Said;
use finding::{Finding, WIDTH, document, page, wrong};
use log::LogLocations;
use pod::{PodSeen, Registered};
use process::ProcessFacts;
use socket::{Connected, SocketFacts};
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
    #[arg(value_name = "ENDPOINT", value_parser = NonEmptyStringValueParser::new())]
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
/// That something is wrong with the driver, or on the way to it; that the page or the bundle cannot be written.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = parse::flags::<DoctorFlags>(matches)?;
    globals.json_or_lines("it prints a page, or JSON with -o json")?;
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
            defaults::secrets(file.as_deref(), &[])?
        }
        None => Secrets::default(),
    };
    let looked = block_on(defaults, async {
        let looked = look(&endpoint, &flags, &globals).await?;
        if let Some(path) = &flags.bundle {
            bundle(path, &looked, &endpoint, &secrets).await?;
        }
        endpoint.settled().await;
        Ok(looked)
    })?;
    let findings = &looked.findings;
    let width = terminal::width().map_or(WIDTH, |width| width.min(WIDTH));
    let shown = document(&endpoint.without_credentials(), findings);
    globals.print(&shown, || page(findings, width))?;
    match wrong(findings) {
        0 => Ok(()),
        1 => Err(Error::failed(
            "something is wrong with the driver, or on the way to it",
        )),
        count => Err(Error::failed(format!(
            "{count} things are wrong with the driver, or on the way to it"
        ))),
    }
}

/// What was seen.
struct Looked {
    findings: Vec<Finding>,
    location: DriverLocation,
}

/// Where the driver runs, as far as that can be looked at.
enum DriverLocation {
    /// On this machine, or nobody knows where; with its process.
    Here(Option<ProcessFacts>),
    /// In a pod, which may be missing.
    Pod(Option<PodSeen>),
}

async fn look(
    endpoint: &Endpoint,
    flags: &DoctorFlags,
    globals: &Globals,
) -> Result<Looked, Error> {
    let limit = globals.timeout;
    // The page is of a driver that has had its time to start.
    let waited = match globals.wait {
        Some(_) => Some(open(endpoint, globals).await),
        None => None,
    };
    let (location, mut findings, unreachable) = locate(endpoint, limit).await;
    let said = match unreachable {
        None => {
            let opened = match waited {
                Some(opened) => opened,
                None => open(endpoint, globals).await,
            };
            converse(endpoint, opened).await
        }
        // One cause is one fault.
        Some(why) => Said::nothing(Finding::unknown("plugin", format!("not asked: {why}"))),
    };
    findings.extend_from_slice(&said.findings);
    findings.push(sizes::finding(said.volumes.as_ref()));
    findings.push(registration(&location, endpoint, &said, flags, limit).await);
    let points = mount_points::all().unwrap_or_default();
    let parent = flags.mount_parent.clone();
    let parent = parent.unwrap_or_else(user_folders::temporary);
    let folders = leftovers::folders(parent, points.clone(), limit).await;
    if let (Err(error), Some(_)) = (&folders, &flags.mount_parent)
        && error.kind() == io::ErrorKind::NotFound
    {
        return Err(Error::usage(format!("--mount-parent: {error}")));
    }
    let volumes = said.volumes.as_ref();
    findings.extend(leftovers::findings(&folders, volumes, endpoint));
    let runs = folders.iter().flatten();
    let runs = runs.filter(|folder| folder.is_of(endpoint));
    let runs: Vec<&Path> = runs.map(|folder| folder.path.as_path()).collect();
    let name = &said.info.name;
    let points = kubelet::mounts_of(points, &flags.kubelet, name, &runs, kubelet::noted_driver);
    findings.push(match &location {
        DriverLocation::Pod(_) => {
            Finding::unknown("mounts", "not known from here: they are on its node")
        }
        DriverLocation::Here(_) if name.is_empty() && points.is_empty() => nameless("mounts"),
        DriverLocation::Here(_) => mounts::finding(&mounts::ask(&points, limit)),
    });
    findings.push(Finding::fine(
        "versions",
        versions(&said.info.vendor_version, &location),
    ));
    Ok(Looked { findings, location })
}

/// Looks at what the driver runs in, and says why it cannot be asked, where that is so.
async fn locate(
    endpoint: &Endpoint,
    limit: Duration,
) -> (DriverLocation, Vec<Finding>, Option<&'static str>) {
    const UNCONNECTED: Option<&str> = Some("there is no connection");
    match PodSeen::look(endpoint, limit).await {
        Some(Ok(pod)) => {
            let findings = pod.findings().to_vec();
            return (DriverLocation::Pod(Some(pod)), findings, None);
        }
        Some(Err(missing)) => return (DriverLocation::Pod(None), vec![missing], UNCONNECTED),
        None => {}
    }
    let Some(path) = endpoint.socket() else {
        let named = endpoint.without_credentials();
        let why = format!("{named} is no socket of this machine");
        let findings = vec![Finding::unknown("socket", why)];
        return (DriverLocation::Here(None), findings, None);
    };
    let socket = SocketFacts::look(endpoint, &path, limit).await;
    let (process, listener, unreachable) = match &socket.connected {
        Some(Connected::Accepted(process)) => {
            let process = process.map(ProcessFacts::look);
            let listener = ProcessFacts::finding(process.as_ref());
            // The kernel accepts connections for it.
            let is_stopped = process.as_ref().is_some_and(|it| it.is_stopped);
            (process, listener, is_stopped.then_some("it is stopped"))
        }
        _ => {
            let listener = Finding::unknown("listener", "there is no connection");
            (None, listener, UNCONNECTED)
        }
    };
    let findings = vec![socket.finding, listener];
    (DriverLocation::Here(process), findings, unreachable)
}

/// Whether Kubernetes knows the driver: by the API server where it is in a pod, by this node's kubelet where it is here.
async fn registration(
    location: &DriverLocation,
    endpoint: &Endpoint,
    said: &Said,
    flags: &DoctorFlags,
    limit: Duration,
) -> Finding {
    let (name, serves_node) = (&said.info.name, said.advertised.serves_node);
    match location {
        _ if name.is_empty() => nameless("registration"),
        DriverLocation::Pod(pod) => {
            let node = pod.as_ref().and_then(PodSeen::node);
            let registered = Registered::ask(name, limit).await;
            let node = node.filter(|_| serves_node);
            registered.finding(name, node, endpoint.is_of_the_chart())
        }
        DriverLocation::Here(_) if endpoint.socket().is_none() => Finding::unknown(
            "registration",
            "kubelets use drivers on sockets of their nodes",
        ),
        DriverLocation::Here(_) => {
            let sockets = kubelet::registrations(&flags.kubelet, name, limit).await;
            let sockets = sockets.as_deref().map_err(io::Error::kind);
            kubelet::finding(sockets, name, serves_node)
        }
    }
}

fn nameless(check: &'static str) -> Finding {
    Finding::unknown(check, "the driver's name is not known")
}

/// Connects, once the driver is ready where --wait asks for that.
async fn open(endpoint: &Endpoint, globals: &Globals) -> Result<Session, Finding> {
    let limit = globals.timeout + globals.wait.unwrap_or_default();
    let otherwise = "look at the driver's log";
    match timeout(limit, connect::session(endpoint, globals)).await {
        Ok(opened) => opened.map_err(|error| driver::of_error("plugin", &error, otherwise)),
        Err(_) => {
            let problem = format!("no connection within {limit:?}");
            Err(Finding::wrong("plugin", problem, otherwise))
        }
    }
}

/// Lets the driver say everything.
async fn converse(endpoint: &Endpoint, opened: Result<Session, Finding>) -> Said {
    match opened {
        Ok(session) => {
            let endpoint = endpoint.clone();
            driver::ask(&Connection { endpoint, session }).await
        }
        Err(why) => Said::nothing(why),
    }
}

/// The versions of everything that takes part.
fn versions(driver: &str, location: &DriverLocation) -> String {
    let mut all = vec![
        format!("csi {}", env!("CARGO_PKG_VERSION")),
        format!("CSI {}", csi_proto::SPEC_VERSION),
    ];
    if !driver.is_empty() {
        all.push(format!("driver {driver}"));
    }
    // That of a pod is its node's.
    if let (DriverLocation::Here(_), Ok(kernel)) =
        (location, fs::read_to_string("/proc/sys/kernel/osrelease"))
    {
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
    let (log, files) = match &looked.location {
        DriverLocation::Here(process) => {
            let log = log::of(process.as_ref(), &LogLocations::default()).await;
            (log, Vec::new())
        }
        DriverLocation::Pod(Some(pod)) => pod.files().await,
        DriverLocation::Pod(None) => (Err("its pod was not found".to_owned()), Vec::new()),
    };
    let bundle = Bundle {
        page: page(&looked.findings, WIDTH),
        document: json::text(&document(&endpoint.without_credentials(), &looked.findings))?,
        log,
        files,
        secrets: looked_for(secrets.reveal().values().cloned().collect()),
    };
    if let Err(why) = &bundle.log {
        for line in why.lines() {
            say!("note: the bundle has no log of the driver: {line}");
        }
    }
    bundle.write(path).map_err(|error| {
        let path = path.display();
        match error.kind() {
            io::ErrorKind::AlreadyExists => Error::usage(format!(
                "the bundle {path} exists already: name another file"
            )),
            _ => Error::unusable(format!("the bundle {path} cannot be written"), &error),
        }
    })?;
    say!(
        "note: {} is for a bug report: read it before you send it",
        path.display()
    );
    Ok(())
}
