//! Names of mount options: which text can be one, which the kernel's NFS client knows, and which name stands for all spellings of
//! an option.

/// Whether `text` can be the name of a mount option.
pub fn is_option_name(text: &str) -> bool {
    let name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=255).contains(&text.len()) && text.chars().all(name_char)
}

/// The name that stands for all spellings of one option, so that a list which has one of them means them all.
pub fn canonical_name(name: &str) -> &str {
    match name {
        "nfsvers" | "minorversion" | "v2" | "v3" | "v4" | "v4.0" | "v4.1" | "v4.2" => "vers",
        "tcp" | "tcp6" | "udp" | "udp6" | "rdma" => "proto",
        other => other,
    }
}

/// What the NFS client of Linux takes (its table of parameters, up to 6.16, and those that it takes as each file system does), beside
/// the versions.
const OF_NFS: [&str; 67] = [
    "ac",
    "acdirmax",
    "acdirmin",
    "acl",
    "acregmax",
    "acregmin",
    "actimeo",
    "alignwrite",
    "bsize",
    "cto",
    "dirsync",
    "fatal_neterrors",
    "fsc",
    "hard",
    "intr",
    "lazytime",
    "local_lock",
    "lock",
    "lookupcache",
    "mand",
    "max_connect",
    "migration",
    "mountproto",
    "mountvers",
    "namlen",
    "nconnect",
    "noac",
    "noacl",
    "noalignwrite",
    "nocto",
    "nofsc",
    "nointr",
    "nolazytime",
    "nolock",
    "nomand",
    "nomigration",
    "noposix",
    "nordirplus",
    "noresvport",
    "nosharecache",
    "nosoftreval",
    "notrunkdiscovery",
    "port",
    "posix",
    "proto",
    "rdirplus",
    "rdma",
    "resvport",
    "retrans",
    "retry",
    "rsize",
    "sec",
    "sharecache",
    "sloppy",
    "soft",
    "softerr",
    "softreval",
    "sync",
    "tcp",
    "tcp6",
    "timeo",
    "trunkdiscovery",
    "udp",
    "udp6",
    "write",
    "wsize",
    "xprtsec",
];

/// Whether the kernel's NFS client knows an option of that name.
pub fn is_of_nfs(name: &str) -> bool {
    OF_NFS.contains(&name)
}
