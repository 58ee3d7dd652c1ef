//! Volume capabilities, in csc's notation and in one that can express every capability.
//!
//! - `MODE,TYPE[,FSTYPE[,FLAG…]]`: `SINGLE_NODE_WRITER,mount`, `5,1`, `5,mount,nfs4,ro,hard`. Empty fields are skipped.
//! - `KEY=VALUE[,…]` with the keys `mode`, `type`, `fs`, `flag` (repeatable) and `group`:
//!   `mode=5,type=mount,fs=nfs4,flag=ro,flag="a,b",group=1000`. What is not said is as in [`default`].
//!
//! MODE is a name in either case, also Kubernetes' (`RWX`), or any number, also one that no specification knows. TYPE is
//! `block` or `1`, `mount` or `2`. Either is `none` where a driver shall be sent a capability without it.

use super::record::{self, Dialect, RecordSyntaxError};
use csi_proto::schema::EnumValue;
use csi_proto::tables;
use csi_proto::v1::VolumeCapability;
use csi_proto::v1::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode,
};
use thiserror::Error;

/// The access modes of the specification, for completion and help.
pub const MODES: &[EnumValue] = tables::VOLUME_CAPABILITY_ACCESS_MODE_MODE.values;

/// Kubernetes' names of access modes, short and long, with the modes that its kubelet and sidecars send for them. For `RWO` they send
/// `SINGLE_NODE_MULTI_WRITER` instead, where a driver advertises that; nobody is asked here.
pub const KUBERNETES_MODES: [(&str, &str, Mode); 4] = [
    ("RWO", "ReadWriteOnce", Mode::SingleNodeWriter),
    ("ROX", "ReadOnlyMany", Mode::MultiNodeReaderOnly),
    ("RWX", "ReadWriteMany", Mode::MultiNodeMultiWriter),
    ("RWOP", "ReadWriteOncePod", Mode::SingleNodeSingleWriter),
];

const KEYS: &str = "mode, type, fs, flag (repeatable) and group";

/// Text that is not a capability.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CapabilityError {
    /// Nothing.
    #[error(
        "a capability is MODE,TYPE such as SINGLE_NODE_WRITER,mount, or key=value with the keys {KEYS}"
    )]
    Empty,
    /// Quotes that do not fit.
    #[error("{0}")]
    Record(RecordSyntaxError),
    /// Not a mode.
    #[error("access mode {0:?} is unknown: use {modes}, or a number", modes = mode_names())]
    Mode(String),
    /// Not a type.
    #[error("access type {0:?} is unknown: use block (or 1) or mount (or 2)")]
    Type(String),
    /// csc's form without its second field.
    #[error("the capability has no access type: write {0},mount or {0},block")]
    NoType(String),
    /// Settings of a mount for a block volume.
    #[error("a block volume has no {0}: leave it out, or use mount")]
    BlockWith(&'static str),
    /// Settings of a mount for a capability without a type.
    #[error("a capability of no type has no {0}: leave it out, or use mount")]
    NoneWith(&'static str),
    /// Not a key.
    #[error(
        "key {0:?} is unknown: a capability has {KEYS}; quotes around a value with a comma need quotes of the shell around them: 'flag=\"a,b\"'"
    )]
    Key(String),
    /// A key that may stand once, twice.
    #[error("key {0:?} is given twice")]
    Twice(&'static str),
    /// An entry of the key=value form without `=`.
    #[error(
        "{0:?} has no value: write key=value with the keys {KEYS}; quotes around a value with a comma need quotes of the shell around them: 'flag=\"a,b\"'"
    )]
    NoValue(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Block,
    Mount,
    None,
}

/// The capability that a request carries when none was asked for: `SINGLE_NODE_WRITER,mount`.
pub fn default() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeWriter.into(),
        }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

/// The capability that `text` says, in either form.
///
/// # Errors
/// When a mode, type or key is unknown, or settings do not fit the type.
pub fn parse(text: &str) -> Result<VolumeCapability, CapabilityError> {
    let text = text.trim();
    let first = text.split(',').next().unwrap_or_default();
    if text.is_empty() {
        Err(CapabilityError::Empty)
    } else if first.contains('=') {
        parse_pairs(text)
    } else {
        parse_fields(text)
    }
}

/// A capability in the form that says everything, as [`parse`] reads it back.
pub fn text(capability: &VolumeCapability) -> String {
    let mut entries = vec![match &capability.access_mode {
        None => "mode=none".to_owned(),
        Some(mode) => format!("mode={}", mode.mode),
    }];
    match &capability.access_type {
        None => entries.push("type=none".to_owned()),
        Some(AccessType::Block(_)) => entries.push("type=block".to_owned()),
        Some(AccessType::Mount(mount)) => {
            entries.push("type=mount".to_owned());
            let settings = [("fs", &mount.fs_type), ("group", &mount.volume_mount_group)];
            let flags = mount.mount_flags.iter().map(|flag| ("flag", flag));
            for (key, value) in settings
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .chain(flags)
            {
                entries.push(record::quote(&format!("{key}={value}")).into_owned());
            }
        }
    }
    entries.join(",")
}

fn parse_fields(text: &str) -> Result<VolumeCapability, CapabilityError> {
    let fields = record::entries(text, Dialect::Plain).map_err(CapabilityError::Record)?;
    let mut fields = fields.into_iter();
    let mode_text = fields.next().unwrap_or_default();
    let mode = parse_mode(&mode_text)?;
    let access_type = match fields.next() {
        None => return Err(CapabilityError::NoType(mode_text)),
        Some(text) => parse_type(&text)?,
    };
    let mount = MountVolume {
        fs_type: fields.next().unwrap_or_default(),
        mount_flags: fields.filter(|flag| !flag.is_empty()).collect(),
        volume_mount_group: String::new(),
    };
    build(mode, access_type, mount)
}

fn parse_pairs(text: &str) -> Result<VolumeCapability, CapabilityError> {
    let mut mode = None;
    let mut access_type = None;
    let mut fs_type = None;
    let mut group = None;
    let mut mount_flags = Vec::new();
    let entries = record::entries(text, Dialect::QuotedValues).map_err(CapabilityError::Record)?;
    for entry in entries.into_iter().filter(|entry| !entry.is_empty()) {
        let Some((key, value)) = entry.split_once('=') else {
            return Err(CapabilityError::NoValue(entry));
        };
        match key {
            "mode" => once("mode", &mut mode, parse_mode(value)?)?,
            "type" => once("type", &mut access_type, parse_type(value)?)?,
            "fs" | "fs_type" => once("fs", &mut fs_type, value.to_owned())?,
            "flag" | "mount_flags" => mount_flags.push(value.to_owned()),
            "group" | "volume_mount_group" => once("group", &mut group, value.to_owned())?,
            unknown => return Err(CapabilityError::Key(unknown.to_owned())),
        }
    }
    let mount = MountVolume {
        fs_type: fs_type.unwrap_or_default(),
        mount_flags,
        volume_mount_group: group.unwrap_or_default(),
    };
    let mode = mode.unwrap_or(Some(Mode::SingleNodeWriter.into()));
    build(mode, access_type.unwrap_or(Type::Mount), mount)
}

fn once<T>(key: &'static str, slot: &mut Option<T>, value: T) -> Result<(), CapabilityError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(CapabilityError::Twice(key)),
    }
}

fn build(
    mode: Option<i32>,
    access_type: Type,
    mount: MountVolume,
) -> Result<VolumeCapability, CapabilityError> {
    let surplus = [
        (!mount.fs_type.is_empty(), "file system type"),
        (!mount.mount_flags.is_empty(), "mount flags"),
        (!mount.volume_mount_group.is_empty(), "mount group"),
    ];
    let surplus = surplus.iter().find(|(set, _)| *set).map(|(_, name)| *name);
    let access_type = match (access_type, surplus) {
        (Type::Mount, _) => Some(AccessType::Mount(mount)),
        (Type::Block, None) => Some(AccessType::Block(BlockVolume {})),
        (Type::None, None) => None,
        (Type::Block, Some(name)) => return Err(CapabilityError::BlockWith(name)),
        (Type::None, Some(name)) => return Err(CapabilityError::NoneWith(name)),
    };
    Ok(VolumeCapability {
        access_mode: mode.map(|mode| AccessMode { mode }),
        access_type,
    })
}

fn parse_mode(text: &str) -> Result<Option<i32>, CapabilityError> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let mut named = KUBERNETES_MODES.iter();
    let named = named.find(|(short, long, _)| {
        short.eq_ignore_ascii_case(text) || long.eq_ignore_ascii_case(text)
    });
    tables::VOLUME_CAPABILITY_ACCESS_MODE_MODE
        .number_of(text)
        .or_else(|| named.map(|(.., mode)| i32::from(*mode)))
        .or_else(|| text.parse().ok())
        .map(Some)
        .ok_or_else(|| CapabilityError::Mode(text.to_owned()))
}

fn parse_type(text: &str) -> Result<Type, CapabilityError> {
    match text.to_ascii_lowercase().as_str() {
        "block" | "1" => Ok(Type::Block),
        "mount" | "2" => Ok(Type::Mount),
        "none" => Ok(Type::None),
        _ => Err(CapabilityError::Type(text.to_owned())),
    }
}

fn mode_names() -> String {
    let names = MODES.iter().map(|mode| mode.name);
    let names: Vec<&str> = names
        .chain(KUBERNETES_MODES.map(|(short, ..)| short))
        .collect();
    names.join(", ")
}

/// Whether a volume that is published for this may be written.
pub fn allows_writes(capability: &VolumeCapability) -> bool {
    let read_only = [Mode::SingleNodeReaderOnly, Mode::MultiNodeReaderOnly];
    let mode = capability.access_mode.as_ref().map(|one| one.mode);
    !read_only.into_iter().any(|one| mode == Some(one.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mount(mode: i32, fs_type: &str, flags: &[&str], group: &str) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode { mode }),
            access_type: Some(AccessType::Mount(MountVolume {
                fs_type: fs_type.to_owned(),
                mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
                volume_mount_group: group.to_owned(),
            })),
        }
    }

    fn block(mode: i32) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode { mode }),
            access_type: Some(AccessType::Block(BlockVolume {})),
        }
    }

    #[test]
    fn csc_s_form() {
        let cases = [
            ("SINGLE_NODE_WRITER,mount", default()),
            ("MULTI_NODE_MULTI_WRITER,mount,,,", mount(5, "", &[], "")),
            ("multi_node_multi_writer,MOUNT", mount(5, "", &[], "")),
            ("5,1", block(5)),
            ("5,mount", mount(5, "", &[], "")),
            ("5,mount,", mount(5, "", &[], "")),
            ("1,block", block(1)),
            ("1,Block,,", block(1)),
            ("1,2,ext4", mount(1, "ext4", &[], "")),
            (
                "1,mount,nfs4,ro,vers=4.1",
                mount(1, "nfs4", &["ro", "vers=4.1"], ""),
            ),
            ("1,mount,,ro", mount(1, "", &["ro"], "")),
            ("1,mount,,\"a,b\"", mount(1, "", &["a,b"], "")),
            ("0,block", block(0)),
            ("99,block", block(99)),
            ("-1,block", block(-1)),
            ("SINGLE_NODE_MULTI_WRITER,block", block(7)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn the_form_that_says_everything() {
        let full = "mode=5,type=mount,fs=nfs4,flag=ro,flag=\"a,b\",group=1000";
        let cases = [
            (full, mount(5, "nfs4", &["ro", "a,b"], "1000")),
            ("mode=SINGLE_NODE_WRITER", default()),
            ("type=mount", default()),
            ("type=block", block(1)),
            ("mode=77,type=1", block(77)),
            ("group=1000", mount(1, "", &[], "1000")),
            (
                "fs_type=xfs,mount_flags=ro,volume_mount_group=7",
                mount(1, "xfs", &["ro"], "7"),
            ),
            ("flag=vers=4.1,", mount(1, "", &["vers=4.1"], "")),
            ("flag=,fs=", mount(1, "", &[""], "")),
            (
                "\"flag=context=\"\"a,b\"\"\",type=mount",
                mount(1, "", &["context=\"a,b\""], ""),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected.clone()), "{text}");
            assert_eq!(parse(&super::text(&expected)), Ok(expected));
        }
        let empty = VolumeCapability {
            access_mode: None,
            access_type: None,
        };
        assert_eq!(parse("mode=none,type=none"), Ok(empty.clone()));
        assert_eq!(super::text(&empty), "mode=none,type=none");
        assert_eq!(parse("none,none"), Ok(empty));
    }

    #[test]
    fn errors_say_what_is_right() {
        use CapabilityError as E;
        let modes = "MULTI_NODE_MULTI_WRITER, SINGLE_NODE_SINGLE_WRITER, SINGLE_NODE_MULTI_WRITER, RWO, ROX, RWX, RWOP, or";
        let keys = "mode, type, fs, flag (repeatable) and group";
        let mode = |text: &str| E::Mode(text.into());
        let of_type = |text: &str| E::Type(text.into());
        let (block, none) = (E::BlockWith, E::NoneWith);
        let unclosed = E::Record(RecordSyntaxError::Unclosed(1));
        let cases = [
            ("", E::Empty, "MODE,TYPE"),
            ("1", E::NoType("1".into()), "write 1,mount or 1,block"),
            ("RWXP,mount", mode("RWXP"), modes),
            ("1,disk", of_type("disk"), "block (or 1) or mount (or 2)"),
            ("1,", of_type(""), "block (or 1)"),
            ("1,block,ext4", block("file system type"), "use mount"),
            ("1,block,,ro", block("mount flags"), "use mount"),
            ("type=block,group=1", block("mount group"), "use mount"),
            ("type=none,group=1", none("mount group"), "use mount"),
            ("mode=1,kind=block", E::Key("kind".into()), keys),
            ("mode=1,flag=a,b", E::NoValue("b".into()), "'flag=\"a,b\"'"),
            ("mode=1,mode=2", E::Twice("mode"), "twice"),
            ("mode=99999999999", mode("99999999999"), "or a number"),
            ("flag=\"a", unclosed, "entry 1"),
        ];
        for (text, error, part) in cases {
            assert_eq!(parse(text), Err(error.clone()), "{text}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn every_mode_of_the_specification_is_accepted() {
        assert_eq!(MODES.len(), 8);
        for mode in MODES {
            let expected = Ok(block(mode.number));
            assert_eq!(parse(&format!("{},block", mode.name)), expected);
            assert_eq!(
                parse(&format!("{},block", mode.name.to_lowercase())),
                expected
            );
            assert_eq!(parse(&format!("{},block", mode.number)), expected);
        }
    }

    #[test]
    fn kubernetes_names_say_what_its_kubelet_sends() {
        for (name, mode) in [
            ("RWO", 1),
            ("ROX", 3),
            ("RWX", 5),
            ("RWOP", 6),
            ("ReadWriteOnce", 1),
            ("ReadOnlyMany", 3),
            ("ReadWriteMany", 5),
            ("ReadWriteOncePod", 6),
        ] {
            assert_eq!(parse(&format!("{name},block")), Ok(block(mode)), "{name}");
            let long = format!("mode={},fs=xfs", name.to_lowercase());
            assert_eq!(parse(&long), Ok(mount(mode, "xfs", &[], "")), "{long}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".*", fields in "[0-9a-z=,\"]{0,20}") {
            let _ = parse(&text);
            let _ = parse(&fields);
        }
    }

    #[test]
    fn a_volume_is_written_where_its_access_mode_allows_that() {
        for (mode, expected) in [
            (Mode::SingleNodeWriter, true),
            (Mode::SingleNodeReaderOnly, false),
            (Mode::MultiNodeReaderOnly, false),
            (Mode::MultiNodeSingleWriter, true),
            (Mode::MultiNodeMultiWriter, true),
        ] {
            let capability = VolumeCapability {
                access_mode: Some(AccessMode { mode: mode.into() }),
                ..VolumeCapability::default()
            };
            assert_eq!(allows_writes(&capability), expected, "{mode:?}");
        }
    }
}
