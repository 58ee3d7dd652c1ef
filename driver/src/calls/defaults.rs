//! What a volume of a class is wanted to be, and what holds where neither its id nor its class says: what becomes of its folder at the
//! end, and the folder's mode.
//! Owns the order: the id, the class, then what the whole driver was started with.

use crate::calls::parameters::Parameters;
use csi_nfs_store::share::records::volume::{OnDelete, Wanted};

/// The mode of a new volume's folder when nobody says.
pub const DEFAULT_MODE: u32 = 0o755;

/// What the whole driver was started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// What becomes of folders.
    pub on_delete: OnDelete,
    /// Their mode.
    pub mode: Option<u32>,
}

impl Defaults {
    /// What a volume of this `class` is to be. Its name, its sizes and its source are as `asked`.
    pub fn wanted(&self, class: Parameters, asked: Wanted) -> Wanted {
        Wanted {
            on_delete: self.on_delete(&class),
            mode: self.folder_mode(&class, asked.source.is_some()),
            sub_dir: class.sub_dir,
            uid: class.uid,
            gid: class.gid,
            mount_options: class.mount_options,
            adopt: class.adopt,
            quota: class.quota,
            inodes: class.quota_inodes,
            overcommit: class.overcommit,
            ..asked
        }
    }

    /// What becomes of a new volume's folder. Nobody deletes an adopted one.
    pub fn on_delete(&self, class: &Parameters) -> OnDelete {
        match class.on_delete {
            Some(policy) => policy,
            None if class.adopt => OnDelete::Retain,
            None => self.on_delete,
        }
    }

    /// The mode of a new volume's folder. A copy has its source's unless another is asked for, and an adopted folder its own.
    pub fn folder_mode(&self, class: &Parameters, is_copy: bool) -> Option<u32> {
        let driver_wide = self.mode.filter(|_| !class.says_mode && !class.adopt);
        let asked = class.mode.or(driver_wide);
        asked.or((!is_copy).then_some(DEFAULT_MODE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(pairs: &[(&str, &str)]) -> Parameters {
        let pairs = pairs.iter();
        let given = pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Parameters::parse(&given.collect()).unwrap()
    }

    #[test]
    fn a_class_counts_before_the_driver() {
        let retain = Defaults {
            on_delete: OnDelete::Retain,
            mode: None,
        };
        for (driver, pairs, expected) in [
            (Defaults::default(), &[][..], OnDelete::Delete),
            (retain, &[], OnDelete::Retain),
            (retain, &[("onDelete", "")], OnDelete::Retain),
            (retain, &[("onDelete", "delete")], OnDelete::Delete),
            (retain, &[("onDelete", "archive")], OnDelete::Archive),
            (Defaults::default(), &[("adopt", "true")], OnDelete::Retain),
        ] {
            assert_eq!(driver.on_delete(&class(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_class_may_leave_the_mode_as_it_is() {
        const NAME: &str = "mountPermissions";
        let open = Defaults {
            mode: Some(0o777),
            ..Defaults::default()
        };
        for (driver, pairs, new, copy) in [
            (Defaults::default(), &[][..], Some(0o755), None),
            (Defaults::default(), &[(NAME, "0")], Some(0o755), None),
            (open, &[], Some(0o777), Some(0o777)),
            (open, &[(NAME, "")], Some(0o777), Some(0o777)),
            (open, &[(NAME, "0")], Some(0o755), None),
            (open, &[(NAME, "0700")], Some(0o700), Some(0o700)),
            (open, &[("adopt", "true")], Some(0o755), None),
        ] {
            let found = [false, true].map(|is_copy| driver.folder_mode(&class(pairs), is_copy));
            assert_eq!(found, [new, copy], "{pairs:?}");
        }
        // A class of attributes counts before the other one.
        let attributes = class(&[(NAME, "0")]);
        let both = class(&[]).with(attributes).unwrap();
        assert_eq!(open.folder_mode(&both, false), Some(0o755));
    }
}
