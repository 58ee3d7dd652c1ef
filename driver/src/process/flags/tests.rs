//! Tests of the command line: lists, variables, and flags that have an effect only beside others.

use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_well_formed() {
    Flags::command().debug_assert();
}

#[test]
fn lists_may_end_with_a_separator() {
    let line = [
        "x",
        "--endpoint",
        "/x",
        "--share",
        "a=nas:/a\nb=nas:/b\n",
        "--allow-server",
        "nas, b,",
    ];
    let (_, config, _) = Flags::parse_from(line).resolve().unwrap();
    assert_eq!(config.shares.len(), 2);
    assert_eq!(config.policy.servers, ["nas", "b"]);
    let error = |flag: &str, value: &str| {
        let line = ["x", "--endpoint", "/x", flag, value];
        Flags::parse_from(line).resolve().map(drop).unwrap_err()
    };
    assert!(matches!(
        error("--local-share", "nas:/a=b"),
        ConfigError::Value(..)
    ));
    for (flag, twice) in [
        ("--share", "a=nas:/a\na=nas:/b"),
        ("--local-share", "nas:/a=/x\nnas:a/=/y"),
    ] {
        assert!(matches!(error(flag, twice), ConfigError::Twice(..)));
    }
    // A list that is empty by mistake must not allow everything, or quietly nothing.
    for (flag, would) in [
        ("--allow-server", ALLOW_ALL),
        ("--allow-mount-option", ALLOW_ALL),
        ("--deny-mount-option", "deny nothing"),
        ("--inline-mount-option", ALLOW_NOTHING),
    ] {
        for empty in [" ,", "", ","] {
            assert_eq!(error(flag, empty), ConfigError::EmptyList(flag, would));
        }
    }
    let empty = ConfigError::EmptyList("--inline-share", ALLOW_NOTHING);
    assert_eq!(error("--inline-share", "\n"), empty);
    assert!(matches!(
        error("--inline-share", "nas"),
        ConfigError::Value(..)
    ));
    for flag in [
        "--allow-mount-option",
        "--deny-mount-option",
        "--inline-mount-option",
    ] {
        let line = "x --endpoint /x --inline-share nas:/srv".split(' ');
        let flags = Flags::parse_from(line.chain([flag, "vers=3"]));
        let error = flags.resolve().map(drop).unwrap_err();
        assert!(matches!(error, ConfigError::Value(..)), "{error}");
    }
}

#[test]
fn a_list_has_nothing_that_no_request_can_name() {
    let policy = |words: &str| {
        let line = "x --endpoint /x --inline-share nas:/srv".split(' ');
        let flags = Flags::parse_from(line.chain(words.split(' ')));
        flags.resolve().map(|(_, config, _)| config.policy)
    };
    for wrong in [
        "--deny-mount-option SUID",
        "--deny-mount-option siud",
        "--allow-mount-option Vers",
        "--inline-mount-option tpc",
        "--allow-server *",
        "--allow-server *.",
        "--allow-server *.*.example.org",
        "--allow-server .example.org",
        "--allow-server nas:2049",
        "--allow-server *.fe80::1",
        "--allow-server [fe80::1",
        "--allow-server nas/srv",
    ] {
        let error = policy(wrong).unwrap_err();
        assert!(matches!(error, ConfigError::Value(..)), "{wrong}: {error}");
    }
    for right in [
        "--deny-mount-option suid,v4.1,addr,smackfsroot,x-word",
        "--allow-mount-option newer --deny-mount-option newer",
        "--allow-mount-option newer --inline-mount-option newer",
        "--allow-server NAS,*.example.org,10.0.0.4,fe80::1%eth0,[fe80::1]",
    ] {
        policy(right).unwrap();
    }
}

#[test]
fn calls_and_http_are_served_in_two_places() {
    for (endpoint, http, is_one) in [
        ("unix:///x/a.sock", "unix:///x/a.sock", true),
        ("/x/a.sock", "unix:/x/a.sock", true),
        ("tcp://127.0.0.1:1", "127.0.0.1:1", true),
        ("/x/a.sock", "unix:///x/b.sock", false),
        ("tcp://127.0.0.1:1", "127.0.0.1:2", false),
        ("tcp://127.0.0.1:0", "127.0.0.1:0", false),
    ] {
        let line = ["x", "--endpoint", endpoint, "--http", http];
        let error = Flags::parse_from(line).resolve().err();
        let is_told = matches!(error, Some(ConfigError::OnePlace(_)));
        assert_eq!(is_told, is_one, "{endpoint} {http}: {error:?}");
    }
}

#[test]
fn which_flags_have_an_effect_beside_which_others() {
    let from = "--migrate-from csi-driver-nfs";
    let (on_delete, permissions) = ("--default-ondelete-policy retain", "--mount-permissions 0");
    let (share, option) = ("--inline-share nas:/srv", "--inline-mount-option vers");
    let (stats, unmount, mode) = ("--stats-timeout", "--unmount-timeout", "--socket-mode");
    let (policy, inline) = ("--default-ondelete-policy", "--inline-mount-option");
    for (words, expected) in [
        (format!("--mode controller {on_delete} {permissions}"), ""),
        (format!("--mode all {on_delete} {permissions}"), ""),
        ("--mode node".to_owned(), ""),
        (format!("--mode node {permissions}"), "--mount-permissions"),
        (format!("--mode node {from} {permissions}"), ""),
        (format!("--mode node {on_delete}"), policy),
        (
            format!("--mode node {from} {on_delete} {permissions}"),
            policy,
        ),
        ("--mode controller".to_owned(), ""),
        (format!("--mode controller {share}"), ""),
        (format!("--mode controller {option}"), inline),
        (format!("--mode controller {share} {option}"), inline),
        (format!("--mode controller {from} {share}"), ""),
        (format!("--mode node {option}"), inline),
        ("--mode controller --stage".to_owned(), "--stage"),
        ("--mode node --stage".to_owned(), ""),
        ("--stage".to_owned(), ""),
        // Its own default, too.
        (format!("--mode controller {stats} 5s"), stats),
        (format!("--mode controller {unmount} 1m"), unmount),
        (
            "--mode controller --mount-timeout 1m --drain-timeout 1m".to_owned(),
            "",
        ),
        (format!("--mode node {stats} 5s {unmount} 1m"), ""),
        ("--socket-mode 0600".to_owned(), ""),
        (format!("--endpoint tcp://127.0.0.1:1 {mode} 0660"), mode),
        (format!("--mode node {share} {option}"), ""),
        (format!("--mode all {share} {option}"), ""),
        ("--mode controller --measure 1h".to_owned(), ""),
        ("--mode all --measure 1h".to_owned(), ""),
        ("--mode node --measure 1h".to_owned(), "--measure"),
    ] {
        if cfg!(not(feature = "upstream")) && words.contains(from) {
            continue;
        }
        let endpoint = match words.contains("--endpoint") {
            true => "",
            false => "--endpoint /x ",
        };
        let line = format!("x {endpoint}{words}");
        let flags = Flags::parse_from(line.split(' '));
        let refused = flags.without_effect().map_or("", |(flag, _)| flag);
        assert_eq!(refused, expected, "{words}");
    }
}

#[test]
fn what_has_no_effect_is_refused() {
    let resolve = |words: &str| {
        let line = ["x", "--endpoint", "/x"];
        let line = line.into_iter().chain(words.split(' '));
        Flags::try_parse_from(line)
            .unwrap()
            .resolve()
            .map(|(_, config, _)| config)
    };
    let is_without_effect = |words: &str, flag: &str| match resolve(words) {
        Err(error @ ConfigError::NoEffect(named, _)) => {
            assert_eq!(named, flag);
            assert!(error.to_string().contains("leave it out"), "{error}");
        }
        other => panic!("{words}: {other:?}"),
    };
    is_without_effect(
        "--mode controller --inline-mount-option vers",
        "--inline-mount-option",
    );
    for mode in ["controller", "node", "all"] {
        let config = resolve(&format!("--mode {mode} --inline-share nas:/srv")).unwrap();
        assert_eq!(config.policy.inline_shares.len(), 1);
    }
    let local = "--local-share nas:/srv=/srv";
    for words in [
        "--mode controller".to_owned(),
        format!("--mode node {local}"),
        format!("--mode all {local}"),
        local.to_owned(),
    ] {
        assert!(!resolve(&words).unwrap().quotas);
        is_without_effect(&format!("{words} --quotas"), "--quotas");
    }
    let words = format!("--mode controller {local} --quotas");
    assert!(resolve(&words).unwrap().quotas);
    if !cfg!(feature = "upstream") {
        is_without_effect("--migrate-from csi-driver-nfs", "--migrate-from");
    }
}

#[test]
fn volumes_may_be_kept_unless_their_class_says_otherwise() {
    let resolve = |words: &str| {
        let line = ["x", "--endpoint", "/x"];
        let line = line.into_iter().chain(words.split_whitespace());
        let flags = Flags::try_parse_from(line);
        flags.map(|flags| flags.resolve().unwrap().1.defaults)
    };
    for (words, on_delete, mode) in [
        ("", OnDelete::Delete, None),
        ("--default-ondelete-policy retain", OnDelete::Retain, None),
        ("--default-ondelete-policy Archive", OnDelete::Archive, None),
        // As it was called. A node was given it too.
        ("--migrate-on-delete retain", OnDelete::Retain, None),
        (
            "--migrate-on-delete retain --mode node",
            OnDelete::Retain,
            None,
        ),
        ("--mount-permissions 0777", OnDelete::Delete, Some(0o777)),
        ("--mount-permissions 0", OnDelete::Delete, None),
    ] {
        assert_eq!(resolve(words).unwrap(), Defaults { on_delete, mode });
    }
    for wrong in [
        "--default-ondelete-policy keep",
        "--mount-permissions rwx",
        "--mount-permissions 0888",
        // Which of them would count?
        "--default-ondelete-policy delete --migrate-on-delete retain",
    ] {
        assert!(resolve(wrong).is_err(), "{wrong}");
    }
}

/// Flags that have an effect beside all others. Controllers mount too, and make no volumes where inline ones may be.
const ALWAYS: [&str; 16] = [
    "--endpoint",
    "--mode",
    "--driver-name",
    "--node-id",
    "--work-dir",
    "--http",
    "--share",
    "--local-share",
    "--allow-server",
    "--allow-mount-option",
    "--deny-mount-option",
    "--inline-share",
    "--mount-timeout",
    "--drain-timeout",
    "--log-format",
    "--log-level",
];

#[test]
fn of_every_flag_it_is_known_when_it_has_an_effect() {
    let flags = Flags::parse_from(["x", "--endpoint", "/x"]);
    let mut known = flags.effects().map(|(flag, ..)| flag.to_owned()).to_vec();
    known.extend(ALWAYS.map(str::to_owned));
    let command = Flags::command();
    let shown = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version"));
    let mut all: Vec<_> = shown
        .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
        .collect();
    known.sort();
    all.sort();
    assert_eq!(known, all);
}

#[test]
fn every_flag_has_a_variable() {
    let command = Flags::command();
    for arg in command.get_arguments() {
        let builtin = matches!(arg.get_id().as_str(), "help" | "version");
        assert!(builtin || arg.get_env().is_some(), "{}", arg.get_id());
    }
}

fn kubelet(line: &str) -> Result<Option<Kubelet>, ConfigError> {
    let flags = Flags::parse_from(line.split(' '));
    flags.resolve().map(|(serving, ..)| serving.kubelet)
}

#[test]
fn the_kubelet_is_told_the_path_that_it_sees() {
    let told = |line: &str| kubelet(line).unwrap().map(|kubelet| kubelet.endpoint);
    assert_eq!(told("x --endpoint /csi/csi.sock --mode node"), None);
    let own = "x --endpoint unix:///csi/csi.sock --mode node --kubelet-registration /r";
    assert_eq!(told(own), Some("/csi/csi.sock".into()));
    let other = format!("{own} --kubelet-endpoint /var/lib/kubelet/plugins/n/csi.sock");
    let seen = "/var/lib/kubelet/plugins/n/csi.sock";
    assert_eq!(told(&other), Some(seen.into()));
    let relative = told("x --endpoint unix:csi.sock --kubelet-registration /r").unwrap();
    assert!(relative.is_absolute() && relative.ends_with("csi.sock"));
}

#[test]
fn a_registration_that_would_have_no_effect_is_refused() {
    for (line, flag) in [
        (
            "x --endpoint /x --kubelet-endpoint /y",
            "--kubelet-endpoint",
        ),
        (
            "x --endpoint /x --mode controller --kubelet-registration /r",
            "--kubelet-registration",
        ),
        (
            "x --endpoint tcp://127.0.0.1:1 --kubelet-registration /r",
            "--kubelet-registration",
        ),
    ] {
        match kubelet(line) {
            Err(ConfigError::NoEffect(named, _)) => assert_eq!(named, flag, "{line}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}
