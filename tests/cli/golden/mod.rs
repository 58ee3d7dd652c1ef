//! What a person and a driver see of every RPC: for each a file in `tests/golden` with the request as the driver received
//! it, the reply in every output format, and an error. `tests/generate` writes the files anew.

mod controller;
mod group_controller;
mod identity;
mod node;
mod snapshot_metadata;
mod snapshots;

use crate::support::difference;
use crate::support::program::{Csi, Output};
use crate::support::scripted::{Reply, Request, ScriptedDriver};
use prost_types::Timestamp;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};
use tonic::Code;

/// One RPC, its command line and what the driver does with it.
struct Case {
    rpc: &'static str,
    /// The arguments of `csi`: group, verb and the rest.
    line: &'static str,
    /// The answer.
    reply: Reply,
    /// The other answer.
    error: (Code, &'static str),
}

/// A value that no output may show; every case sends it where the request has secrets.
const SECRET: &str = "hunter2";

/// Declares a test for every case, and the list of their RPCs.
macro_rules! goldens {
    ($($name:ident: $line:literal, $reply:expr, $code:ident $message:literal;)*) => {
        /// The RPCs that have a golden file here, in snake case.
        pub const RPCS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                $crate::golden::check($crate::golden::Case {
                    rpc: $crate::golden::rpc_name(stringify!($name)),
                    line: $line,
                    reply: $reply,
                    error: (tonic::Code::$code, $message),
                });
            }
        )*
    };
}
use goldens;

/// The RPC whose name in snake case is `name`.
fn rpc_name(name: &str) -> &'static str {
    let camel: String = name
        .split('_')
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect();
    let method = csi_proto::methods::by_name(&camel);
    method.unwrap_or_else(|| panic!("{camel} is no RPC")).name
}

fn check(case: Case) {
    let driver = ScriptedDriver::unix();
    let csi = Csi::at(driver.endpoint()).env("X_CSI_SECRETS", format!("password={SECRET}"));
    let csc = Csi::at(driver.endpoint())
        .env("X_CSI_SECRETS", format!("password={SECRET}"))
        .called("csc");
    driver.on(case.rpc, case.reply.clone());

    let line = case.line;
    let table = csi.run(line);
    let request = driver.requests().into_iter().next();
    let request = request.unwrap_or_else(|| panic!("nothing was sent\n{table}"));
    let method = request.method();
    assert_eq!(method.name, case.rpc, "\n{table}");
    let wants_secrets = method.request.fields.iter().any(|field| field.secret);
    let secret_arrived = String::from_utf8_lossy(&request.message).contains(SECRET);
    assert_eq!(wants_secrets, secret_arrived, "secrets of {}", case.rpc);

    // The long line stands in the file once.
    let shown = |output: Output| output.to_string().replace(line, "…");
    let mut golden = format!("# {}\n\n{table}\n", case.rpc);
    let _ = writeln!(
        golden,
        "# the request, as the driver received it\n{}\n",
        pretty(&request)
    );
    for format in ["wide", "records", "csv", "json", "jsonl", "yaml", "name"] {
        let _ = writeln!(golden, "{}", shown(csi.run(&format!("{line} -o {format}"))));
        let latest = driver.requests().pop().unwrap();
        assert_eq!(
            latest.message, request.message,
            "-o {format} changed the request"
        );
    }
    let _ = writeln!(golden, "{}", shown(csc.run(line)));
    let of_csc = driver.requests().pop().unwrap();
    if of_csc.message != request.message {
        let _ = writeln!(golden, "# the request of csc\n{}\n", pretty(&of_csc));
    }

    let (code, message) = case.error;
    driver.on(case.rpc, Reply::error(code, message));
    let _ = writeln!(golden, "# an error\n\n{}", shown(csi.run(line)));
    let _ = writeln!(golden, "{}", shown(csi.run(&format!("{line} -o json"))));
    let _ = write!(golden, "{}", shown(csc.run(line)));
    assert!(!golden.contains(SECRET), "a secret is shown:\n{golden}");

    let mut words = line.split(' ');
    let (group, verb) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    compare(
        &folder().join(format!("{group}.{verb}.txt")),
        &timeless(&golden),
    );
}

fn pretty(request: &Request) -> String {
    serde_json::to_string_pretty(&request.json()).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Compares with the file; with `UPDATE_GOLDEN` set, writes it instead.
fn compare(path: &Path, actual: &str) {
    if updating() {
        std::fs::create_dir_all(folder()).unwrap();
        std::fs::write(path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected != actual {
        panic!(
            "{} differs; tests/generate accepts what is printed now\n{}",
            path.display(),
            difference(&expected, actual)
        );
    }
}

/// A moment whose age is always the same, three days. Only in this process is it one moment.
fn three_days_ago() -> Timestamp {
    static MOMENT: OnceLock<i64> = OnceLock::new();
    let seconds = MOMENT.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        // A minute more, so that no rounding makes it two days.
        i64::try_from(now.as_secs()).unwrap() - 3 * 24 * 60 * 60 - 60
    });
    Timestamp {
        seconds: *seconds,
        nanos: 0,
    }
}

/// The text with that moment replaced by words of the same width.
fn timeless(text: &str) -> String {
    let moment = three_days_ago();
    text.replace(&moment.to_string(), "<three-days-ago-UTC>")
        .replace(&moment.seconds.to_string(), "<seconds>")
}

#[test]
fn every_rpc_has_a_golden_file() {
    if updating() {
        return; // The files are being written right now, and an RPC may be new.
    }
    let covered: BTreeSet<&str> = [
        identity::RPCS,
        controller::RPCS,
        snapshots::RPCS,
        group_controller::RPCS,
        snapshot_metadata::RPCS,
        node::RPCS,
    ]
    .concat()
    .into_iter()
    .map(rpc_name)
    .collect();
    let methods: BTreeSet<&str> = csi_proto::tables::METHODS
        .iter()
        .map(|method| method.name)
        .collect();
    let missing: Vec<_> = methods.difference(&covered).collect();
    assert!(
        missing.is_empty(),
        "add scripted replies to tests/cli/golden/, and run tests/generate: {missing:?}"
    );
    let files = std::fs::read_dir(folder()).unwrap().count();
    assert_eq!(files, methods.len(), "files in {}", folder().display());
}
