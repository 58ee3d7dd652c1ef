//! The folders that runs of this program make for a driver. Each says in an attribute which driver that is, for whoever finds it
//! after the run was killed.
//!
//! The attribute goes with its folder. Where a file system has none, nobody knows the driver.

use crate::call::endpoint::Endpoint;
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use std::path::Path;

const ATTRIBUTE: &str = "user.csi.driver";

/// The longest name of a driver that is read.
const LONGEST: usize = 4096;

/// Notes whose folder it is.
pub fn mark(folder: &Path, driver: &Endpoint) {
    // The run needs it not.
    let _ = lsetxattr(
        folder,
        ATTRIBUTE,
        name(driver).as_bytes(),
        XattrFlags::empty(),
    );
}

/// The driver of a folder, where that is noted.
pub fn driver_of(folder: &Path) -> Option<String> {
    let mut name = vec![0; LONGEST];
    let length = lgetxattr(folder, ATTRIBUTE, &mut name).ok()?;
    name.truncate(length);
    String::from_utf8(name).ok()
}

/// What a driver is called in every folder of this machine, without credentials.
pub fn name(driver: &Endpoint) -> String {
    match driver.is_on_this_machine() {
        true => driver.named_everywhere(),
        false => driver.without_credentials(),
    }
}

/// Whether a name is that of the driver.
pub fn names(name_of_one: &str, driver: &Endpoint) -> bool {
    let same = |one: Endpoint| one.names_the_same(driver);
    name_of_one == name(driver) || Endpoint::parse(name_of_one).is_ok_and(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_known_by_every_name_of_its_own() {
        for (noted, driver, is) in [
            ("unix:///a/b", "/a/b", true),
            ("unix:///a/b", "unix:/a/c", false),
            ("mock:/m", "mock:/m", true),
            ("mock:/m", "mock:/n", false),
            ("exec:ssh …", "exec:ssh host token", true),
            ("", "/a/b", false),
        ] {
            let driver = Endpoint::parse(driver).unwrap();
            assert_eq!(names(noted, &driver), is, "{noted} {driver}");
        }
        let relative = Endpoint::parse("mock:m").unwrap();
        assert!(name(&relative).starts_with("mock:/"), "{relative}");
    }
}
