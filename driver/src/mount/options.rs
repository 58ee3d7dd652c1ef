//! Mount options: their syntax, which are refused, and what each means to the kernel. Owns the check of everything that
//! a request can say about a mount; must not mount.

use crate::calls::policy::Policy;
use crate::mount::option_names::{is_option_name, nearest, of_nfs};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Checked options, sorted by what the kernel does with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MountOptions {
    /// The versions to try, in this order. Never empty after [`MountOptions::parse`].
    pub versions: Vec<Version>,
    /// What goes to the NFS client as it is: name, and value where it has one.
    pub nfs: Vec<(String, Option<String>)>,
    /// Flags of the mount itself.
    pub flags: MountFlags,
}

/// Flags that every file system has. The default is what a mount for pods gets when nobody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools)] // Independent flags of the kernel's interface.
pub struct MountFlags {
    /// No writing.
    pub read_only: bool,
    /// Set-user-id bits have no effect.
    pub nosuid: bool,
    /// Device files are none.
    pub nodev: bool,
    /// Programs cannot be run.
    pub noexec: bool,
    /// Reading does not change access times.
    pub noatime: bool,
    /// Reading folders does not change access times.
    pub nodiratime: bool,
}

/// A version of NFS that the kernel's client speaks without help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Version {
    /// 4.2, with server-side copies.
    V4_2,
    /// 4.1.
    V4_1,
    /// 4.0.
    V4_0,
    /// 3, over TCP.
    V3,
}

impl Version {
    /// The value of the kernel's option `vers`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4_2 => "4.2",
            Self::V4_1 => "4.1",
            Self::V4_0 => "4.0",
            Self::V3 => "3",
        }
    }
}

/// An option that cannot be used. Says names and never values: options come from secrets too.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OptionError {
    /// It has no name, or one with characters that no name has. What it is then is not said: it may be a piece of a
    /// value that holds a comma.
    #[error(
        "a mount option has no name, or characters other than letters, digits, '_', '-' and '.' in it: give name or name=value, separated by commas"
    )]
    Name,
    /// No NFS client of Linux knows it. Its name is not said: it may be a word of a secret's.
    #[error(
        "the mount option number {number} is none that the kernel's NFS client knows (its name is not told, since options may come from a secret){}: correct it, or name it in --allow-mount-option of csi-nfs if this kernel is newer",
        meant.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
    )]
    Unknown {
        /// Which of the request's options it is, counted from 1.
        number: usize,
        /// The known name that it is mistyped from. No secret is so like one.
        meant: Option<&'static str>,
    },
    /// It has a value that would not reach the kernel as it is.
    #[error(
        "the value of the mount option {0:?} is empty, too long, or has blanks, quotes or backslashes"
    )]
    Value(String),
    /// It would lead the mount past the checks of server and share, or around this driver's own values.
    #[error(
        "the mount option {0:?} cannot be given: it leads around the checks of server and share, or sets labels or keys of the node"
    )]
    Reserved(String),
    /// The configuration refuses it.
    #[error(
        "the mount option {0:?} is not allowed here (--allow-mount-option, --deny-mount-option)"
    )]
    Denied(String),
    /// It leads to another service on a server than the one that the configuration allows.
    #[error(
        "the mount option \"port\" leads to another service than the server's NFS, which is all that --allow-server allows: name the option in --allow-mount-option too if it is meant"
    )]
    Port,
    /// A version that this driver does not mount.
    #[error(
        "the mount option {0:?} asks for an NFS version that is not one of 4.2, 4.1, 4.0, 4 and 3"
    )]
    Version(String),
    /// Two options contradict each other.
    #[error("the mount options {0:?} and {1:?} contradict each other")]
    Conflict(String, String),
    /// The controller's own mount does not take it.
    #[error(
        "the mount option {name:?} has no effect on the controller's own mount, which takes {taken}: leave it out; options for pods stand in mountOptions of the StorageClass"
    )]
    NotTaken {
        /// Its name.
        name: String,
        /// What the mount takes.
        taken: String,
    },
}

/// Options that name another server, another path or a socket of their own; that decide what the node's security modules
/// make of the files; or that name keys of the node's own.
const RESERVED: [&str; 13] = [
    "addr",
    "clientaddr",
    "mountaddr",
    "mounthost",
    "mountport",
    "source",
    // SELinux.
    "context",
    "defcontext",
    "fscontext",
    "rootcontext",
    "seclabel",
    // Keys of `xprtsec=mtls`, by their number in a keyring.
    "cert_serial",
    "privkey_serial",
];

/// How the names of all options of Smack begin.
const SMACK: &str = "smackfs";

/// Ports that are a server's NFS: what a client takes by itself, over TCP and over RDMA, and what its port mapper tells.
const NFS_PORTS: [&str; 3] = ["2049", "20049", "0"];

/// Words for fstab and mount.nfs that mean nothing to the kernel.
const FSTAB_WORDS: [&str; 14] = [
    "defaults", "auto", "noauto", "_netdev", "nofail", "user", "nouser", "users", "group", "owner",
    "bg", "fg", "rw", "async",
];

/// How the names of options begin that are comments for other programs.
const COMMENT: &str = "x-";

/// Names that mean something: to the kernel's NFS client, to every file system, or in fstab.
fn known() -> impl Iterator<Item = &'static str> {
    let flags = FLAGS.iter().map(|(name, _)| *name);
    of_nfs().chain(flags).chain(FSTAB_WORDS)
}

/// Whether a name means something.
pub(super) fn is_known(name: &str) -> bool {
    name.starts_with(COMMENT) || known().any(|known| known == name)
}

/// Whether a name is taken, or refused for what it means; all others are refused as unknown, unless the policy lists them.
pub fn has_rule(name: &str) -> bool {
    is_known(name) || RESERVED.contains(&name) || name.starts_with(SMACK)
}

/// What may be said of a known name: comments are anybody's words.
pub fn told(name: &str) -> &str {
    match name.starts_with(COMMENT) {
        true => COMMENT,
        false => name,
    }
}

impl MountOptions {
    /// Checks `texts`, each one option or several separated by commas.
    ///
    /// # Errors
    /// When one cannot be used; the error names it. INVALID_ARGUMENT to the caller.
    pub fn parse<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        policy: &Policy,
    ) -> Result<Self, OptionError> {
        let mut out = Self::default();
        if policy.upstream_mounts {
            out.flags.nosuid = !policy.allows_option("suid");
            out.flags.nodev = !policy.allows_option("dev");
        }
        let mut version: Option<(String, Vec<Version>)> = None;
        let words = texts.into_iter().flat_map(|text| text.split(','));
        let words = words.map(str::trim).filter(|word| !word.is_empty());
        for (number, word) in (1..).zip(words) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let value_char = |c: char| c.is_ascii_graphic() && !matches!(c, '\\' | '"' | '\'');
            if !is_option_name(name) {
                return Err(OptionError::Name);
            }
            if name.starts_with(SMACK) {
                return Err(OptionError::Reserved(SMACK.to_owned()));
            }
            if RESERVED.contains(&name) {
                return Err(OptionError::Reserved(name.to_owned()));
            }
            // From here on errors may say the name.
            if !is_known(name) && !policy.lists_option(name) {
                let meant = nearest(name, known());
                return Err(OptionError::Unknown { number, meant });
            }
            if !value.unwrap_or("x").chars().all(value_char)
                || value == Some("")
                || word.len() > 255
            {
                return Err(OptionError::Value(told(name).to_owned()));
            }
            if !policy.allows_option(name) {
                return Err(OptionError::Denied(told(name).to_owned()));
            }
            let is_nfs = value.is_some_and(|port| NFS_PORTS.contains(&port));
            if name == "port" && !is_nfs && !policy.allows_any_port() {
                return Err(OptionError::Port);
            }
            if let Some(versions) = versions(name, value)? {
                match &version {
                    Some((before, earlier)) if *earlier != versions => {
                        return Err(OptionError::Conflict(before.clone(), name.to_owned()));
                    }
                    _ => version = Some((name.to_owned(), versions)),
                }
                continue;
            }
            if !out.flags.set(name) && !FSTAB_WORDS.contains(&name) && !name.starts_with(COMMENT) {
                let option = (name.to_owned(), value.map(str::to_owned));
                if !out.nfs.contains(&option) {
                    out.nfs.push(option);
                }
            }
        }
        out.versions = match version {
            Some((_, versions)) => versions,
            None => vec![Version::V4_2, Version::V4_1, Version::V4_0, Version::V3],
        };
        Ok(out)
    }

    /// Whether the NFS client gets an option of that name.
    pub fn has(&self, name: &str) -> bool {
        self.nfs.iter().any(|(given, _)| given == name)
    }

    /// The value of the last NFS option of that name.
    pub fn value(&self, name: &str) -> Option<&str> {
        let mut found = self.nfs.iter().rev().filter(|(given, _)| given == name);
        found.next().and_then(|(_, value)| value.as_deref())
    }
}

impl Default for MountFlags {
    /// `nosuid,nodev`: whoever can write to the share from elsewhere could else plant a program or a device on it that
    /// gives away the node.
    fn default() -> Self {
        Self {
            nosuid: true,
            nodev: true,
            ..Self::NONE
        }
    }
}

/// A name of a flag, and what it does.
type Flag = (&'static str, fn(&mut MountFlags));

const FLAGS: [Flag; 12] = [
    ("ro", |flags| flags.read_only = true),
    ("nosuid", |flags| flags.nosuid = true),
    ("suid", |flags| flags.nosuid = false),
    ("nodev", |flags| flags.nodev = true),
    ("dev", |flags| flags.nodev = false),
    ("noexec", |flags| flags.noexec = true),
    ("exec", |flags| flags.noexec = false),
    ("noatime", |flags| flags.noatime = true),
    ("atime", |flags| flags.noatime = false),
    ("relatime", |flags| flags.noatime = false),
    ("nodiratime", |flags| flags.nodiratime = true),
    ("diratime", |flags| flags.nodiratime = false),
];

impl MountFlags {
    /// No flag at all: the mount allows what the file system allows.
    pub const NONE: Self = Self {
        read_only: false,
        nosuid: false,
        nodev: false,
        noexec: false,
        noatime: false,
        nodiratime: false,
    };

    /// Sets or clears the flag that `name` stands for; `false` when it stands for none.
    pub fn set(&mut self, name: &str) -> bool {
        let found = FLAGS.iter().find(|(known, _)| *known == name);
        if let Some((_, set)) = found {
            set(self);
        }
        found.is_some()
    }
}

/// The versions that an option asks for; `None` when it is about something else.
fn versions(name: &str, value: Option<&str>) -> Result<Option<Vec<Version>>, OptionError> {
    let text = match (name, value) {
        ("vers" | "nfsvers", value) => value.unwrap_or_default(),
        ("v2" | "v3" | "v4" | "v4.0" | "v4.1" | "v4.2", None) => &name[1..],
        ("minorversion", Some("0")) => "4.0",
        ("minorversion", Some("1")) => "4.1",
        ("minorversion", Some("2")) => "4.2",
        ("minorversion", Some(_)) => "",
        _ => return Ok(None),
    };
    Ok(Some(match text {
        "3" => vec![Version::V3],
        "4" => vec![Version::V4_2, Version::V4_1, Version::V4_0],
        "4.0" => vec![Version::V4_0],
        "4.1" => vec![Version::V4_1],
        "4.2" => vec![Version::V4_2],
        _ => return Err(OptionError::Version(name.to_owned())),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(texts: &[&str]) -> Result<MountOptions, OptionError> {
        MountOptions::parse(texts.iter().copied(), &Policy::default())
    }

    #[test]
    fn options_are_sorted_by_meaning() {
        let options = parse(&[
            "hard,nconnect=4",
            "ro",
            "_netdev",
            "noexec,x-a.b=1",
            "nfsvers=4.1",
        ])
        .unwrap();
        assert_eq!(options.versions, [Version::V4_1]);
        let nfs = [
            ("hard".to_owned(), None),
            ("nconnect".to_owned(), Some("4".to_owned())),
        ];
        assert_eq!(options.nfs, nfs);
        assert!(options.flags.read_only && options.flags.noexec && !options.flags.noatime);
        assert_eq!(options.value("nconnect"), Some("4"));
    }

    #[test]
    fn programs_and_devices_have_no_power_unless_asked_for() {
        let flags = |text: &str| {
            let flags = parse(&[text]).unwrap().flags;
            (flags.nosuid, flags.nodev)
        };
        assert_eq!(flags(""), (true, true));
        assert_eq!(flags("hard"), (true, true));
        assert_eq!(flags("suid"), (false, true));
        assert_eq!(flags("dev"), (true, false));
        assert_eq!(flags("suid,dev"), (false, false));
        // The last one counts, as with mount(8).
        assert_eq!(flags("suid,nosuid"), (true, true));
        let policy = Policy {
            denied_options: vec!["suid".into()],
            ..Policy::default()
        };
        let denied = MountOptions::parse(["dev,suid"], &policy);
        assert_eq!(denied, Err(OptionError::Denied("suid".into())));
    }

    #[test]
    fn versions_are_tried_from_the_newest() {
        use Version::*;
        assert_eq!(parse(&[]).unwrap().versions, [V4_2, V4_1, V4_0, V3]);
        assert_eq!(parse(&["vers=4"]).unwrap().versions, [V4_2, V4_1, V4_0]);
        assert_eq!(parse(&["v3"]).unwrap().versions, [V3]);
        assert_eq!(parse(&["minorversion=1"]).unwrap().versions, [V4_1]);
        assert_eq!(parse(&["vers=4.1,nfsvers=4.1"]).unwrap().versions, [V4_1]);
        assert!(matches!(
            parse(&["vers=4.1,v3"]),
            Err(OptionError::Conflict(..))
        ));
        for wrong in ["vers=2", "v2", "vers=5", "vers", "minorversion=3"] {
            assert!(
                matches!(parse(&[wrong]), Err(OptionError::Version(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_leads_past_a_check_is_refused() {
        for wrong in [
            "addr=10.0.0.1",
            "mountaddr=10.0.0.1",
            "clientaddr=::1",
            "source=a:/b",
        ] {
            assert!(
                matches!(parse(&[wrong]), Err(OptionError::Reserved(_))),
                "{wrong}"
            );
        }
        for wrong in ["=x", "a b", "a\nb"] {
            assert_eq!(parse(&[wrong]), Err(OptionError::Name), "{wrong:?}");
        }
        for wrong in ["sec=", "sec=b c", "sec=\0", "sec=\\054addr=1"] {
            let error = parse(&[wrong]);
            assert_eq!(error, Err(OptionError::Value("sec".into())), "{wrong:?}");
        }
        // A comma makes two options, each of which is checked.
        assert!(parse(&["hard,addr=10.0.0.1"]).is_err());
    }

    #[test]
    fn labels_and_keys_of_the_node_are_not_for_requests() {
        for name in [
            "context",
            "fscontext",
            "defcontext",
            "rootcontext",
            "seclabel",
            "smackfsroot",
            "smackfstransmute",
            "cert_serial",
            "privkey_serial",
        ] {
            for wrong in [
                name.to_owned(),
                format!("hard,{name}=system_u:object_r:shadow_t"),
            ] {
                let told = if name.starts_with(SMACK) { SMACK } else { name };
                let error = parse(&[&wrong]);
                assert_eq!(error, Err(OptionError::Reserved(told.into())), "{wrong}");
            }
        }
    }

    #[test]
    fn an_allowed_server_is_its_nfs_alone() {
        let server = Policy {
            servers: vec!["nas".into()],
            ..Policy::default()
        };
        let and_port = Policy {
            allowed_options: vec!["port".into(), "hard".into()],
            ..server.clone()
        };
        let check = |option: &str, policy: &Policy| MountOptions::parse([option], policy).map(drop);
        for nfs in ["port=2049", "port=20049,rdma", "port=0"] {
            assert_eq!(check(nfs, &server), Ok(()), "{nfs}");
        }
        for other in [
            "port=2050",
            "port=02049",
            "hard,port=1",
            "port=2049,port=7",
            "port",
        ] {
            assert_eq!(check(other, &server), Err(OptionError::Port), "{other}");
        }
        assert_eq!(check("hard,port=2050", &and_port), Ok(()));
        assert_eq!(check("port=2050", &Policy::default()), Ok(()));
    }

    #[test]
    fn what_no_client_knows_is_refused_before_anything_is_mounted() {
        for wrong in ["..", "-", "remount", "bind", "loop=/etc/passwd", "hunter2"] {
            let text = format!("soft,{wrong},hard");
            let unknown = OptionError::Unknown {
                number: 2,
                meant: None,
            };
            assert_eq!(parse(&[&text]), Err(unknown), "{wrong}");
        }
        let mistyped = parse(&["hrad"]).unwrap_err().to_string();
        assert!(mistyped.contains("; did you mean hard?:"), "{mistyped}");
        let newer = Policy {
            allowed_options: vec!["newer".into()],
            ..Policy::default()
        };
        let options = MountOptions::parse(["newer=1"], &newer).unwrap();
        assert_eq!(options.value("newer"), Some("1"));
    }

    #[test]
    fn no_error_tells_a_value() {
        for secret in [
            "rsize=1048576,hunter2,soft",
            "rsize=1048576,hunter2=1,soft",
            "x-hunter2=",
            "smackfshunter2",
            "password=hunter two",
            "password=two,hunter 2",
            "vers=hunter2",
            "minorversion=hunter2",
            "vers=3,nfsvers=4,sec=hunter2",
            "addr=hunter2",
            "x=\"hunter2",
        ] {
            let error = parse(&[secret]).unwrap_err().to_string();
            assert!(!error.contains("hunter"), "{secret}: {error}");
        }
    }

    #[test]
    fn no_list_tells_a_word_of_a_comment() {
        let lists = Policy {
            allowed_options: vec!["hard".into()],
            ..Policy::default()
        };
        let error = MountOptions::parse(["x-hunter2"], &lists).unwrap_err();
        assert!(!error.to_string().contains("hunter"), "{error}");
    }

    #[test]
    fn lists_allow_and_deny_by_name() {
        let lists = |allowed: &[&str], denied: &[&str]| Policy {
            allowed_options: allowed.iter().map(|&name| name.to_owned()).collect(),
            denied_options: denied.iter().map(|&name| name.to_owned()).collect(),
            ..Policy::default()
        };
        let check = |option: &str, policy: &Policy| MountOptions::parse([option], policy);
        let policy = lists(&["hard", "vers"], &["hard"]);
        for allowed in ["vers=4.1", "v4.1", "nfsvers=3", "minorversion=1"] {
            assert!(check(allowed, &policy).is_ok(), "{allowed}");
        }
        for denied in ["hard", "soft"] {
            let error = check(denied, &policy).unwrap_err();
            assert_eq!(error, OptionError::Denied(denied.into()));
        }
        // Every spelling of an option is the option.
        for listed in ["vers", "nfsvers", "v3"] {
            for denied in ["vers=3", "nfsvers=3", "v3", "v4.1", "minorversion=1"] {
                let error = check(denied, &lists(&[], &[listed])).unwrap_err();
                assert!(matches!(error, OptionError::Denied(_)), "{denied}: {error}");
            }
        }
        assert!(check("udp", &lists(&[], &["proto"])).is_err());
        assert!(check("proto=udp", &lists(&["tcp"], &[])).is_ok());
    }

    proptest! {
        #[test]
        fn nothing_reserved_or_separating_comes_through(text in "\\PC{0,60}") {
            if let Ok(options) = parse(&[&text]) {
                for (name, value) in &options.nfs {
                    prop_assert!(!RESERVED.contains(&name.as_str()));
                    prop_assert!(!name.contains([',', '=']) && !value.as_deref().unwrap_or("").contains(','));
                }
            }
        }
    }
}
