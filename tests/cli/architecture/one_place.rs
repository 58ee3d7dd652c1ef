//! An RPC is declared in one place, its block in `crates/rpc/`; others name it only when it is their subject.

use super::names::names;
use super::{Sources, hand_written, hold, is_in};
use csi_proto::schema::Method;
use csi_proto::tables::METHODS;
use std::collections::BTreeMap;

/// Where the blocks are.
const BLOCKS: &str = "crates/rpc";

/// The files and folders whose subject RPCs are: each line a reason, then where it holds.
const SUBJECTS: &str = "\
a group whose RPCs have files of their own, flags of several: crates/rpc/src/controller.rs crates/rpc/src/flags.rs
what a driver is and has, or whether it answers: crates/call/src/wait.rs crates/call/src/advertised.rs crates/invocation/src/live_ids.rs crates/shell/src/connections.rs
a case of sanity, or what it begins with: crates/sanity/src
a load, or a step of a tool: crates/bench/src/scenario.rs crates/traffic/src/replay/compare.rs src/tools
help, or an example: crates/bench/src/tree.rs crates/invocation/src/volume_flags.rs crates/shell/src/builtins.rs crates/shell/src/describe.rs crates/shell/src/lib.rs crates/shell/src/line.rs crates/traffic/src/proxy/command.rs crates/undo/src/left.rs proto/src/faults.rs src/cli/tree.rs
a driver's service: driver/src/calls driver/store/src/share/volume/create.rs mock/src
";

/// The words of each file's code, with the line of the first occurrence.
fn words(sources: &Sources) -> BTreeMap<&str, BTreeMap<String, usize>> {
    let mut files = BTreeMap::new();
    for (path, text) in sources {
        let words: &mut BTreeMap<_, _> = files.entry(&**path).or_default();
        for (name, line) in names(path, text) {
            for word in name.split("::") {
                let first = words
                    .entry(word.trim_start_matches('"').to_owned())
                    .or_insert(line);
                *first = line.min(*first);
            }
        }
    }
    files
}

/// The words that mean an RPC: its name, its messages, its constants among the tables, its name in kebab case.
fn names_of(method: &Method) -> Vec<String> {
    let snake = method.kebab_name.replace('-', "_");
    let capitals = snake.to_uppercase();
    let service = method.service.chars();
    let service = service.flat_map(|letter| {
        let gap = letter.is_uppercase().then_some('_');
        gap.into_iter().chain(letter.to_uppercase())
    });
    let service = service.skip(1).collect::<String>();
    let mut names = vec![method.name.to_owned(), format!("{service}_{capitals}")];
    names.extend(["Request", "Response"].map(|end| format!("{}{end}", method.name)));
    names.extend(["_REQUEST", "_RESPONSE"].map(|end| format!("{capitals}{end}")));
    names.extend(["_request", "_response"].map(|end| format!("{snake}{end}")));
    // One word alone may be any word.
    names.extend(
        method
            .kebab_name
            .contains('-')
            .then(|| method.kebab_name.to_owned()),
    );
    names
}

/// What is wrong: files that name an RPC without a reason, RPCs without one block, and files in `subjects` that name none.
fn misplaced(methods: &[&Method], sources: &Sources, subjects: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let places = subjects.lines().filter_map(|line| line.split_once(": "));
    let places: Vec<&str> = places.flat_map(|(_, places)| places.split(' ')).collect();
    let mut spare = places.clone();
    let files = words(sources);
    for method in methods {
        let block = format!("impl Declare for v1::{}Request", method.name);
        let is_block = |path: &str| is_in(path, BLOCKS) && sources[path].contains(&block);
        let blocks = files.keys().filter(|path| is_block(path)).count();
        if blocks != 1 {
            let text = format!(
                "{} has {blocks} blocks below {BLOCKS} instead of one",
                method.name
            );
            broken.push(text);
        }
        let names = names_of(method);
        for (path, words) in files.iter().filter(|(path, _)| !is_block(path)) {
            let names = names.iter();
            let named = names.filter_map(|name| Some((*words.get(name)?, name)));
            let Some((line, word)) = named.min() else {
                continue;
            };
            spare.retain(|place| !is_in(path, place));
            if !places.iter().any(|place| is_in(path, place)) {
                broken.push(format!(
                    "{path}:{line} names {} ({word}), which its block below {BLOCKS} declares: take what you need from \
                     there, or add the file, when the RPC is its subject, to the list with its reason",
                    method.name
                ));
            }
        }
    }
    let spare = spare.into_iter();
    broken.extend(spare.map(|place| format!("{place} names no RPC: remove it from the list")));
    broken
}

#[test]
fn an_rpc_is_named_in_its_own_block_and_by_those_whose_subject_it_is() {
    hold(&misplaced(METHODS, &hand_written(), SUBJECTS));
}

#[test]
fn a_place_that_names_an_rpc_without_a_reason_is_seen() {
    let methods = METHODS.iter().copied();
    let methods: Vec<_> = methods
        .filter(|method| method.name == "CreateVolume")
        .collect();
    let seeded = |code: &str, subjects: &str| {
        let block = "impl Declare for v1::CreateVolumeRequest {}";
        let sources = [("crates/rpc/src/volumes.rs", block), ("src/other.rs", code)];
        let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned()));
        misplaced(&methods, &Sources::from(sources), subjects)
    };
    for code in [
        "use csi_proto::v1::CreateVolumeRequest;",
        "use csi_proto::v1::create_volume_request::X;",
        "fn f() { &tables::CONTROLLER_CREATE_VOLUME; }",
        "fn f() { vec![\"/csi.v1.Controller/CreateVolume\"]; }",
        "const HELP: &str = \"csi controller create-volume pvc-1\";",
    ] {
        let broken = seeded(&format!("\n{code}"), "");
        assert_eq!(broken.len(), 1, "{code}: {broken:?}");
        assert!(
            broken[0].starts_with("src/other.rs:2 names CreateVolume ("),
            "{broken:?}"
        );
        assert_eq!(seeded(code, "why: src/other.rs"), [""; 0], "{code}");
    }
    let code = "fn probe() { create_volume(); }";
    assert_eq!(seeded(code, ""), [""; 0]);
    assert_eq!(seeded(code, "why: src/other.rs").len(), 1);
}
