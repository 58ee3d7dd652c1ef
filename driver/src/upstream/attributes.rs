//! Volume attributes that kubernetes-csi's driver has and ours has not: templates in `subDir`, and `mountPermissions`, `uid`
//! and `gid`, which that driver gives to the folder that it has mounted. Owns which of them count. The share's own folder is
//! never given anything.

use crate::calls::node::error::NodeError;
use crate::calls::parameters;
use crate::mount::task::Ownership;
use csi_nfs_store::share::paths::sub_path::SubPath;
use std::collections::BTreeMap;

/// By which external-provisioner marks the volumes that it had made: they got their owner then.
const PROVISIONED: &str = "storage.kubernetes.io/csiProvisionerIdentity";

/// The folder of a volume whose attributes may hold templates and what to put in their place.
///
/// # Errors
/// When a template has no value, or the path is not safe with it.
pub(crate) fn sub_dir(
    text: &str,
    context: &BTreeMap<String, String>,
) -> Result<SubPath, NodeError> {
    let expanded = parameters::expand(text, context).map_err(invalid)?;
    Ok(SubPath::parse(&expanded)?)
}

fn invalid(error: parameters::ParameterError) -> NodeError {
    NodeError::Invalid {
        field: "volume_context",
        problem: error.to_string(),
    }
}

impl Ownership {
    /// What the attributes ask for, and the driver as a whole where they name no mode; nothing when neither does.
    ///
    /// # Errors
    /// When one of them has a value that cannot be.
    pub(crate) fn of_upstream(
        context: &BTreeMap<String, String>,
        driver_wide_mode: Option<u32>,
    ) -> Result<Option<Self>, NodeError> {
        let get = |key| parameters::value_of(context, key).filter(|value| !value.is_empty());
        let number = |key| {
            let text = get(key).filter(|_| !context.contains_key(PROVISIONED));
            text.map(|text| parameters::number(key, text)).transpose()
        };
        let read = || {
            Ok(Self {
                // 0 leaves it as it is.
                mode: get("mountPermissions")
                    .map(parameters::mode)
                    .transpose()?
                    .or(driver_wide_mode)
                    .filter(|mode| *mode != 0),
                uid: number("uid")?,
                gid: number("gid")?,
            })
        };
        let asked = read().map_err(invalid)?;
        Ok((asked != Self::default()).then_some(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        owned.collect()
    }

    #[test]
    fn upstream_attributes_are_checked() {
        let read = |pairs: &[(&str, &str)]| Ownership::of_upstream(&context(pairs), None);
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[("mountPermissions", "0")]).unwrap(), None);
        assert_eq!(read(&[("mountPermissions", "")]).unwrap(), None);
        let asked = read(&[("mountpermissions", "0770"), ("uid", "7"), ("GID", "8")]);
        let asked = asked.unwrap().unwrap();
        assert_eq!(
            (asked.mode, asked.uid, asked.gid),
            (Some(0o770), Some(7), Some(8))
        );
        // Of a volume that was provisioned, CreateVolume has set the owner.
        let asked = read(&[
            ("mountPermissions", "0770"),
            ("uid", "7"),
            (PROVISIONED, "x"),
        ]);
        assert_eq!(asked.unwrap().unwrap().uid, None);
        // The driver as a whole has the last word.
        for (pairs, mode) in [
            (&[][..], Some(0o777)),
            (&[("mountPermissions", "")], Some(0o777)),
            (&[("mountPermissions", "0750")], Some(0o750)),
            (&[("mountPermissions", "0")], None),
        ] {
            let asked = Ownership::of_upstream(&context(pairs), Some(0o777)).unwrap();
            assert_eq!(asked.and_then(|asked| asked.mode), mode, "{pairs:?}");
        }
        for (key, value) in [
            ("mountPermissions", "rwx"),
            ("uid", "-1"),
            ("gid", "4294967295"),
        ] {
            let error = read(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn templates_are_filled_in_or_refused() {
        let metadata = context(&[
            ("csi.storage.k8s.io/pvc/name", "data"),
            ("csi.storage.k8s.io/pvc/namespace", ".."),
        ]);
        let path = |text| sub_dir(text, &metadata).map(|path| path.to_string());
        assert_eq!(path("a/${pvc.metadata.name}").unwrap(), "a/data");
        for text in [
            "${pv.metadata.name}",
            "a/${pvc.metadata.namespace}",
            "${pvc",
            "../x",
            "${x}",
        ] {
            assert!(path(text).is_err(), "{text}");
        }
    }
}
