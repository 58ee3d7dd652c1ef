//! Every parser of text that comes from outside, with a corpus of seeds and of what was found, and with random changes of it.
//! A parser answers any text, in bounded time and with a bounded message, and what it accepts is safe.
//!
//! `PROPTEST_CASES=100000 cargo test -p csi-nfs --test driver parsers` looks longer.

use csi_nfs::calls::controller::NamedShare;
use csi_nfs::calls::parameters::{KNOWN, MUTABLE, OF_SNAPSHOTS, Parameters};
use csi_nfs::calls::policy::Policy;
use csi_nfs::calls::volume_id::{Location, SnapshotId, VolumeId};
use csi_nfs::mount::options::MountOptions;
use csi_nfs::process::config::{self, Endpoint, LocalShare};
#[cfg(feature = "upstream")]
use csi_nfs::upstream::ids::{UpstreamSnapshotId, UpstreamVolumeId};
use csi_nfs_store::export::Export;
use csi_nfs_store::share::paths::sub_path::{SubPath, encode_name};
use csi_nfs_store::share::token::{NameKey, Nonce, ShareUuid};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The strings of a corpus.
fn corpus(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let strings: Vec<String> = lines.collect();
    assert!(strings.len() > 30, "the corpus is not there");
    strings
}

fn ids() -> Vec<String> {
    corpus(include_str!("../corpus/ids.jsonl"))
}

fn sub_paths() -> Vec<String> {
    corpus(include_str!("../corpus/sub-paths.jsonl"))
}

fn options() -> Vec<String> {
    corpus(include_str!("../corpus/options.jsonl"))
}

fn addresses() -> Vec<String> {
    corpus(include_str!("../corpus/addresses.jsonl"))
}

fn parameters() -> Vec<String> {
    corpus(include_str!("../corpus/parameters.jsonl"))
}

/// Two strings of a corpus, cut and joined, with something else between them or in the place of a letter.
fn changed(seeds: Vec<String>) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(String::new()),
        "[#@/.%,=:\\[\\]{}$-]{1,3}",
        "[\\x00-\\x1f\\x7f]",
        "\\PC{1,4}",
        Just("../".to_owned()),
        Just("\u{0}".to_owned()),
    ];
    let one = prop::sample::select(seeds);
    let cut = any::<prop::sample::Index>();
    (one.clone(), one, cut.clone(), cut, piece).prop_map(|(first, second, head, tail, piece)| {
        let cut = |text: &str, at: &prop::sample::Index| {
            let mut at = at.index(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (head, tail) = (cut(&first, &head), cut(&second, &tail));
        format!("{}{piece}{}", &first[..head], &second[tail..])
    })
}

fn bounded<T, E: Display>(text: &str, result: Result<T, E>) -> Option<T> {
    match result {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            let message = error.to_string();
            // Control characters may take six characters each, when they are shown.
            let most = 600 + 6 * text.len().min(4096);
            assert!(
                message.len() <= most,
                "{} bytes for {}",
                message.len(),
                text.len()
            );
            assert!(!message.chars().any(char::is_control), "{message:?}");
            None
        }
    }
}

fn safe(path: &SubPath) {
    assert!(!path.components().is_empty());
    for component in path.components() {
        assert!(!matches!(component.as_str(), "" | "." | ".."), "{path}");
        assert!(!component.contains('/') && component.len() <= 255, "{path}");
        assert!(!component.chars().any(char::is_control), "{path:?}");
        assert!(!component.eq_ignore_ascii_case(".csi-nfs"), "{path}");
    }
    assert_eq!(SubPath::parse(&path.to_string()).as_ref(), Ok(path));
}

fn safe_export(export: &Export) {
    let path = export.path();
    assert!(
        path.starts_with('/') && !path.chars().any(char::is_control),
        "{path:?}"
    );
    let mut parts = path.split('/').skip(1);
    assert!(
        path == "/" || parts.all(|part| !matches!(part, "" | "." | "..")),
        "{path}"
    );
    let server = export.server();
    assert!(
        !server.is_empty() && !server.contains(['/', ' ', ',']),
        "{server:?}"
    );
    assert_eq!(&Export::parse(server, path).unwrap(), export);
}

fn try_id(text: &str) {
    let location = |location: &Location| match location {
        Location::Export(export) => safe_export(export),
        Location::Named(name) => assert!(!name.contains(['/', '.']) || !name.starts_with('.')),
    };
    let volume = bounded(text, text.parse::<VolumeId>());
    let snapshot = bounded(text, text.parse::<SnapshotId>());
    assert!(volume.is_none() || snapshot.is_none(), "{text:?} is both");
    if let Some(id) = volume {
        location(&id.location);
        assert_eq!(id.to_string(), text);
        assert!(text.len() <= 128);
    }
    if let Some(id) = snapshot {
        location(&id.location);
        assert_eq!(id.to_string(), text);
        assert!(text.len() <= 128);
    }
    #[cfg(feature = "upstream")]
    if let Some(id) = bounded(text, UpstreamVolumeId::parse(text)) {
        safe_export(&id.export);
        safe(&id.path);
        assert_eq!(id.text, text);
        assert!(!text.contains("..") || !text.split(['#', '/']).any(|part| part == ".."));
    }
    #[cfg(feature = "upstream")]
    if let Some(id) = bounded(text, UpstreamSnapshotId::parse(text)) {
        safe_export(&id.export);
        safe(&id.folder);
        safe(&id.archive);
        assert_eq!(id.folder.components().len(), 1);
        assert!(
            id.archives()
                .iter()
                .all(|name| name.len() <= 255 && !name.contains('/'))
        );
    }
    bounded(text, text.parse::<ShareUuid>());
    bounded(text, text.parse::<NameKey>());
    bounded(text, text.parse::<Nonce>());
}

fn try_sub_path(text: &str) {
    if let Some(path) = bounded(text, SubPath::parse(text)) {
        safe(&path);
    }
    if !text.is_empty() {
        let name = encode_name(text);
        assert!(name.len() <= 200, "{name}");
        let path = SubPath::parse(&name).unwrap();
        safe(&path);
        assert_eq!(path.components().len(), 1);
    }
}

/// How long this thread has computed so far, which a busy machine does not change, in hundredths of a second.
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = |at: usize| fields.split(' ').nth(at).unwrap().parse::<u64>().unwrap();
    // utime and stime.
    ticks(12) + ticks(13)
}

/// Stands in the values, which no message may tell: they may come out of a secret.
const SECRET: &str = "hunter2";

fn try_options(text: &str) {
    for policy in [
        Policy::default(),
        Policy {
            allowed_options: vec!["hard".to_owned(), "vers".to_owned()],
            ..Policy::default()
        },
        Policy {
            denied_options: vec!["suid".to_owned(), "proto".to_owned()],
            ..Policy::default()
        },
    ] {
        let Some(parsed) = bounded(text, MountOptions::parse([text], &policy)) else {
            continue;
        };
        assert!(!parsed.versions.is_empty());
        for (name, value) in &parsed.nfs {
            for reserved in ["addr", "mountaddr", "clientaddr", "source", "context"] {
                assert_ne!(name, reserved, "{text:?}");
            }
            assert!(policy.allows_option(name), "{text:?}");
            let value = value.as_deref().unwrap_or("x");
            assert!(!name.contains([',', '=', ' ']) && !value.contains([',', ' ', '\\', '"']));
            assert!(!name.is_empty() && !value.chars().any(char::is_control));
        }
    }
    // Every value replaced by one that must not be told.
    let words = text.split(',').map(|word| match word.split_once('=') {
        Some((name, value)) => format!("{name}={SECRET}{value}"),
        None => word.to_owned(),
    });
    let secret = words.collect::<Vec<_>>().join(",");
    if let Err(error) = MountOptions::parse([secret.as_str()], &Policy::default()) {
        let told = format!("{error} {error:?}");
        assert!(!told.contains(SECRET), "{secret:?}: {told}");
    }
}

fn try_address(text: &str) {
    if let Some(share) = bounded(text, text.parse::<NamedShare>()) {
        safe_export(&share.export);
    }
    if let Some(share) = bounded(text, text.parse::<LocalShare>()) {
        safe_export(&share.export);
        assert!(share.path.is_absolute());
    }
    if let Some((server, path)) = text.rsplit_once(':')
        && let Some(export) = bounded(text, Export::parse(server, path))
    {
        safe_export(&export);
    }
    if let Some(Endpoint::Tcp(address)) = bounded(text, text.parse()) {
        assert!(address.ip().is_loopback());
    }
    bounded(text, config::parse_bound(text));
    bounded(text, config::parse_driver_name(text));
    bounded(text, config::parse_node_id(text));
    bounded(text, config::parse_option_name(text));
    bounded(text, config::parse_switch(text));
    bounded(text, config::parse_on_delete(text));
    if let Some(mode) = bounded(text, config::parse_socket_mode(text)) {
        assert!(mode <= 0o777);
    }
}

fn try_parameters(pairs: &BTreeMap<String, String>) {
    let whole: String = pairs
        .iter()
        .flat_map(|(key, value)| [&**key, &**value])
        .collect();
    for known in [&KNOWN[..], &MUTABLE[..], &OF_SNAPSHOTS[..]] {
        let Some(parsed) = bounded(&whole, Parameters::parse_known(pairs, known)) else {
            continue;
        };
        if let Some(path) = &parsed.sub_dir {
            safe(path);
        }
        assert!(parsed.mode.is_none_or(|mode| mode > 0 && mode <= 0o7777));
        assert!(parsed.uid != Some(u32::MAX) && parsed.gid != Some(u32::MAX));
        assert!(
            parsed
                .mount_options
                .iter()
                .all(|option| !option.contains(','))
        );
    }
}

#[test]
fn the_corpus_is_answered() {
    ids().iter().for_each(|text| try_id(text));
    sub_paths().iter().for_each(|text| try_sub_path(text));
    options().iter().for_each(|text| try_options(text));
    addresses().iter().for_each(|text| try_address(text));
    // All of it is text, and whoever sends it may send it anywhere.
    for text in [ids(), sub_paths(), options(), addresses(), parameters()].concat() {
        try_id(&text);
        try_sub_path(&text);
        try_options(&text);
        try_address(&text);
        for key in KNOWN {
            try_parameters(&BTreeMap::from([(key.to_owned(), text.clone())]));
        }
        try_parameters(&BTreeMap::from([(text.clone(), "x".to_owned())]));
        let template = ("subDir".to_owned(), "a/${pvc.metadata.name}".to_owned());
        let value = ("csi.storage.k8s.io/pvc/name".to_owned(), text);
        try_parameters(&BTreeMap::from([template, value]));
    }
}

#[test]
fn the_work_grows_with_the_length_and_no_faster() {
    let (part, whole) = (work(1 << 16), work(1 << 19));
    // Eight times as much, and 64 times if any of it were quadratic.
    assert!(whole < 30 * part, "{part} and {whole} ticks");
}

/// What texts of that many bytes cost, in the processor's ticks.
fn work(length: usize) -> u64 {
    let began = processor_ticks();
    for unit in [
        "a",
        "/",
        "a/",
        "../",
        "#",
        "@",
        ".",
        ",",
        "=",
        "a=b,",
        "\0",
        "é",
        "${",
        "${pvc.metadata.name}",
        "[",
        ":",
        "1h",
    ] {
        let text = unit.repeat(length / unit.len());
        try_id(&text);
        try_sub_path(&text);
        try_options(&text);
        for of in [
            text.parse::<NamedShare>().map(drop),
            text.parse::<LocalShare>().map(drop),
            config::parse_bound(&text).map(drop),
        ] {
            assert!(of.is_err() || unit == "a");
        }
        let _ = Parameters::parse(&BTreeMap::from([("subDir".to_owned(), text)]));
    }
    processor_ticks() - began
}

proptest! {
    #[test]
    fn any_id_is_answered(text in changed(ids())) {
        try_id(&text);
    }

    #[test]
    fn any_sub_path_is_answered(text in changed(sub_paths())) {
        try_sub_path(&text);
    }

    #[test]
    fn any_options_are_answered(text in changed(options())) {
        try_options(&text);
    }

    #[test]
    fn any_address_is_answered(text in changed(addresses())) {
        try_address(&text);
    }

    #[test]
    fn any_parameters_are_answered(
        pairs in prop::collection::btree_map(
            prop_oneof![
                prop::sample::select(&KNOWN[..]).prop_map(str::to_owned),
                prop::sample::select(&KNOWN[..]).prop_map(str::to_uppercase),
                Just("csi.storage.k8s.io/pvc/name".to_owned()),
                Just("csi.storage.k8s.io/pv/name".to_owned()),
                changed(parameters()),
            ],
            prop_oneof![changed(parameters()), changed(sub_paths())],
            0..6,
        ),
    ) {
        try_parameters(&pairs);
    }

    #[test]
    fn any_text_at_all_is_answered(text in any::<String>()) {
        try_id(&text);
        try_sub_path(&text);
        try_options(&text);
        try_address(&text);
    }
}
