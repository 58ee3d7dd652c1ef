//! Files and folders below a root that others change meanwhile: how they are opened, walked and copied. Knows no records.

pub mod admission;
#[cfg(feature = "upstream")]
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub(crate) mod archive;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub mod beneath;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub mod copying;
pub(crate) mod crash_points;
pub mod descriptors;
pub mod owner;
pub(crate) mod pool;
pub mod roots;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests may block")]
mod small_disk;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub(crate) mod walking;
