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
        ConfigError::LocalShare(_)
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
        ConfigError::Folder(_)
    ));
    for flag in [
        "--allow-mount-option",
        "--deny-mount-option",
        "--inline-mount-option",
    ] {
        assert!(matches!(error(flag, "vers=3"), ConfigError::OptionName(_)));
    }
}

#[test]
fn which_flags_have_an_effect_beside_which_others() {
    let no_effect = |result: Result<(), ConfigError>| match result {
        Ok(()) => None,
        Err(ConfigError::NoEffect(flag, _)) => Some(flag),
        Err(other) => panic!("{other}"),
    };
    let from = Some(UpstreamFlag::CsiDriverNfs);
    let (retain, delete) = (Some(OnDelete::Retain), Some(OnDelete::Delete));
    for (from, on_delete, is_built_in, refused, decided) in [
        (None, None, true, None, None),
        (None, None, false, None, None),
        (from, None, true, None, delete),
        (from, retain, true, None, retain),
        (from, None, false, Some("--migrate-from"), None),
        (None, retain, true, Some("--migrate-on-delete"), None),
        (None, delete, false, Some("--migrate-on-delete"), None),
    ] {
        let row = format!("{from:?} {on_delete:?} {is_built_in}");
        let found = decide_upstream(from, on_delete, is_built_in);
        let policy = found.as_ref().ok().and_then(|upstream| *upstream);
        assert_eq!(policy.map(|upstream| upstream.on_delete), decided, "{row}");
        assert_eq!(no_effect(found.map(drop)), refused, "{row}");
    }
    for (mode, serves_upstream, given, refused) in [
        (Mode::Controller, false, [false, false], None),
        (Mode::Controller, false, [true, false], Some("a")),
        (Mode::Controller, false, [false, true], Some("b")),
        (Mode::Controller, false, [true, true], Some("a")),
        (Mode::Controller, true, [true, true], None),
        (Mode::Node, false, [true, true], None),
        (Mode::All, false, [true, true], None),
    ] {
        let flags = [("a", given[0]), ("b", given[1])];
        let found = no_effect(check_inline(mode, serves_upstream, flags));
        assert_eq!(found, refused, "{mode:?} {serves_upstream} {given:?}");
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
        "--mode controller --inline-share nas:/srv",
        "--inline-share",
    );
    is_without_effect(
        "--mode controller --inline-mount-option vers",
        "--inline-mount-option",
    );
    for mode in ["node", "all"] {
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
    } else {
        is_without_effect("--migrate-on-delete retain", "--migrate-on-delete");
        is_without_effect("--migrate-on-delete delete", "--migrate-on-delete");
        let from = "--migrate-from csi-driver-nfs";
        let policy = |words: String| resolve(&words).unwrap().upstream.unwrap().on_delete;
        assert_eq!(policy(from.to_owned()), OnDelete::Delete);
        let retain = format!("{from} --migrate-on-delete retain");
        assert_eq!(policy(retain), OnDelete::Retain);
        // What that controller must not delete.
        let words = format!("--mode controller {from} --inline-share nas:/srv");
        assert_eq!(resolve(&words).unwrap().policy.inline_shares.len(), 1);
    }
}

#[test]
fn every_flag_has_a_variable() {
    let command = Flags::command();
    for arg in command.get_arguments() {
        let builtin = matches!(arg.get_id().as_str(), "help" | "version");
        assert!(builtin || arg.get_env().is_some(), "{}", arg.get_id());
    }
}
