//! Names of mount options: which text can be one, which the kernel's NFS client knows, which name stands for all spellings of an
//! option, and which is meant by a mistyped one.

use strsim::osa_distance;

/// Whether `text` can be the name of a mount option.
pub fn is_option_name(text: &str) -> bool {
    let name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=255).contains(&text.len()) && text.chars().all(name_char)
}

/// The spellings of the version.
const VERSIONS: &str = "vers nfsvers minorversion v2 v3 v4 v4.0 v4.1 v4.2";

/// The names in a text that has blanks between them.
fn names(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_ascii_whitespace()
}

/// The name that stands for all spellings of one option, so that a list which has one of them means them all.
pub fn canonical_name(name: &str) -> &str {
    match name {
        version if names(VERSIONS).any(|known| known == version) => "vers",
        "tcp" | "tcp6" | "udp" | "udp6" | "rdma" => "proto",
        other => other,
    }
}

/// What the NFS client of Linux takes (its table of parameters, up to 6.16, and those that it takes as each file system does), beside
/// the versions.
const OF_NFS: &str = "
    ac acdirmax acdirmin acl acregmax acregmin actimeo alignwrite bsize cto dirsync fatal_neterrors fsc
    hard intr lazytime local_lock lock lookupcache mand max_connect migration mountproto mountvers
    namlen nconnect noac noacl noalignwrite nocto nofsc nointr nolazytime nolock nomand nomigration
    noposix nordirplus noresvport nosharecache nosoftreval notrunkdiscovery port posix proto rdirplus
    rdma resvport retrans retry rsize sec sharecache sloppy soft softerr softreval sync tcp tcp6 timeo
    trunkdiscovery udp udp6 write wsize xprtsec";

/// What the kernel's NFS client knows.
pub fn of_nfs() -> impl Iterator<Item = &'static str> {
    names(OF_NFS).chain(names(VERSIONS))
}

/// The name that `word` is meant to be, where it is so like one of `names` that it can be nothing but a slip: a third of its
/// letters are others at most.
pub fn nearest(word: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let slips = names.map(|name| (osa_distance(word, name), name));
    let (slips, name) = slips.min()?;
    (slips * 3 <= word.len()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_a_few_letters_is_known_for_what_was_meant() {
        for (word, meant) in [
            ("hrad", Some("hard")),
            ("nconect", Some("nconnect")),
            ("timeout", Some("timeo")),
            ("nfsver", Some("nfsvers")),
            ("sfot", Some("soft")),
            // Too short to say, or like none.
            ("tls", None),
            ("hunter2", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, of_nfs()), meant, "{word}");
        }
    }
}
