//! What this program itself does at a path: it makes and removes folders, and mounts where a driver leaves that to its caller. A
//! path may lie on a server that does not answer, so that all of it happens beside the calls, on a thread that may block, and the
//! call is answered at its deadline all the same.

use super::error::FlexError;
use super::taken::Taken;
use csi_invocation::mount_points;
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use tokio::time::{Instant, timeout_at};

/// A path as the kernel's table has it: without links in its folder, which is no volume.
pub struct MountPoint(PathBuf);

impl MountPoint {
    /// Follows the links in the path's folder.
    ///
    /// # Errors
    /// When the folder does not answer in time.
    pub async fn of(path: &Path, bounds: &Bounds) -> Result<Self, FlexError> {
        let resolved = at(path, "cannot look up", bounds, |path| {
            let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
            Ok(match (folder, path.file_name()) {
                (Some(folder), Some(name)) => folder.join(name),
                _ => path.to_owned(),
            })
        });
        resolved.await.map(Self)
    }

    /// Whether a volume is mounted there now, by the kernel's table, which asks no file system.
    pub fn is_mounted(&self) -> Result<bool, FlexError> {
        let all = mount_points::all();
        let all = all.map_err(failed("cannot read", Path::new("/proc/self/mountinfo")))?;
        Ok(all.contains(&self.0))
    }
}

/// What bounds the work at a path.
pub struct Bounds {
    /// When the caller is answered, whatever the path does.
    pub deadline: Instant,
    /// The volume, which stays taken as long as the work goes on.
    pub taken: Taken,
}

/// Makes the folder that a volume is mounted to.
///
/// # Errors
/// When the folder above it does not exist, or the system refuses.
pub async fn make_folder(path: &Path, bounds: &Bounds) -> Result<(), FlexError> {
    at(
        path,
        "cannot make",
        bounds,
        |path| match fs::DirBuilder::new().mode(0o750).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            made => made,
        },
    )
    .await
}

/// Removes that folder again. It is no error when it is not there.
///
/// # Errors
/// When something is in it, or the system refuses.
pub async fn remove_folder(path: &Path, bounds: &Bounds) -> Result<(), FlexError> {
    at(path, "cannot remove", bounds, |path| {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    })
    .await
}

/// Shows the staged volume at its target, as the kubelet does for drivers that have no mount.
///
/// # Errors
/// When the system refuses; then nothing is mounted.
pub async fn bind(
    from: &Path,
    to: &Path,
    read_only: bool,
    bounds: &Bounds,
) -> Result<(), FlexError> {
    let from = from.to_owned();
    at(to, "cannot mount the staged volume at", bounds, move |to| {
        mount_bind(&from, to)?;
        if read_only
            && let Err(error) = mount_remount(to, MountFlags::BIND | MountFlags::RDONLY, "")
        {
            unmount(to, UnmountFlags::DETACH)?;
            return Err(error.into());
        }
        Ok(())
    })
    .await
}

/// Unmounts, as the kubelet does for drivers that have no unmount.
pub async fn take_off(path: &Path, bounds: &Bounds) -> Result<(), FlexError> {
    at(path, "cannot unmount", bounds, |path| {
        match unmount(path, UnmountFlags::NOFOLLOW) {
            // Nothing is mounted there.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
            unmounted => Ok(unmounted?),
        }
    })
    .await
}

/// What a file system holds, in bytes and in inodes: all, used, and what anybody may still use.
pub struct Usage {
    /// Bytes.
    pub bytes: [i64; 3],
    /// Inodes.
    pub inodes: [i64; 3],
}

/// Asks the file system at a path what it holds.
pub async fn usage(path: &Path, bounds: &Bounds) -> Result<Usage, FlexError> {
    at(path, "cannot ask the file system at", bounds, |path| {
        let all = rustix::fs::statvfs(path)?;
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let bytes = |blocks: u64| number(blocks.saturating_mul(all.f_frsize));
        let used = |total: u64, free: u64| total.saturating_sub(free);
        Ok(Usage {
            bytes: [
                bytes(all.f_blocks),
                bytes(used(all.f_blocks, all.f_bfree)),
                bytes(all.f_bavail),
            ],
            inodes: [
                number(all.f_files),
                number(used(all.f_files, all.f_ffree)),
                number(all.f_favail),
            ],
        })
    })
    .await
}

async fn at<T: Send + 'static>(
    path: &Path,
    doing: &'static str,
    bounds: &Bounds,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, FlexError> {
    let began = Instant::now();
    let (there, taken) = (path.to_owned(), bounds.taken.clone());
    let working = tokio::task::spawn_blocking(move || {
        let done = work(&there);
        drop(taken);
        done
    });
    match timeout_at(bounds.deadline, working).await {
        Ok(Ok(done)) => done.map_err(failed(doing, path)),
        Ok(Err(_)) => Err(FlexError::Died),
        Err(_) => Err(FlexError::Late {
            doing,
            path: path.to_owned(),
            after: began.elapsed(),
        }),
    }
}

fn failed(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> FlexError {
    let path = path.to_owned();
    move |cause| FlexError::Path {
        doing,
        path: path.clone(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::super::taken::Running;
    use super::*;
    use std::sync::mpsc::channel;

    #[tokio::test]
    async fn a_path_that_does_not_answer_costs_the_caller_no_more_than_its_time_and_keeps_its_volume()
     {
        let running = Running::default();
        let take = || Taken::take(&running, "v".to_owned(), "NodeGetVolumeStats");
        let (open, gate) = channel::<()>();
        let bounds = Bounds {
            deadline: Instant::now(),
            taken: take().expect("a volume"),
        };
        let late = at(Path::new("/p"), "cannot ask", &bounds, move |_| {
            let _ = gate.recv();
            Ok(())
        });
        let late = late.await.expect_err("an answer from a path that has none");
        assert!(matches!(late, FlexError::Late { .. }), "{late}");
        assert!(!late.did_nothing());
        let said = late.to_string();
        assert!(
            said.starts_with("cannot ask /p: no answer after "),
            "{said}"
        );
        drop(bounds);
        assert!(take().is_err(), "taken as long as the work goes on");
        drop(open);
        while take().is_err() {
            tokio::task::yield_now().await;
        }
    }
}
