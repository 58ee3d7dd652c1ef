//! Redacts mount options, which may come from a secret, in errors and the log: their names stay, and words that are the
//! kernel's own. Must not decide what an option means.

use crate::mount::options::{is_known, told};

/// What Linux says of a mount of NFS that it refuses, from 5.2 to 6.12. `%` stands for what it repeats.
const SENTENCES: &[&str] = &[
    "nfs: Unknown parameter '%'",
    "nfs4: Bad value for '%'",
    "NFS: Value for '%' out of range",
    "NFS: sec=% option not recognized",
    "NFS: xprtsec=% option not recognized",
    "NFS: too many sec= flavors",
    "NFS: Bad mount option value specified",
    "NFS: Bad IP address specified",
    "NFS: Unrecognized transport protocol",
    "NFS: Unsupported transport protocol udp",
    "NFS: Unsupported NFS version",
    "NFS: Version unavailable",
    "NFS: Mount option vers=% does not support minorversion=%",
    "NFS: 'Migration' not supported for this NFS version",
    "NFS: Server address does not match proto= option",
    "NFS: Mount server address does not match mountproto= option",
    "NFS: device name not in host:path format",
    "NFS: Device name not specified",
    "NFS: server hostname too long",
    "NFS: export pathname too long",
    "NFS: not enough memory to parse device name",
    "NFS: mount program didn't pass any mount data",
    "NFS: mount program didn't pass remote address",
    "NFS: Multiple sources not supported",
    "NFS: Couldn't determine submount pathname",
    "NFS: Couldn't get root dentry",
    "NFS: Couldn't get root inode",
    "NFS: Couldn't get superblock",
    "NFS: Couldn't getattr on root",
    "NFS: invalid root filehandle",
    "NFS4: Couldn't follow remote path",
    "NFS4: Invalid number of RPC auth flavours %",
    "NFSv4: mount",
];

/// In the place of a word that is left out.
const LEFT_OUT: &str = "…";

/// The kernel's words about a mount with options of these `names`, without anything else that it repeats.
pub(super) fn refusal<'a>(words: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let told = |word: &str| {
        let core = core(word);
        let name = core.split_once('=').map_or(core, |(name, _)| name);
        let is_known = name.is_empty()
            || names.clone().any(|known| known == name)
            || SENTENCES.iter().any(|sentence| {
                let mut own = sentence.split_whitespace();
                own.any(|own| self::core(own).split('=').next() == Some(name))
            });
        match is_known {
            // What follows the sign is a value, also where it looks like a word of the kernel's.
            true if core.contains('=') => name.to_owned(),
            true => word.to_owned(),
            false => LEFT_OUT.to_owned(),
        }
    };
    let words: Vec<_> = words.split_whitespace().map(told).collect();
    words.join(" ")
}

/// A word without the signs around it.
fn core(word: &str) -> &str {
    word.trim_matches(|sign| matches!(sign, '\'' | '"' | ':' | ';' | ',' | '.' | '(' | ')'))
}

/// Options as a request gives them, without values, and without names that nobody knows: those may be words of a value.
pub(crate) fn given(text: &str) -> String {
    let words = text.split(',').map(str::trim).map(|word| {
        let (name, value) = match word.split_once('=') {
            Some((name, _)) => (name, "=…"),
            None => (word, ""),
        };
        let name = match is_known(name) {
            true => told(name),
            false => LEFT_OUT,
        };
        format!("{name}{value}")
    });
    words.collect::<Vec<_>>().join(",")
}

/// Options as a line of mountinfo shows them, without values but those of the options that `is_told` names.
pub(super) fn options(shown: &str, is_told: impl Fn(&str) -> bool) -> String {
    let pieces = shown.split_inclusive([',', ' ']).map(|piece| {
        let option = piece.trim_end_matches([',', ' ']);
        match option.split_once('=') {
            Some((name, _)) if !is_told(name) => {
                format!("{name}={LEFT_OUT}{}", &piece[option.len()..])
            }
            _ => piece.to_owned(),
        }
    });
    pieces.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_refusal_only_names_and_words_of_the_kernel_are_told() {
        let names = ["sec", "password", "rsize", "nconnect", "proto"];
        for (words, expected) in [
            // Of sec=krb5:hunter2 the kernel repeats the part that it does not know.
            (
                "NFS: sec=hunter2 option not recognized",
                "NFS: sec option not recognized",
            ),
            (
                "NFS: sec=option option not recognized",
                "NFS: sec option not recognized",
            ),
            (
                "nfs: Unknown parameter 'password'",
                "nfs: Unknown parameter 'password'",
            ),
            (
                "nfs: Unknown parameter 'hunter2'",
                "nfs: Unknown parameter …",
            ),
            (
                "nfs: Bad value for 'rsize'; NFS: Value for 'nconnect' out of range",
                "nfs: Bad value for 'rsize'; NFS: Value for 'nconnect' out of range",
            ),
            (
                "NFS: hunter2 is hunter=2, not (hunter2)",
                "NFS: … … … not …",
            ),
            (
                "NFS: Mount option vers=4 does not support minorversion=7",
                "NFS: Mount option vers does not support minorversion",
            ),
            ("", ""),
        ] {
            assert_eq!(refusal(words, names.into_iter()), expected, "{words}");
        }
        // Of each sentence that is known nothing is lost but what stands for a value.
        for sentence in SENTENCES {
            let said = sentence.replace('%', "hunter2");
            let told = refusal(&said, names.into_iter());
            assert!(!told.contains("hunter2"), "{told}");
            let (own, kept) = (sentence.split_whitespace(), told.split_whitespace());
            for (own, kept) in own.zip(kept).filter(|(own, _)| !own.contains(['%', '='])) {
                assert_eq!(own, kept, "{sentence}");
            }
        }
    }

    #[test]
    fn of_shown_options_values_are_left_out() {
        let told = |name: &str| name == "vers";
        assert_eq!(
            options("rw,vers=4.2,sec=krb5p,hard,port=2050", told),
            "rw,vers=4.2,sec=…,hard,port=…"
        );
        assert_eq!(
            options(
                "1 2 0:1 / /mnt rw - cifs //nas/a rw,password=hunter2",
                |_| false
            ),
            "1 2 0:1 / /mnt rw - cifs //nas/a rw,password=…"
        );
    }
}
