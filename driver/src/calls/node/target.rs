//! Finds the real path of a target, and what stands there. Touches a target only when mountinfo shows that nothing
//! is mounted on it.

use crate::calls::node::error::NodeError;
use crate::mount::mountinfo::Mount;
use crate::process::disk_thread::DiskThreads;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tokio::time::{Instant, timeout_at};

/// What stands at a target on which nothing is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bare {
    /// Nothing.
    Nothing,
    /// An empty folder.
    EmptyFolder,
    /// A folder with something in it.
    FullFolder,
    /// A symlink, and where it leads.
    Symlink(PathBuf),
    /// A file or something else.
    Other,
}

/// `target` as mountinfo shows it: without symlinks above its last component. `None` when its parent does not exist
/// or is no folder.
pub async fn locate(target: &Path) -> Result<Option<PathBuf>, NodeError> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Ok(None);
    };
    let parent = parent.to_owned();
    let context = format!("looking up {}", parent.display());
    let looking = move || match parent.canonicalize() {
        Ok(parent) => Ok(parent.metadata()?.is_dir().then_some(parent)),
        Err(error) if is_nothing(&error) => Ok(None),
        Err(error) => Err(error),
    };
    let parent = off_thread(context, target, looking).await?;
    Ok(parent.map(|parent| parent.join(name)))
}

/// What `looking` finds of the volume at `path` until `deadline`, when its caller is gone.
///
/// # Errors
/// Those of `looking`, and `TimedOut`.
pub(super) async fn found_by<T>(
    deadline: Instant,
    path: &Path,
    looking: impl Future<Output = Result<T, NodeError>>,
) -> Result<T, NodeError> {
    timeout_at(deadline, looking).await.unwrap_or_else(|_| {
        let path = path.display();
        let what = format!("looking up {path} and its record in the work folder");
        Err(NodeError::io(what, io::ErrorKind::TimedOut.into()))
    })
}

/// Does what touches `path`, which may hang, in a thread of its own: all calls are served by one, and must not wait for it.
///
/// # Errors
/// Those of `work`, and when it does not end in time; then it goes on.
pub(super) async fn off_thread<T: Send + 'static>(
    context: String,
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, NodeError> {
    /// Those of this process.
    static THREADS: LazyLock<DiskThreads> = LazyLock::new(DiskThreads::default);
    let done = THREADS.run(path, work).await;
    done.map_err(|error| NodeError::io(context, error))
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Does `work` with `target`, as `doing` says, off the thread.
async fn on<T: Send + 'static>(
    target: &Path,
    doing: &str,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, NodeError> {
    let context = format!("{doing} {}", target.display());
    let path = target.to_owned();
    off_thread(context, target, move || work(&path)).await
}

/// What stands at `target`, on which nothing is mounted.
pub async fn look(target: &Path) -> Result<Bare, NodeError> {
    let looking = |path: &Path| {
        let there = match path.symlink_metadata() {
            Ok(there) => there.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Bare::Nothing),
            Err(error) => return Err(error),
        };
        Ok(if there.is_symlink() {
            Bare::Symlink(path.read_link()?)
        } else if !there.is_dir() {
            Bare::Other
        } else if path.read_dir()?.next().is_none() {
            Bare::EmptyFolder
        } else {
            Bare::FullFolder
        })
    };
    on(target, "looking at", looking).await
}

/// Makes the folder of a target, for nobody but its owner: what is mounted there has permissions of its own.
pub async fn make_folder(target: &Path) -> Result<(), NodeError> {
    let making = |path: &Path| std::fs::DirBuilder::new().mode(0o750).create(path);
    on(target, "making the folder", making).await
}

/// Removes the empty folder of a target; one that is gone already is fine.
pub async fn remove_folder(target: &Path) -> Result<(), NodeError> {
    let removing = |path: &Path| gone(std::fs::remove_dir(path));
    on(target, "removing the folder", removing).await
}

/// Removes the symlink at a target; one that is gone already is fine.
pub async fn remove_symlink(target: &Path) -> Result<(), NodeError> {
    let removing = |path: &Path| gone(std::fs::remove_file(path));
    on(target, "removing the symlink", removing).await
}

/// Makes the target a symlink to `folder`.
pub async fn make_symlink(folder: &Path, target: &Path) -> Result<(), NodeError> {
    let folder = folder.to_owned();
    let making = |path: &Path| std::os::unix::fs::symlink(folder, path);
    on(target, "making the symlink", making).await
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The refusal of a target in whose place something stands.
pub fn taken(target: &Path, problem: &str) -> NodeError {
    NodeError::TargetTaken {
        target: target.to_owned(),
        problem: problem.to_owned(),
    }
}

/// What is wrong with a target on which somebody else has mounted something.
pub fn foreign_mount(mount: &Mount) -> String {
    format!(
        "is a mount of {} ({}) that this driver did not make; unmount it by hand",
        mount.source.to_string_lossy(),
        mount.fs_type.to_string_lossy()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn targets_are_found_through_symlinks_above_them() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("pods")).unwrap();
        std::os::unix::fs::symlink("pods", real.join("link")).unwrap();
        std::os::unix::fs::symlink("/", real.join("pods/volume")).unwrap();
        let found = locate(&real.join("link/volume")).await.unwrap();
        // The last component is not followed.
        assert_eq!(found, Some(real.join("pods/volume")));
        assert_eq!(locate(&real.join("none/volume")).await.unwrap(), None);
        std::fs::write(real.join("file"), "").unwrap();
        for below in ["file/volume", "file/pods/volume"] {
            assert_eq!(locate(&real.join(below)).await.unwrap(), None, "{below}");
        }
    }

    #[tokio::test]
    async fn what_stands_at_a_target() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("t");
        assert_eq!(look(&target).await.unwrap(), Bare::Nothing);
        make_folder(&target).await.unwrap();
        assert_eq!(look(&target).await.unwrap(), Bare::EmptyFolder);
        assert_eq!(look(dir.path()).await.unwrap(), Bare::FullFolder);
        assert!(remove_folder(dir.path()).await.is_err());
        remove_folder(&target).await.unwrap();
        remove_folder(&target).await.unwrap();
        std::os::unix::fs::symlink("/x", &target).unwrap();
        assert_eq!(look(&target).await.unwrap(), Bare::Symlink("/x".into()));
        remove_symlink(&target).await.unwrap();
        remove_symlink(&target).await.unwrap();
        std::fs::write(&target, "").unwrap();
        assert_eq!(look(&target).await.unwrap(), Bare::Other);
    }
}
