//! Performs a task by the calls that it takes. Runs where a call may block: in a helper process, or, for tasks that ask no server, in
//! a thread of its own. Must not decide what is mounted where.

use crate::mount::bind;
use crate::mount::kernel;
use crate::mount::nfs::{self, Destination};
use crate::mount::options::Version;
use crate::mount::private;
use crate::mount::task::{Done, Failure, FailureKind, Say, Task};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Does `task`; a file descriptor comes with the answer of a detached mount.
///
/// # Errors
/// When it cannot be done; nothing is left behind then.
pub fn perform(task: &Task, say: Say<'_>) -> Result<(Done, Option<OwnedFd>), Failure> {
    match task {
        Task::MountNfs {
            source,
            below,
            target,
            without,
        } => {
            let place = Destination::At {
                target,
                below,
                without: without.as_deref(),
            };
            let (version, _) = nfs::mount_nfs(source, &place, say)?;
            Ok((with_version(version), None))
        }
        Task::MountDetached {
            source,
            scratch,
            show,
        } => {
            let place = Destination::Nowhere {
                scratch,
                show: *show,
            };
            let (version, detached) = nfs::mount_nfs(source, &place, say)?;
            let mut done = with_version(version);
            let root = detached.map(|detached| {
                done.shown = detached.shown;
                detached.root
            });
            Ok((done, root))
        }
        Task::Bind {
            root,
            below,
            target,
            flags,
            without,
        } => {
            say(format!("binding {}", target.display()));
            bind::bind(root, below, target, *flags, without.as_deref())
                .map(|()| (Done::default(), None))
        }
        Task::SetOwnership { target, ownership } => {
            say(format!("changing owner and mode of {}", target.display()));
            kernel::dress(target, *ownership).map(|()| (Done::default(), None))
        }
        Task::Unmount { target, lazy } => {
            say(format!("unmounting {}", target.display()));
            kernel::unmount(target, *lazy).map(|()| (Done::default(), None))
        }
        Task::Usage { path } => {
            say(format!("asking how full {} is", path.display()));
            let done = Done {
                usage: Some(kernel::usage(path)?),
                ..Done::default()
            };
            Ok((done, None))
        }
        Task::TryNfsClient => {
            say("asking the kernel for its NFS client".to_owned());
            nfs::try_nfs_client().map(|()| (Done::default(), None))
        }
        Task::TryNamespace => private::become_private()
            .map(|()| (Done::default(), None))
            .map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                Failure::new(
                    FailureKind::NotPermitted,
                    errno,
                    "a mount namespace of one's own",
                )
            }),
    }
}

fn with_version(version: Version) -> Done {
    Done {
        version: Some(version),
        ..Done::default()
    }
}
