//! The options of a call-out: what CSI says of a volume, in FlexVolume's words. Pure.

use super::request::How;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;

/// Options of a volume, by their names.
pub type Options = BTreeMap<String, String>;

/// The name of the device of an attached volume in its publish context.
pub const DEVICE: &str = "flex.csi.internal/device";

const SECRET: &str = "kubernetes.io/secret/";
const FS_TYPE: &str = "kubernetes.io/fsType";
const READ_WRITE: &str = "kubernetes.io/readwrite";
const NAME: &str = "kubernetes.io/pvOrVolumeName";
const FS_GROUP: &str = "kubernetes.io/mounterArgs.FsGroup";

/// What the kubelet and its sidecars add to a volume's context, of which these have the same end in FlexVolume.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";
const FROM_CONTEXT: [&str; 4] = [
    "pod.name",
    "pod.namespace",
    "pod.uid",
    "serviceAccount.name",
];

/// The options of a volume that is used so. What FlexVolume itself says counts more than what a volume's context says under the
/// same name.
pub fn options(volume: &str, how: &How, contexts: &[&BTreeMap<String, String>]) -> Options {
    let all = || contexts.iter().flat_map(|context| context.iter());
    let own = all().filter(|(key, _)| !key.starts_with(OF_KUBERNETES) && *key != DEVICE);
    let mut options: Options = own
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    options.insert(NAME.to_owned(), volume.to_owned());
    for (key, value) in all() {
        let name = match key.strip_prefix(OF_KUBERNETES) {
            Some("pv/name") => NAME.to_owned(),
            Some(end) if FROM_CONTEXT.contains(&end) => format!("kubernetes.io/{end}"),
            _ => continue,
        };
        options.insert(name, value.clone());
    }
    options.insert(FS_TYPE.to_owned(), how.fs_type.clone());
    let access = if how.is_read_only() { "ro" } else { "rw" };
    options.insert(READ_WRITE.to_owned(), access.to_owned());
    if !how.group.is_empty() {
        options.insert(FS_GROUP.to_owned(), how.group.clone());
    }
    options
}

/// The argument of a call-out: the options with secrets, as JSON.
pub fn argument(options: &Options, secrets: &BTreeMap<String, String>) -> String {
    let mut all = options.clone();
    for (name, value) in secrets {
        all.insert(format!("{SECRET}{name}"), STANDARD.encode(value));
    }
    let members = all.into_iter().map(|(name, value)| (name, value.into()));
    serde_json::Value::Object(members.collect()).to_string()
}

/// The texts that must be shown nowhere when these secrets are given to a call-out: themselves, and as FlexVolume writes them.
pub fn texts_of(secrets: &[String]) -> Vec<String> {
    let both = |value: &String| [value.clone(), STANDARD.encode(value)];
    secrets.iter().flat_map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn csi_is_said_in_the_words_of_flexvolume() {
        let how = How {
            mode: "SINGLE_NODE_WRITER".to_owned(),
            fs_type: "ext4".to_owned(),
            ..How::default()
        };
        let plain = [
            (FS_TYPE, "ext4"),
            (READ_WRITE, "rw"),
            (NAME, "vol-1"),
            ("server", "s"),
        ];
        let read_only = How {
            readonly: true,
            ..how.clone()
        };
        let reader = How {
            mode: "MULTI_NODE_READER_ONLY".to_owned(),
            ..how.clone()
        };
        let group = How {
            group: "4000".to_owned(),
            ..how.clone()
        };
        for (how, context, publish_context, expected) in [
            (&how, &[("server", "s")][..], &[][..], &plain[..]),
            // What the controller says counts more than what was said of the volume.
            (
                &how,
                &[("server", "a")],
                &[("server", "s"), (DEVICE, "/dev/x")],
                &plain,
            ),
            (
                &read_only,
                &[],
                &[],
                &[(FS_TYPE, "ext4"), (READ_WRITE, "ro"), (NAME, "vol-1")],
            ),
            (
                &reader,
                &[],
                &[],
                &[(FS_TYPE, "ext4"), (READ_WRITE, "ro"), (NAME, "vol-1")],
            ),
            (
                &group,
                &[],
                &[],
                &[
                    (FS_TYPE, "ext4"),
                    (FS_GROUP, "4000"),
                    (READ_WRITE, "rw"),
                    (NAME, "vol-1"),
                ],
            ),
            (
                &how,
                &[
                    ("csi.storage.k8s.io/pod.name", "p"),
                    ("csi.storage.k8s.io/pod.namespace", "n"),
                    ("csi.storage.k8s.io/pod.uid", "u"),
                    ("csi.storage.k8s.io/serviceAccount.name", "a"),
                    (
                        "csi.storage.k8s.io/serviceAccount.tokens",
                        "never handed on",
                    ),
                    ("csi.storage.k8s.io/pv/name", "pv-1"),
                    (READ_WRITE, "rw, as the context has it"),
                ],
                &[],
                &[
                    (FS_TYPE, "ext4"),
                    (READ_WRITE, "rw"),
                    (NAME, "pv-1"),
                    ("kubernetes.io/pod.name", "p"),
                    ("kubernetes.io/pod.namespace", "n"),
                    ("kubernetes.io/pod.uid", "u"),
                    ("kubernetes.io/serviceAccount.name", "a"),
                ],
            ),
        ] {
            let contexts = [&map(context), &map(publish_context)];
            assert_eq!(options("vol-1", how, &contexts), map(expected));
        }
    }

    #[test]
    fn secrets_are_base64_in_the_argument_and_nowhere_else() {
        let secrets = map(&[("user", "hunter2"), ("key", "\u{0}\"")]);
        let text = argument(&map(&[("a", "b")]), &secrets);
        assert_eq!(
            text,
            r#"{"a":"b","kubernetes.io/secret/key":"ACI=","kubernetes.io/secret/user":"aHVudGVyMg=="}"#
        );
        assert_eq!(
            texts_of(&secrets.into_values().collect::<Vec<_>>()),
            ["\u{0}\"", "ACI=", "hunter2", "aHVudGVyMg=="]
        );
    }
}
