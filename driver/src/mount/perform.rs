//! Performs a task by the calls that it takes. Runs where a call may block: in a helper process, or, for tasks that ask no server, in
//! a thread of its own. Must not decide what is mounted where.

use crate::mount::bind;
use crate::mount::kernel;
use crate::mount::nfs;
use crate::mount::task::{Done, Failure, Place, Say, Task, asking_usage};

/// Does `task`.
///
/// # Errors
/// When it cannot be done; nothing is left behind then but what the task says.
pub fn perform(task: &Task, say: Say<'_>) -> Result<Done, Failure> {
    let mut done = Done::default();
    match task {
        Task::MountNfs { source, place } => {
            done = nfs::mount_nfs(source, place, say)?;
            if let Place::At {
                target, ownership, ..
            } = place
            {
                kernel::dress(target, *ownership, say)?;
            }
        }
        Task::Bind {
            root,
            below,
            target,
            flags,
            without,
            ownership,
            is_nfs,
        } => {
            if *is_nfs {
                say(format!("asking the server of {}", root.display()));
                kernel::refuse_stale(root)?;
            }
            say(format!("binding {}", target.display()));
            bind::bind((root, below), *is_nfs, target, *flags, without.as_deref())?;
            kernel::dress(target, *ownership, say)?;
        }
        Task::SetOwnership { target, ownership } => {
            say(format!("asking the server of {}", target.display()));
            kernel::refuse_stale(target)?;
            kernel::dress(target, *ownership, say)?;
        }
        Task::Unmount { target, lazy } => {
            say(format!("unmounting {}", target.display()));
            kernel::unmount(target, *lazy)?;
        }
        Task::Usage { path } => {
            say(asking_usage(path));
            done.usage = Some(kernel::usage(path)?);
        }
        Task::TryNfsClient => {
            say("asking the kernel for its NFS client".to_owned());
            nfs::try_nfs_client()?;
        }
    }
    Ok(done)
}
