//! Who the clients of this machine's NFS server may be on a folder, as exportfs(8) has written it down. Must not change that.

use csi_sys::kernel_table::unescape;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

/// What is exported now, a line for each folder and client.
const TABLE: &str = "/var/lib/nfs/etab";

/// Whether no client is root on the open folder `root`. Where that cannot be told, as in a container that does not see the table, or
/// sees the folder at another path, they are taken to be root.
pub fn squash_root(root: impl AsFd) -> bool {
    let path = fs::read_link(format!("/proc/self/fd/{}", root.as_fd().as_raw_fd()));
    match (path, fs::read(TABLE)) {
        (Ok(path), Ok(table)) => judge(&table, &path),
        _ => false,
    }
}

/// Through every export of the folder, of one above it, or of one in it, a client gets at what is in it.
fn judge(table: &[u8], root: &Path) -> bool {
    let mut is_exported = false;
    for line in table.split(|byte| *byte == b'\n') {
        let mut halves = line.splitn(2, |byte| *byte == b'\t');
        let (Some(path), Some(client)) = (halves.next(), halves.next()) else {
            continue;
        };
        let path = PathBuf::from(unescape(path));
        if !root.starts_with(&path) && !path.starts_with(root) {
            continue;
        }
        if !squashes_root(&String::from_utf8_lossy(client)) {
            return false;
        }
        is_exported = true;
    }
    is_exported
}

/// Whether no user of the export to `client`, `NAME(OPTIONS)`, is root: of each kind of security that it has, which begins with
/// `sec=`, root at least is made somebody else, who is not root.
fn squashes_root(client: &str) -> bool {
    let options = client.split_once('(').map_or("", |(_, options)| options);
    let options: Vec<&str> = options.trim_end_matches(')').split(',').collect();
    let anonymous = options.iter().filter_map(|it| it.strip_prefix("anonuid="));
    // What cannot be read may be root too.
    let mut anonymous = anonymous.map(|id| id.parse::<i64>().unwrap_or_default());
    let mut kinds = options.split(|option| option.starts_with("sec="));
    let squashes = |option: &&str| matches!(*option, "root_squash" | "all_squash");
    anonymous.all(|id| id != 0) && kinds.all(|kind| kind.iter().any(squashes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_squashed_where_every_export_squashes_it() {
        let squashed = "/srv/a\tnas(rw,root_squash,no_all_squash)\n";
        let open = "/srv/a\t10.0.0.0/8(rw,no_root_squash,no_all_squash)\n";
        for (table, root, expected) in [
            (squashed, "/srv/a", true),
            (squashed, "/srv/a/inner", true),
            (squashed, "/srv", true),
            (squashed, "/srv/b", false),
            (squashed, "/srv/ab", false),
            (open, "/srv/a", false),
            (&format!("{squashed}{open}"), "/srv/a", false),
            ("/srv/a\t*(rw,no_root_squash,all_squash)\n", "/srv/a", true),
            ("/srv/a\\040b\t*(rw,root_squash)\n", "/srv/a b", true),
            // Whoever is made root writes as root.
            (
                "/srv/a\t*(rw,no_root_squash,all_squash,anonuid=0,anongid=0)\n",
                "/srv/a",
                false,
            ),
            ("/srv/a\t*(rw,root_squash,anonuid=0)\n", "/srv/a", false),
            ("/srv/a\t*(rw,root_squash,anonuid=?)\n", "/srv/a", false),
            (
                "/srv/a\t*(rw,root_squash,anonuid=65534,sec=sys,rw,root_squash,no_all_squash)\n",
                "/srv/a",
                true,
            ),
            (
                "/srv/a\t*(rw,root_squash,sec=krb5,rw,root_squash,sec=sys,rw,no_root_squash)\n",
                "/srv/a",
                false,
            ),
            ("/srv/a\n", "/srv/a", false),
            ("", "/srv/a", false),
        ] {
            assert_eq!(
                judge(table.as_bytes(), Path::new(root)),
                expected,
                "{table}{root}"
            );
        }
    }
}
