//! Which files alone may take a name, where a whole crate is too much.

use super::names::{Names, names};
use super::{hand_written, hold, is_in};
use std::collections::BTreeMap;

/// The rules, each in two lines. First names that are parts of paths; `in` the folders where the rule counts, `only` the files
/// and folders that may take them nevertheless, and `but` what everybody may. Then the reason.
const RULES: &str = "\
io::stdout io::Stdout stdio::stdout print! println! in src crates proto mock sys only crates/output crates/traffic/src/proxy/stdio.rs
    output alone writes to stdout, but for the relay, whose stdout carries a connection
eprint! eprintln! in src crates proto mock sys
    say! never fails: eprintln! ends the process where nobody reads stderr
ExitCode::from in src crates only crates/error
    error alone makes exit codes
process::exit process::abort .exit in src crates proto driver mock sys only driver/src/main.rs
    main returns its exit code, so that everything is dropped before the end
process::umask in src crates proto driver mock sys only driver/store/src/files/copying/tree.rs
    the umask is that of all threads, but of those that copy
rustix::ioctl .syscall in src crates proto driver mock
    system calls that no crate wraps stand in sys/
clap_complete in src crates only src/cli/completion crates/invocation/src/completion.rs
    the engine is not stable: completion alone knows it
csi_nfs in src crates only src/lib.rs crates/call/src/endpoint/inside.rs crates/invocation/src/completion.rs crates/invocation/src/connect.rs
    the client knows the driver as what is embedded: its service, its parameters, and how it mounts
maud in crates only crates/output/src/page crates/sanity/src/page.rs
    pages alone are HTML
io::stderr in crates/rpc
    an RPC's block neither prints nor connects
clap in crates/rpc/src/validation
    what is validated does not depend on the command line
crate::cli crate::tools crate::proxy crate::replay crate::serve super::super in src/tools crates/traffic/src
    no tool knows another, nor the dispatcher above them: move what two need below them
csi_sys in driver only driver/src/calls/operations.rs driver/src/mount/mountinfo.rs driver/store/src/quota
    operations give back the memory of a crowd, mountinfo is read, and quotas are asked for; no other file of the driver asks the kernel by itself
tonic csi_proto in driver/src/mount but csi_proto::lock csi_proto::random
    mounts are plain Rust and never see gRPC or its messages
csi_proto in driver/store but csi_proto::lock csi_proto::random csi_proto::SPEC_VERSION
    what is kept on a share has nothing of a call's messages
crate::share super::share in driver/store/src/files/copying driver/store/src/files/walking driver/store/src/quota
    trees are copied, limited and walked without a thought of what they are
crate::upstream super::upstream in driver/store/src/share driver/store/src/files
    what is kubernetes-csi's driver's stands behind one door, in front of the controller
";

/// What breaks the rules, and files in them without need, as sentences.
fn broken(rules: &str, files: &BTreeMap<String, Names>) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<&str> = rules.lines().collect();
    for rule in lines.chunks(2) {
        let (mut names, mut folders, mut only, mut but) = (vec![], vec![], vec![], vec![]);
        let mut list = &mut names;
        for word in rule[0].split(' ') {
            match word {
                "in" => list = &mut folders,
                "only" => list = &mut only,
                "but" => list = &mut but,
                word => list.push(word),
            }
        }
        let is = |name: &str, of: &[&str]| {
            let parts = |name: &str| format!("::{name}::");
            of.iter().any(|of| parts(name).contains(&parts(of)))
        };
        let mut spare = only.clone();
        for (path, taken) in files {
            let taken = taken
                .iter()
                .filter(|(name, _)| is(name, &names) && !is(name, &but));
            for (name, line) in taken.filter(|_| folders.iter().any(|place| is_in(path, place))) {
                spare.retain(|place| !is_in(path, place));
                if !only.iter().any(|place| is_in(path, place)) {
                    found.push(format!("{path}:{line} takes {name}: {}", rule[1].trim()));
                }
            }
        }
        let spare = spare.into_iter();
        found.extend(
            spare.map(|place| format!("{place} takes no {names:?}: remove it from the rule")),
        );
    }
    found
}

fn names_by_file() -> BTreeMap<String, Names> {
    let sources = hand_written().into_iter();
    let read = |(path, text): (String, String)| (names(&path, &text), path);
    sources
        .map(read)
        .map(|(names, path)| (path, names))
        .collect()
}

#[test]
fn files_take_only_what_they_are_for() {
    hold(&broken(RULES, &names_by_file()));
}

#[test]
fn what_breaks_a_rule_is_seen_and_a_file_without_need_too() {
    let rules = "io::stdout a in src only src/output but a::b\n    no\n";
    let seen = |files: &[(&str, &str)]| {
        let files = files.iter();
        let files = files.map(|(path, text)| ((*path).to_owned(), names(path, text)));
        broken(rules, &files.collect()).join("|")
    };
    let allowed = ("src/output/x.rs", "use std::io::stdout;");
    assert_eq!(
        seen(&[
            allowed,
            ("src/x.rs", "use a::{b, b::c};"),
            ("sys/x.rs", "io::stdout()")
        ]),
        ""
    );
    let wrong = (
        "src/x.rs",
        "\nuse std::{io::{self, stdout}, fs};\nuse a::c;",
    );
    let expected = "src/x.rs:3 takes a::c: no|src/x.rs:2 takes std::io::stdout: no";
    assert_eq!(seen(&[allowed, wrong]), expected);
    assert!(seen(&[]).starts_with("src/output takes no"));
}
