//! The options of control mounts: which of a request's options reach them, and what the store on a share relies on. Owns
//! both tables; must not mount.
//!
//! The store decides by what an NFS client answers whether a volume exists. The options of volumes are made for pods, and
//! some of them (`nocto`, `actimeo=600`) let a client answer from what it knew minutes ago. So a control mount takes from
//! a request only how the server is reached; what the client may believe stands here.

use crate::calls::policy::Policy;
use crate::mount::option_names::canonical_name;
use crate::mount::options::{MountFlags, MountOptions, OptionError};

/// What a control mount takes from `mountOptions` and `--share`, as [`canonical_name`] spells it, beside the version: how
/// the server is reached, and nothing of what the client believes to know.
const TAKEN: [&str; 10] = [
    "proto",
    "mountproto",
    "port",
    // Both protect what is sent; a mount without them would send records in the clear.
    "sec",
    "xprtsec",
    "nconnect",
    // With `hard` they say how soon the server is asked again, not when a call is given up.
    "timeo",
    "retrans",
    "rsize",
    "wsize",
];

/// What the store relies on, and what would go wrong otherwise: the options that every control mount has, `name` or `name=value`.
pub const RELIED_ON: [&str; 11] = [
    // A call that the client gives up may still take effect, and would be answered as one that has failed.
    "hard",
    // A superblock has the options of its first mount, and one cache: a pod's mount of the share would give this one its
    // own, and two controllers on one machine would not see the share as two clients do.
    "nosharecache",
    // What was not there is asked for each time: records, claims and generations that another controller has made are found
    // by their names, and DeleteVolume is answered OK for what is absent.
    "lookupcache=pos",
    // A folder or a file that is opened is asked for anew: a record's folder is opened for each look, which shows its
    // generations as they are now.
    "cto",
    // What is looked at without being opened, as a claim's time, is at most this old when it changes often.
    "acregmin=3",
    // The same of what changes seldom: a dead process's claim is taken over within a minute of its end.
    "acregmax=60",
    // Names of folders on the way to what is opened are believed for so long: the store asks anew (statx with FORCE_SYNC)
    // where it must not be wrong, and elsewhere is wrong for at most this time.
    "acdirmin=30",
    // The same of folders that change seldom, as the records folder that somebody has removed.
    "acdirmax=60",
    // Files of tenants have no power in the controller.
    "nosuid",
    // A copy opens its sources without a look, and a device that a tenant has made must not be opened.
    "nodev",
    // Files of tenants have no power in the controller.
    "noexec",
];

/// The options of the control mount of a share for which a call, or `--share`, has given `words`, perhaps to an earlier release
/// that has remembered them. A word without effect is in nobody's way, whatever it is: calls have been checked before.
///
/// # Errors
/// When one that has an effect cannot be used.
pub fn for_control_mount(words: &[String], policy: &Policy) -> Result<MountOptions, OptionError> {
    let words = words.iter().flat_map(|text| text.split(','));
    let words = words.filter(|word| has_effect(word.trim()));
    MountOptions::parse(words, policy).map(of_control_mount)
}

fn of_control_mount(given: MountOptions) -> MountOptions {
    let taken = given.nfs.into_iter().filter(|(name, _)| is_taken(name));
    let mut options = MountOptions {
        versions: given.versions,
        nfs: taken.collect(),
        flags: MountFlags::NONE,
    };
    for option in RELIED_ON {
        if !options.flags.set(option) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            options.nfs.push((name.to_owned(), value));
        }
    }
    options
}

/// Whether the store relies on the option `name`, which no call can give then.
pub(super) fn is_relied_on(name: &str) -> bool {
    let mut own = RELIED_ON.iter();
    own.any(|option| option.split('=').next() == Some(name))
}

/// Refuses options that would have no effect where they are meant for the control mount alone, as those of `--share` are.
///
/// # Errors
/// [`OptionError::NotTaken`], which names the first of them.
pub fn refuse_without_effect<'a>(
    words: impl IntoIterator<Item = &'a str>,
) -> Result<(), OptionError> {
    match words.into_iter().find(|word| !has_effect(word)) {
        None => Ok(()),
        Some(word) => Err(OptionError::NotTaken {
            name: name_of(word).to_owned(),
            taken: format!("vers, {}", TAKEN.join(", ")),
        }),
    }
}

/// Whether a control mount takes the option `word` from who gives it.
pub(super) fn has_effect(word: &str) -> bool {
    let name = name_of(word);
    canonical_name(name) == "vers" || is_taken(name)
}

fn name_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

fn is_taken(name: &str) -> bool {
    TAKEN.contains(&canonical_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::options::Version;

    fn control(text: &str) -> MountOptions {
        for_control_mount(&[text.to_owned()], &Policy::default()).unwrap()
    }

    #[test]
    fn what_says_how_the_server_is_reached_is_taken() {
        let options = control("vers=4.1,tcp,port=2050,sec=krb5p,nconnect=4,timeo=50,rsize=4096");
        assert_eq!(options.versions, [Version::V4_1]);
        for (name, value) in [
            ("tcp", None),
            ("port", Some("2050")),
            ("sec", Some("krb5p")),
            ("nconnect", Some("4")),
            ("timeo", Some("50")),
            ("rsize", Some("4096")),
        ] {
            assert!(options.has(name) && options.value(name) == value, "{name}");
        }
    }

    #[test]
    fn nothing_else_changes_what_the_store_relies_on() {
        let plain = control("");
        for hostile in [
            "nocto",
            "cto",
            "noac",
            "ac",
            "actimeo=600",
            "acregmin=600,acregmax=600,acdirmin=600,acdirmax=600",
            "lookupcache=all",
            "lookupcache=none",
            "lookupcache=positive",
            "sharecache",
            "nosharecache",
            "soft",
            "softerr",
            "softreval",
            "fsc",
            "local_lock=all",
            "lock",
            "nordirplus",
            "write=eager",
            "ro,suid,dev,exec,noatime",
            "sync",
        ] {
            assert_eq!(control(hostile), plain, "{hostile}");
        }
        assert_eq!(plain.value("lookupcache"), Some("pos"));
        let flags = plain.flags;
        assert!(flags.nosuid && flags.nodev && flags.noexec && !flags.read_only);
    }

    #[test]
    fn a_word_without_effect_closes_no_share() {
        let known = control("vers=3,sec=krb5p");
        assert_eq!(control("vers=3, strictatime ,loop=/x,sec=krb5p,a b"), known);
        let wrong = for_control_mount(&["sec=a b".to_owned()], &Policy::default());
        assert_eq!(wrong, Err(OptionError::Value("sec".to_owned())));
    }

    #[test]
    fn an_option_without_effect_is_named() {
        let taken = ["vers=3", "v4.1", "nfsvers=4", "udp", "port=1", "sec=sys"];
        assert_eq!(refuse_without_effect(taken), Ok(()));
        for other in ["nocto", "actimeo=600", "hard", "ro"] {
            let error = refuse_without_effect(["vers=3", other]).unwrap_err();
            let name = other.split('=').next().unwrap();
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }
}
