//! The parameters of a StorageClass, as they come with CreateVolume, GetCapacity and ValidateVolumeCapabilities. Owns their
//! names, values and templates; which share they choose in the end is the controller's business.

use csi_nfs_store::share::paths::sub_path::{SubPath, SubPathError};
use csi_nfs_store::share::records::promise::Ratio;
use csi_nfs_store::share::records::size::Quota;
use csi_nfs_store::share::records::volume::OnDelete;
use std::collections::BTreeMap;
use thiserror::Error;

/// Every parameter, as it is spelled in answers. Requests may use any case.
pub const KNOWN: [&str; 12] = [
    SERVER,
    SHARE,
    SUB_DIR,
    "onDelete",
    "mountPermissions",
    "uid",
    "gid",
    MOUNT_OPTIONS,
    "adopt",
    QUOTA,
    QUOTA_INODES,
    OVERCOMMIT,
];
/// The parameters of a VolumeAttributesClass, which can be changed later.
pub const MUTABLE: [&str; 4] = ["onDelete", "mountPermissions", "uid", "gid"];
/// The parameters of a VolumeSnapshotClass.
pub const OF_SNAPSHOTS: [&str; 3] = [SERVER, SHARE, MOUNT_OPTIONS];
/// The NFS server. Also a key of volume_context.
pub const SERVER: &str = "server";
/// The export's path, or the name of a configured share. Also a key of volume_context.
pub const SHARE: &str = "share";
/// The volume's folder below the share. Also a key of volume_context.
pub const SUB_DIR: &str = "subDir";
/// Mount options, comma separated. Also a key of volume_context and of secrets.
pub const MOUNT_OPTIONS: &str = "mountOptions";

const QUOTA: &str = "quota";
const QUOTA_INODES: &str = "quotaInodes";
const OVERCOMMIT: &str = "overcommit";

/// What external-provisioner adds; accepted, and used in templates.
const ORCHESTRATOR: &str = "csi.storage.k8s.io/";
const TEMPLATES: [(&str, &str); 3] = [
    ("pvc.metadata.name", "csi.storage.k8s.io/pvc/name"),
    ("pvc.metadata.namespace", "csi.storage.k8s.io/pvc/namespace"),
    ("pv.metadata.name", "csi.storage.k8s.io/pv/name"),
];

/// Checked parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// `server`, as given.
    pub server: Option<String>,
    /// `share`, as given.
    pub share: Option<String>,
    /// `subDir`, templates expanded.
    pub sub_dir: Option<SubPath>,
    /// `onDelete`.
    pub on_delete: Option<OnDelete>,
    /// `mountPermissions`; unset for none and for 0.
    pub mode: Option<u32>,
    /// Whether there is a `mountPermissions`, if only 0.
    pub says_mode: bool,
    /// `uid`.
    pub uid: Option<u32>,
    /// `gid`.
    pub gid: Option<u32>,
    /// `mountOptions`, one each.
    pub mount_options: Vec<String>,
    /// `adopt`.
    pub adopt: bool,
    /// `quota`.
    pub quota: Option<Quota>,
    /// `quotaInodes`.
    pub quota_inodes: Option<u64>,
    /// `overcommit`.
    pub overcommit: Option<Ratio>,
}

/// A parameter that cannot be used: INVALID_ARGUMENT.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParameterError {
    /// It has no meaning here.
    #[error("the parameter {parameter:?} is not known here; known are {known}")]
    Unknown {
        /// Its key.
        parameter: String,
        /// What there is instead.
        known: String,
    },
    /// It is there twice, in different cases.
    #[error("the parameter {0} is given more than once")]
    Twice(&'static str),
    /// Its value is none that it can have.
    #[error("the parameter {parameter} is {value:?}: say {right}")]
    Value {
        /// Which one.
        parameter: &'static str,
        /// What it is.
        value: String,
        /// What it could be.
        right: &'static str,
    },
    /// A parameter that means nothing for a folder that exists.
    #[error(
        "the parameter {0} cannot be given with adopt: an adopted folder stays as it is, also when its volume is deleted"
    )]
    NotWithAdopt(&'static str),
    /// subDir is no safe path.
    #[error("the parameter subDir cannot be used: {0}")]
    SubDir(#[from] SubPathError),
    /// A template that does not exist, or is not closed.
    #[error(
        "the parameter subDir has the template {0:?}; known are ${{pvc.metadata.name}}, ${{pvc.metadata.namespace}} and ${{pv.metadata.name}}"
    )]
    Template(String),
    /// A template whose value was not sent.
    #[error(
        "the parameter subDir needs {0}, which was not sent: start external-provisioner with --extra-create-metadata"
    )]
    NoMetadata(&'static str),
    /// A template's value that is more or less than one component.
    #[error(
        "the parameter subDir cannot use {key} with the value {value:?}: it must be one name of a folder"
    )]
    Metadata {
        /// The parameter that carries the value.
        key: &'static str,
        /// The value.
        value: String,
    },
}

/// `value`, which `text` says of `parameter`; else what would be `right`.
fn said<T>(
    parameter: &'static str,
    text: &str,
    value: Option<T>,
    right: &'static str,
) -> Result<T, ParameterError> {
    value.ok_or_else(|| ParameterError::Value {
        parameter,
        value: text.to_owned(),
        right,
    })
}

impl Parameters {
    /// Checks `given`.
    ///
    /// # Errors
    /// When a parameter is unknown or has a value that cannot be used.
    pub fn parse(given: &BTreeMap<String, String>) -> Result<Self, ParameterError> {
        Self::parse_known(given, &KNOWN)
    }

    /// Checks the parameters of a class, of which no volume is made now: what stands for a volume's own names in `subDir` has no
    /// value then, and `subDir` ends before the first component that has such a template.
    ///
    /// # Errors
    /// As for [`Parameters::parse`], also for templates that do not exist.
    pub fn of_class(given: &BTreeMap<String, String>) -> Result<Self, ParameterError> {
        let mut filled = given.clone();
        for (_, key) in TEMPLATES {
            let value = filled.entry(key.to_owned()).or_default();
            if value.is_empty() {
                // Any name of a folder.
                "x".clone_into(value);
            }
        }
        let parsed = Self::parse(&filled)?;
        let is_sub_dir = |(key, _): &(&String, &String)| key.eq_ignore_ascii_case(SUB_DIR);
        let template = given.iter().find(is_sub_dir);
        let Some((fixed, _)) = template.and_then(|(_, text)| text.split_once("${")) else {
            return Ok(parsed);
        };
        let fixed = fixed.rsplit_once('/').map_or("", |(whole, _)| whole);
        Ok(Self {
            sub_dir: match fixed.trim_matches('/') {
                "" => None,
                whole => Some(SubPath::parse(whole)?),
            },
            ..parsed
        })
    }

    /// Checks `given`, of which only the `known` are allowed.
    ///
    /// # Errors
    /// As for [`Parameters::parse`].
    pub fn parse_known(
        given: &BTreeMap<String, String>,
        known_here: &[&'static str],
    ) -> Result<Self, ParameterError> {
        let mut values: BTreeMap<&'static str, &str> = BTreeMap::new();
        for (key, value) in given {
            if key.starts_with(ORCHESTRATOR) {
                continue;
            }
            let Some(known) = known_here
                .iter()
                .copied()
                .find(|known| known.eq_ignore_ascii_case(key))
            else {
                return Err(ParameterError::Unknown {
                    parameter: key.chars().take(128).collect(),
                    known: known_here.join(", "),
                });
            };
            if values.insert(known, value).is_some() {
                return Err(ParameterError::Twice(known));
            }
        }
        // An empty value says nothing, as an unset variable of a Helm chart does.
        let value = |key: &str| values.get(key).copied().filter(|value| !value.is_empty());
        let parsed = Self {
            server: value(SERVER).map(str::to_owned),
            share: value(SHARE).map(str::to_owned),
            sub_dir: match value(SUB_DIR) {
                Some(template) => Some(SubPath::of_user(&expand(template, given)?)?),
                None => None,
            },
            on_delete: value("onDelete").map(on_delete).transpose()?,
            mode: value("mountPermissions")
                .map(mode)
                .transpose()?
                .filter(|mode| *mode != 0),
            says_mode: value("mountPermissions").is_some(),
            uid: value("uid").map(|text| number("uid", text)).transpose()?,
            gid: value("gid").map(|text| number("gid", text)).transpose()?,
            mount_options: value(MOUNT_OPTIONS).map(split_options).unwrap_or_default(),
            adopt: value("adopt").map(adopt).transpose()?.unwrap_or(false),
            quota: value(QUOTA).map(quota).transpose()?,
            quota_inodes: value(QUOTA_INODES).map(inodes).transpose()?,
            overcommit: value(OVERCOMMIT).map(overcommit).transpose()?,
        };
        parsed.check_adoption()?;
        Ok(parsed)
    }

    fn check_adoption(&self) -> Result<(), ParameterError> {
        let refused = [
            (
                "onDelete",
                self.on_delete
                    .is_some_and(|policy| policy != OnDelete::Retain),
            ),
            ("mountPermissions", self.mode.is_some()),
            ("uid", self.uid.is_some()),
            ("gid", self.gid.is_some()),
            (QUOTA, self.quota == Some(Quota::Enforce)),
            (QUOTA_INODES, self.quota_inodes.is_some()),
        ];
        match refused.into_iter().find(|(_, given)| self.adopt && *given) {
            Some((parameter, _)) => Err(ParameterError::NotWithAdopt(parameter)),
            None => Ok(()),
        }
    }

    /// These, with what `mutable` ones say instead.
    ///
    /// # Errors
    /// When the folder is adopted and they would change it.
    pub fn with(mut self, mutable: Self) -> Result<Self, ParameterError> {
        self.on_delete = mutable.on_delete.or(self.on_delete);
        self.mode = mutable.mode.or(self.mode);
        self.says_mode |= mutable.says_mode;
        self.uid = mutable.uid.or(self.uid);
        self.gid = mutable.gid.or(self.gid);
        self.check_adoption()?;
        Ok(self)
    }
}

/// The mount options in `secrets`, which may carry them instead of the parameters; other secrets are nobody's business.
pub fn secret_options(secrets: &BTreeMap<String, String>) -> Vec<String> {
    let options = value_of(secrets, MOUNT_OPTIONS);
    options.map(split_options).unwrap_or_default()
}

/// The value of `key`, whatever the case of its letters: users write `subdir` and `subDir`.
pub(crate) fn value_of<'a>(given: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    let any_case = || {
        let mut entries = given.iter();
        entries.find(|(given, _)| given.eq_ignore_ascii_case(key))
    };
    let exact = given.get_key_value(key);
    exact.or_else(any_case).map(|(_, value)| value.as_str())
}

/// Splits comma-separated mount options.
pub fn split_options(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|option| !option.is_empty())
        .map(str::to_owned)
        .collect()
}

fn on_delete(text: &str) -> Result<OnDelete, ParameterError> {
    let right = "delete, retain or archive";
    said("onDelete", text, OnDelete::parse(text), right)
}

fn adopt(text: &str) -> Result<bool, ParameterError> {
    let value = text.to_ascii_lowercase().parse().ok();
    said("adopt", text, value, "true or false")
}

pub(crate) fn mode(text: &str) -> Result<u32, ParameterError> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    // from_str_radix takes a sign.
    let octal = !digits.is_empty() && digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
    let mode = u32::from_str_radix(digits, 8).ok();
    let mode = mode.filter(|mode| octal && *mode <= 0o7777);
    let right = "an octal mode such as 0770, at most 7777";
    said("mountPermissions", text, mode, right)
}

pub(crate) fn number(parameter: &'static str, text: &str) -> Result<u32, ParameterError> {
    let decimal = text.bytes().all(|b| b.is_ascii_digit());
    // The kernel takes the largest number for "leave it as it is".
    let number = text.parse().ok();
    let number = number.filter(|number| decimal && *number != u32::MAX);
    said(parameter, text, number, "a number from 0 to 4294967294")
}

fn quota(text: &str) -> Result<Quota, ParameterError> {
    said(QUOTA, text, Quota::parse(text), "enforce or advise")
}

fn inodes(text: &str) -> Result<u64, ParameterError> {
    let decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    // The kernel's numbers are signed.
    let number = text.parse().ok();
    let number = number.filter(|number| decimal && (1..=i64::MAX as u64).contains(number));
    said(QUOTA_INODES, text, number, "a number from 1")
}

fn overcommit(text: &str) -> Result<Ratio, ParameterError> {
    let right = "a number from 0.001 to 1000 with at most three decimals, such as 1.5";
    said(OVERCOMMIT, text, Ratio::parse(text), right)
}

/// Replaces templates by their values. A value is one component, so that nobody's name moves the folder elsewhere.
pub(crate) fn expand(
    template: &str,
    given: &BTreeMap<String, String>,
) -> Result<String, ParameterError> {
    let mut expanded = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let wrong = || ParameterError::Template(template.to_owned());
        let (name, after) = after.split_once('}').ok_or_else(wrong)?;
        let (_, key) = TEMPLATES
            .into_iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(wrong)?;
        let value = given
            .get(key)
            .filter(|value| !value.is_empty())
            .ok_or(ParameterError::NoMetadata(key))?;
        let component = SubPath::parse(value).ok();
        if component.is_none_or(|path| path.to_string() != *value || path.components().len() != 1) {
            return Err(ParameterError::Metadata {
                key,
                value: value.chars().take(128).collect(),
            });
        }
        expanded.push_str(value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Parameters, ParameterError> {
        let map = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        Parameters::parse(&map)
    }

    #[test]
    fn keys_have_any_case_and_orchestrators_may_add_theirs() {
        let parsed = parse(&[
            ("SERVER", "s"),
            ("Share", "a"),
            ("subdir", "x/y"),
            ("ondelete", "Retain"),
            ("mountpermissions", "0770"),
            ("UID", "1000"),
            ("gid", "0"),
            ("mountOptions", "nfsvers=4.1, hard,,"),
            ("Quota", "Enforce"),
            ("quotainodes", "1000"),
            ("OverCommit", "1.50"),
            ("csi.storage.k8s.io/pv/name", "pv"),
            ("csi.storage.k8s.io/else", "x"),
        ])
        .unwrap();
        assert_eq!(parsed.server.as_deref(), Some("s"));
        assert_eq!(parsed.sub_dir.unwrap().to_string(), "x/y");
        assert_eq!(parsed.on_delete, Some(OnDelete::Retain));
        assert_eq!(parsed.mode, Some(0o770));
        assert_eq!((parsed.uid, parsed.gid), (Some(1000), Some(0)));
        assert_eq!(parsed.mount_options, ["nfsvers=4.1", "hard"]);
        assert_eq!(parsed.quota, Some(Quota::Enforce));
        assert_eq!(parsed.quota_inodes, Some(1000));
        assert_eq!(parsed.overcommit, Ratio::parse("1.5"));
    }

    #[test]
    fn unknown_and_repeated_keys_are_named() {
        let error = parse(&[("subdirectory", "x")]).unwrap_err().to_string();
        assert!(
            error.contains("subdirectory") && error.contains("mountPermissions"),
            "{error}"
        );
        assert_eq!(
            parse(&[("uid", "1"), ("UID", "2")]).unwrap_err(),
            ParameterError::Twice("uid")
        );
    }

    #[test]
    fn wrong_values_are_refused() {
        for (key, value) in [
            ("onDelete", "destroy"),
            ("adopt", "yes"),
            ("quota", "yes"),
            ("quotaInodes", "0"),
            ("quotaInodes", "+1"),
            ("quotaInodes", "9223372036854775808"),
            ("overcommit", "0"),
            ("overcommit", "1e3"),
            ("overcommit", "150%"),
            ("mountPermissions", "0888"),
            ("mountPermissions", "+7"),
            ("mountPermissions", "10000"),
            ("uid", "-1"),
            ("uid", "+1"),
            ("gid", "4294967295"),
            ("subDir", "/"),
            ("subDir", "../x"),
            ("subDir", ".csi-nfs/volumes"),
            ("subDir", "a/../../b"),
            ("subDir", "${pvc.metadata.uid}"),
            ("subDir", "${pvc"),
        ] {
            assert!(parse(&[(key, value)]).is_err(), "{key}={value}");
        }
        assert_eq!(parse(&[("mountPermissions", "0")]).unwrap().mode, None);
    }

    #[test]
    fn an_adopted_folder_stays_as_it_is() {
        let adopted = parse(&[("adopt", "True")]).unwrap();
        assert!(parse(&[("adopt", "true"), ("onDelete", "retain")]).is_ok());
        for (key, value) in [
            ("onDelete", "delete"),
            ("uid", "1"),
            ("mountPermissions", "0700"),
        ] {
            let error = parse(&[("adopt", "true"), (key, value)]).unwrap_err();
            assert!(matches!(error, ParameterError::NotWithAdopt(_)), "{error}");
            let mutable = parse(&[(key, value)]).unwrap();
            assert!(adopted.clone().with(mutable).is_err(), "{key}");
        }
    }

    #[test]
    fn a_class_is_about_what_stands_before_the_first_template() {
        let sub_dir = |text: &str| {
            let given = BTreeMap::from([("subdir".to_owned(), text.to_owned())]);
            Parameters::of_class(&given).map(|class| class.sub_dir.map(|path| path.to_string()))
        };
        for (text, expected) in [
            ("a/b", Some("a/b")),
            ("a/b/${pvc.metadata.name}", Some("a/b")),
            ("a/b-${pvc.metadata.name}/c", Some("a")),
            ("a-${pvc.metadata.name}", None),
            ("${pvc.metadata.namespace}/${pv.metadata.name}", None),
        ] {
            assert_eq!(sub_dir(text).unwrap().as_deref(), expected, "{text}");
        }
        for wrong in [
            "${x}",
            "a/${pvc",
            "../${pv.metadata.name}",
            ".csi-nfs/${pv.metadata.name}",
        ] {
            assert!(sub_dir(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn templates_are_expanded_and_checked_afterwards() {
        let template = (
            "subDir",
            "${pvc.metadata.namespace}/${pvc.metadata.name}-${pv.metadata.name}",
        );
        let metadata = |name: &'static str| {
            [
                template,
                ("csi.storage.k8s.io/pvc/namespace", "team"),
                ("csi.storage.k8s.io/pvc/name", name),
                ("csi.storage.k8s.io/pv/name", "pvc-1"),
            ]
        };
        let path = parse(&metadata("data")).unwrap().sub_dir.unwrap();
        assert_eq!(path.to_string(), "team/data-pvc-1");
        for evil in ["..", "a/b", "/", "a\n", ".", "a/"] {
            assert!(
                matches!(parse(&metadata(evil)), Err(ParameterError::Metadata { .. })),
                "{evil:?}"
            );
        }
        let error = parse(&[template]).unwrap_err().to_string();
        assert!(error.contains("--extra-create-metadata"), "{error}");
        // What a value holds is not expanded again.
        let path = parse(&[
            ("subDir", "${pvc.metadata.name}"),
            ("csi.storage.k8s.io/pvc/name", "${pv.metadata.name}"),
        ]);
        assert_eq!(
            path.unwrap().sub_dir.unwrap().to_string(),
            "${pv.metadata.name}"
        );
    }
}
