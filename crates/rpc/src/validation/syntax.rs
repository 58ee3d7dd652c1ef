//! The notations that the specification prescribes for names, keys and paths.

/// How many characters a driver's name has at most.
pub const PLUGIN_NAME_MAX: usize = 63;

/// Domain name notation as the specification narrows it for a driver's name: at most 63 characters; letters, digits,
/// dashes and dots; every label begins and ends with a letter or digit.
pub fn is_plugin_name(name: &str) -> bool {
    name.len() <= PLUGIN_NAME_MAX
        && name.split('.').all(|label| {
            is_enclosed(label)
                && label
                    .bytes()
                    .all(|c| c.is_ascii_alphanumeric() || c == b'-')
        })
}

/// A name that a caller suggests: no control characters but tab, line feed and carriage return.
pub(crate) fn is_suggested_name(name: &str) -> bool {
    // `is_control` is U+0000 to U+001F and U+007F to U+009F, which are the banned characters and these three.
    name.chars()
        .all(|c| !c.is_control() || matches!(c, '\t' | '\n' | '\r'))
}

/// A key of a map of secrets, which need not be text at all.
pub fn is_secret_key(key: &[u8]) -> bool {
    let allowed = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    !key.is_empty() && key.iter().all(allowed)
}

/// A path from a root: of Unix, or of Windows, where drivers run too.
pub(crate) fn is_absolute_path(path: &str) -> bool {
    match path.as_bytes() {
        [b'/', ..] | [b'\\', b'\\', ..] => true,
        [drive, b':', b'\\' | b'/', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

/// A topology key, split into its prefix, if it has one, and its name; `None` when it is not valid.
pub(crate) fn topology_key(key: &str) -> Option<(Option<&str>, &str)> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_lower = |prefix: &str| !prefix.bytes().any(|c| c.is_ascii_uppercase());
    let prefix_is_valid = prefix.is_none_or(|prefix| is_plugin_name(prefix) && is_lower(prefix));
    (prefix_is_valid && is_topology_name(name)).then_some((prefix, name))
}

/// The name in a topology key, or a topology value: at most 63 letters, digits, dashes, underscores and dots, with a
/// letter or digit at both ends.
pub(crate) fn is_topology_name(name: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    name.len() <= 63 && is_enclosed(name) && name.bytes().all(allowed)
}

/// Whether a letter or digit stands at both ends.
fn is_enclosed(text: &str) -> bool {
    match text.as_bytes() {
        [only] => only.is_ascii_alphanumeric(),
        [first, .., last] => first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric(),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_names_are_domain_names_of_63_characters() {
        let longest = format!("{}.b", "a".repeat(61));
        for valid in ["nfs.csi.k8s.io", "a", "A-1.b", "9p.example", &longest] {
            assert!(is_plugin_name(valid), "{valid}");
        }
        let longer = format!("{longest}c");
        for invalid in [
            "", "a..b", ".a", "a.", "-a", "a-", "a-.b", "a_b", "a b", "ä.b", "a/b", &longer,
        ] {
            assert!(!is_plugin_name(invalid), "{invalid}");
        }
    }

    #[test]
    fn suggested_names_hold_white_space_but_no_other_control_characters() {
        assert!(is_suggested_name("a/../b \t\r\n ü \u{a0}"));
        for banned in [
            '\0', '\u{8}', '\u{b}', '\u{c}', '\u{e}', '\u{1f}', '\u{7f}', '\u{9f}',
        ] {
            assert!(!is_suggested_name(&format!("a{banned}")), "{banned:?}");
        }
    }

    #[test]
    fn absolute_paths_are_those_of_unix_and_windows() {
        for valid in ["/", "/a", r"C:\a", "c:/a", r"\\server\share"] {
            assert!(is_absolute_path(valid), "{valid}");
        }
        for invalid in ["", "a", "./a", "C:", "C:a", r"\a", "1:/a"] {
            assert!(!is_absolute_path(invalid), "{invalid}");
        }
    }

    #[test]
    fn secret_keys_have_four_kinds_of_characters() {
        assert!(is_secret_key(b"aZ09-_."));
        for invalid in [&b""[..], b"a b", b"a/b", "ä".as_bytes(), b"\xff"] {
            assert!(!is_secret_key(invalid), "{invalid:?}");
        }
    }

    #[test]
    fn topology_keys_have_a_name_and_perhaps_a_prefix() {
        assert_eq!(topology_key("zone"), Some((None, "zone")));
        let prefixed = topology_key("topology.example.com/Zone_1.a-b");
        assert_eq!(prefixed, Some((Some("topology.example.com"), "Zone_1.a-b")));
        let longest = "a".repeat(63);
        assert_eq!(topology_key(&longest), Some((None, &*longest)));
        let long = "a".repeat(64);
        let long_prefix = format!("{long}/zone");
        for invalid in [
            "",
            "/",
            "/zone",
            "a/",
            "A.example/zone",
            "a_b/zone",
            "a/b/c",
            "-zone",
            "zo ne",
            &long,
            &long_prefix,
        ] {
            assert_eq!(topology_key(invalid), None, "{invalid}");
        }
    }
}
