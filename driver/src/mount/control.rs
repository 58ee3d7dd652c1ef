//! Control mounts: the root folders of shares for the controller, mounted nowhere, kept while they are used and let go
//! when they idle. Owns their life; must not look into a share.

use crate::calls::policy::Policy;
use crate::mount::control_options::{for_control_mount, is_relied_on};
use crate::mount::helper::{HelperError, Helpers};
use crate::mount::options::{MountOptions, OptionError};
use crate::mount::redaction;
use crate::mount::task::{FailureKind, NfsSource, Place, Task};
use crate::process::config::{Bounds, Config};
use crate::process::disk_thread::drop_aside;
use crate::process::log::{Level, Log};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::{Admission, Work};
use csi_nfs_store::files::roots::{Opening, Root, RootError, ShareRoots, local};
use csi_proto::lock::lock;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a control mount that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(120);

/// The longest that one address of a server is waited for, so that a server which is down is reported long before the
/// deadline of a mount.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait for a connection to one address when the whole mount may take `bound`.
pub fn timeout(bound: Duration) -> Duration {
    PATIENCE.min(bound / 3)
}

/// The root folders of shares. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControlMounts {
    config: Arc<Config>,
    helpers: Helpers,
    admission: Admission,
    log: Log,
    scratch: PathBuf,
    kept: Arc<KeptMounts>,
}

type KeptMounts = Mutex<HashMap<ControlMountKey, Arc<Slot>>>;

type ControlMountKey = (Export, MountOptions);

/// When the last attempt to mount has failed, and why.
type Failed = (Instant, RootError);

/// One share. The outer lock is held while it is mounted, so that callers share one attempt.
#[derive(Debug, Default)]
struct Slot {
    mounting: tokio::sync::Mutex<Option<Failed>>,
    root: Mutex<Option<(Root, Instant)>>,
}

impl Slot {
    fn get(&self) -> Option<Root> {
        let mut root = lock(&self.root);
        root.as_mut().map(|(root, used)| {
            *used = Instant::now();
            Arc::clone(root)
        })
    }

    /// The mount, when nobody has used it since `limit` ago.
    fn take_idle(&self, limit: Duration) -> Option<Root> {
        let mut root = lock(&self.root);
        let (mount, used) = root.as_ref()?;
        let idle = Arc::strong_count(mount) == 1 && used.elapsed() >= limit;
        idle.then(|| root.take()).flatten().map(|(mount, _)| mount)
    }
}

/// Takes the slot of `key` away in the end when nothing is mounted in it and nobody else waits for it. Whoever may name options
/// could else fill the memory with slots of mounts that fail.
struct UnusedSlot<'a> {
    kept: &'a KeptMounts,
    key: ControlMountKey,
}

impl Drop for UnusedSlot<'_> {
    fn drop(&mut self) {
        let mut kept = lock(self.kept);
        // The map has one, and the call that ends here.
        if let Some(slot) = kept.get(&self.key)
            && Arc::strong_count(slot) <= 2
            && lock(&slot.root).is_none()
        {
            kept.remove(&self.key);
        }
    }
}

/// The mount that is kept under `key`; else `mount` makes it, or fails, for all who ask meanwhile.
async fn get_or_mount(
    kept: &KeptMounts,
    key: ControlMountKey,
    mount: impl Future<Output = Result<Root, RootError>>,
) -> Result<Root, RootError> {
    let asked = Instant::now();
    let slot = Arc::clone(lock(kept).entry(key.clone()).or_default());
    let _unused = UnusedSlot { kept, key };
    let mut failed = slot.mounting.lock().await;
    if let Some(root) = slot.get() {
        return Ok(root);
    }
    if let Some((at, error)) = &*failed
        && *at > asked
    {
        return Err(error.clone());
    }
    let mounted = mount.await;
    let root = mounted.inspect_err(|error| {
        // What befell a helper is nothing that the server has answered.
        if !matches!(error, RootError::Io { .. }) {
            *failed = Some((Instant::now(), error.clone()));
        }
    })?;
    *lock(&slot.root) = Some((Arc::clone(&root), Instant::now()));
    Ok(root)
}

impl ControlMounts {
    /// Control mounts as `config` allows them. `scratch` is an empty private folder.
    pub fn new(
        config: Arc<Config>,
        helpers: Helpers,
        admission: Admission,
        log: Log,
        scratch: PathBuf,
    ) -> Self {
        Self {
            config,
            helpers,
            admission,
            log,
            scratch,
            kept: Arc::default(),
        }
    }

    /// Lets go of idle mounts for as long as the driver runs. To be spawned once.
    pub async fn release_idle(self) {
        loop {
            tokio::time::sleep(IDLE / 2).await;
            self.release(IDLE);
        }
    }

    /// Lets go of the mounts that have not been used for `limit`.
    fn release(&self, limit: Duration) {
        let mut kept = lock(&self.kept);
        kept.retain(|(export, _), slot| {
            let Some(root) = slot.take_idle(limit) else {
                // A slot that somebody waits for, or that is in use, stays.
                return Arc::strong_count(slot) > 1 || lock(&slot.root).is_some();
            };
            self.tell(Level::Debug, "control mount released", export, None);
            self.close(export, root);
            Arc::strong_count(slot) > 1
        });
    }

    /// Lets go of a mount. The last close unmounts, which may wait for the server.
    fn close(&self, export: &Export, root: Root) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return drop_aside(root);
        };
        let (admission, server) = (self.admission.clone(), export.server().to_owned());
        runtime.spawn(async move {
            let turn = admission.enter(&server, Work::Upkeep).await;
            tokio::task::spawn_blocking(move || {
                drop(root);
                drop(turn);
            });
        });
    }

    /// Logs what happened to the mount of `export`, and perhaps a word on it.
    fn tell(&self, level: Level, what: &str, export: &Export, more: Option<(&str, &str)>) {
        let mut fields: Vec<(_, serde_json::Value)> = vec![("export", export.to_string().into())];
        fields.extend(more.map(|(name, text)| (name, text.into())));
        self.log.event(level, what, &fields);
    }

    async fn get(&self, export: &Export, options: &[String]) -> Result<Root, RootError> {
        if let Some((share, below)) = self.config.local_share(export) {
            let turn = self.admission.enter(export.server(), Work::Call).await;
            return local::open(export, share.path.clone(), below, turn).await;
        }
        let options = self
            .options(options)
            .map_err(|error| io_error(export, io::ErrorKind::InvalidInput, error.to_string()))?;
        let key = (export.clone(), options.clone());
        get_or_mount(&self.kept, key, self.mount(export, options)).await
    }

    /// The options of the control mount of a share for which `given` are known. Calls whose options differ only for pods
    /// share one.
    fn options(&self, given: &[String]) -> Result<MountOptions, OptionError> {
        // Ports of requests have been checked; those of `--share` are the administrator's own.
        let policy = Policy {
            servers: Vec::new(),
            ..self.config.policy.clone()
        };
        for_control_mount(given, &policy)
    }

    async fn mount(&self, export: &Export, options: MountOptions) -> Result<Root, RootError> {
        let Bounds { mount: bound, .. } = self.config.bounds;
        let given: Vec<_> = options.nfs.iter().map(|(name, _)| name.clone()).collect();
        let task = Task::MountNfs {
            source: NfsSource {
                export: export.clone(),
                options,
                timeout: timeout(bound),
            },
            place: Place::Nowhere {
                scratch: self.scratch.clone(),
                show: self.log.writes(Level::Debug),
            },
        };
        let mut done = self
            .helpers
            .run(&task, bound)
            .await
            .map_err(|error| root_error(export.clone(), error))?;
        let root = done.root.0.take().ok_or_else(|| {
            let words = "the helper process sent no folder".to_owned();
            io_error(export, io::ErrorKind::Other, words)
        })?;
        let version = done.version.map_or("", |version| version.as_str());
        let more = Some(("vers", version));
        self.tell(Level::Info, "control mount", export, more);
        if let Some(shown) = done.shown {
            // Values that a call has given may come from a secret.
            let shown = redaction::options(&shown, |name| {
                is_relied_on(name) || !given.iter().any(|given| given == name)
            });
            let what = "control mount as the kernel shows it";
            let more = Some(("options", shown.as_str()));
            self.tell(Level::Debug, what, export, more);
        }
        Ok(Arc::new(root))
    }
}

impl ShareRoots for ControlMounts {
    fn is_local(&self, export: &Export) -> bool {
        self.config.local_share(export).is_some()
    }

    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a> {
        Box::pin(self.get(export, mount_options))
    }

    fn forget(&self, export: &Export, mount_options: &[String]) {
        // What cannot be understood was never mounted.
        let Ok(options) = self.options(mount_options) else {
            return;
        };
        let kept = &self.kept;
        let key = (export.clone(), options);
        let slot = lock(kept).get(&key).map(Arc::clone);
        if let Some((root, _)) = slot.and_then(|slot| lock(&slot.root).take()) {
            self.close(export, root);
        }
    }

    fn open_another<'a>(
        &'a self,
        export: &'a Export,
        mount_options: &'a [String],
    ) -> Pin<Box<dyn Future<Output = Option<Root>> + Send + 'a>> {
        Box::pin(async move {
            if self.config.local_share(export).is_some() {
                return None;
            }
            let options = self.options(mount_options).ok()?;
            self.mount(export, options).await.ok()
        })
    }

    fn let_go(&self, export: &Export, root: Root) {
        self.close(export, root);
    }
}

fn io_error(export: &Export, kind: io::ErrorKind, words: String) -> RootError {
    RootError::Io {
        export: export.clone(),
        source: Arc::new(io::Error::new(kind, words)),
    }
}

fn root_error(export: Export, error: HelperError) -> RootError {
    let failure = match error {
        HelperError::Deadline { after, .. } | HelperError::Hangs { after, .. } => {
            return RootError::Unreachable { export, after };
        }
        HelperError::Failed(failure) => failure,
        HelperError::Start(source) => {
            let source = Arc::new(source);
            return RootError::Io { export, source };
        }
        lost @ HelperError::Lost { .. } => {
            return io_error(&export, io::ErrorKind::Other, lost.to_string());
        }
    };
    let kind = match failure.kind {
        FailureKind::Resolve => {
            let detail = failure.to_string();
            return RootError::Resolve { export, detail };
        }
        FailureKind::NotFound => return RootError::NotExported(export),
        FailureKind::Refused => return RootError::Refused(export),
        FailureKind::NoNfsClient => return RootError::NoNfsClient,
        FailureKind::NotPermitted => return RootError::MayNotMount(export),
        FailureKind::Option => io::ErrorKind::InvalidInput,
        FailureKind::Version | FailureKind::Kerberos => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    io_error(&export, kind, failure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_nfs_store::files::beneath;
    use rustix::io::Errno;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    #[test]
    fn a_share_below_a_local_one_is_not_reached_by_a_symlink() {
        let (victim, export) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(export.path().join("tenant/real")).unwrap();
        std::fs::create_dir(victim.path().join("inner")).unwrap();
        symlink(victim.path(), export.path().join("tenant/link")).unwrap();
        for escape in ["tenant/link", "tenant/link/inner"] {
            let error = local::open_folder(export.path(), Path::new(escape)).unwrap_err();
            assert!(
                matches!(beneath::errno(&error), Some(Errno::LOOP | Errno::NOTDIR)),
                "{escape}: {error}"
            );
        }
        local::open_folder(export.path(), Path::new("tenant/real")).unwrap();
        // The folder that the administrator has named may be reached by one.
        let alias = victim.path().join("alias");
        symlink(export.path(), &alias).unwrap();
        local::open_folder(&alias, Path::new("")).unwrap();
    }

    #[tokio::test]
    async fn what_could_not_be_mounted_is_not_kept() {
        let (kept, export) = (KeptMounts::default(), Export::parse("nas", "/x").unwrap());
        let key = |option: &str| {
            let options = MountOptions::parse([option], &Policy::default()).unwrap();
            (export.clone(), options)
        };
        let fails = || async {
            // So that the others come meanwhile.
            tokio::task::yield_now().await;
            Err(RootError::NotExported(export.clone()))
        };
        for number in 1..100 {
            let asked = key(&format!("timeo={number}"));
            let ask = || get_or_mount(&kept, asked.clone(), fails());
            let (one, other) = tokio::join!(ask(), ask());
            assert!(one.is_err() && other.is_err());
        }
        assert!(lock(&kept).is_empty());
        let folder = tempfile::tempdir().unwrap();
        let mounts = || async { Ok(local::open_folder(folder.path(), Path::new("")).unwrap()) };
        let asked = key("hard");
        let (one, other) = tokio::join!(
            get_or_mount(&kept, asked.clone(), mounts()),
            get_or_mount(&kept, asked, fails())
        );
        assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
        assert_eq!(lock(&kept).len(), 1);
    }

    #[tokio::test]
    async fn who_asks_while_an_attempt_fails_makes_none_and_who_asks_later_does() {
        let (kept, export) = (KeptMounts::default(), Export::parse("nas", "/x").unwrap());
        let options = MountOptions::parse(["hard"], &Policy::default()).unwrap();
        let key = (export.clone(), options);
        // Kept by one who waits still.
        let slot = Arc::clone(lock(&kept).entry(key.clone()).or_default());
        let attempts = std::cell::Cell::new(0);
        let ask = || {
            let fails = async {
                attempts.set(attempts.get() + 1);
                tokio::task::yield_now().await;
                Err(RootError::NotExported(export.clone()))
            };
            get_or_mount(&kept, key.clone(), fails)
        };
        for expected in 1..=2 {
            let (one, second, third) = tokio::join!(ask(), ask(), ask());
            assert!(one.is_err() && second.is_err() && third.is_err());
            assert_eq!(attempts.get(), expected);
        }
        drop(slot);
    }

    #[tokio::test]
    async fn a_missing_local_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let export = Export::parse("nas", "/x/gone").unwrap();
        let turn = Admission::default().enter("nas", Work::Call).await;
        let error = local::open(&export, folder.path().to_owned(), "gone".into(), turn)
            .await
            .unwrap_err();
        let path = folder.path().join("gone");
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
}
