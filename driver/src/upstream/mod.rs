//! What this driver knows of kubernetes-csi's driver, whose volumes and snapshots it can serve: their ids, their attributes, their
//! folders and archives. The calls about them are `calls::controller::upstream`.

#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
#[cfg(feature = "upstream")]
mod archive;
pub(crate) mod attributes;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub(crate) mod folders;
pub mod ids;

use crate::share::archives::Archives;

/// What unpacks the archives of kubernetes-csi's driver; nothing in a build without that.
pub fn archives() -> Option<&'static dyn Archives> {
    #[cfg(feature = "upstream")]
    return Some(&archive::UpstreamArchives);
    #[cfg(not(feature = "upstream"))]
    None
}
