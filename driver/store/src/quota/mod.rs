//! Sizes that are real: project quotas of the file system that a share lies on, set by a process on its server. Plain Rust over
//! open folders of the local file system. Blocking; must know no shares, records or gRPC: whose a project is, its caller says.
//!
//! A volume's folder is a project of its own, with a limit. The folder's own id is the truth; the ledger has an entry for each
//! id before anything has that id, and until nothing has it any more. So what is in no ledger is somebody else's, and is never
//! touched: another share's on the same file system, or an administrator's.

pub mod ability;
pub mod amounts;
mod draw;
pub mod enable_quota;
pub mod error;
pub mod exports;
pub mod held;
pub mod ledger;
pub mod leftover;
pub mod project;
pub mod project_id;
