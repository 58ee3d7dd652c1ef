//! Publishing: a volume appears at a target, or at the staging path for later publishes. Owns the order of steps, each of
//! which can be repeated after a crash. What a second publish may do is decided in `second_publish.rs`.

use crate::calls::node::error::NodeError;
use crate::calls::node::questions::Inquiry;
use crate::calls::node::record::{PublishRecord, PublishRecords};
use crate::calls::node::request::{PublishRequest, Purpose, allows_many_targets};
use crate::calls::node::second_publish::{Action, Asked, Here, Source, decide, symlink_note};
use crate::calls::node::stage::Staged;
use crate::calls::node::target::{self, Bare, taken};
use crate::calls::node::volumes::{Note, Volumes};
use crate::mount::control::timeout;
use crate::mount::helper::HelperError;
use crate::mount::mountinfo::{self, Mount};
use crate::mount::task::{FailureKind, NfsSource, Task};
use crate::process::log::Level;
use crate::share::paths::sub_path::RECORDS_FOLDER;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A bind mount asks no server; this bounds a fault of the node's own file system.
const BIND_BOUND: Duration = Duration::from_secs(10);

/// Whether a mount has to be made.
enum Found {
    Published(Note),
    /// By NFS: whether the server still knows it is to be asked.
    Mounted {
        mount: Box<Mount>,
        source: Source,
        record: Box<PublishRecord>,
    },
    Nothing {
        made_folder: bool,
        source: Source,
        /// The record that the new one has replaced.
        before: Option<Box<PublishRecord>>,
    },
}

/// How the helper that was to mount has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Itself,
    Killed,
    Not,
}

impl Ended {
    fn of(error: &NodeError) -> Self {
        let NodeError::Mount { cause, .. } = error else {
            return Self::Itself;
        };
        match **cause {
            HelperError::Failed(_) | HelperError::Start(_) => Self::Itself,
            HelperError::Deadline { stuck: Some(_), .. } | HelperError::Hangs { .. } => Self::Not,
            HelperError::Deadline { stuck: None, .. } | HelperError::Lost { .. } => Self::Killed,
        }
    }
}

impl Volumes {
    /// Publishes as `request` says, and waits for that for at most `patience`. Returns a note when the volume is not mounted
    /// but linked to.
    ///
    /// # Errors
    /// As the specification has it for NodePublishVolume.
    pub async fn publish(
        &self,
        request: PublishRequest,
        timeout: Duration,
    ) -> Result<Note, NodeError> {
        let Some(target) = target::locate(&request.target).await? else {
            let parent = request.target.parent().unwrap_or(Path::new("/"));
            return Err(NodeError::NoParent(parent.to_owned()));
        };
        let fingerprint = format!(
            "{}\0{:?}\0{:?}",
            request.volume_id, request.arguments, request.purpose
        );
        let rpc = match request.purpose {
            Purpose::Publish { .. } | Purpose::Inline => "NodePublishVolume",
            Purpose::Stage => "NodeStageVolume",
        };
        let this = self.clone();
        let work = {
            let target = target.clone();
            async move { this.publish_at(&request, &target).await }
        };
        self.run(&target, rpc, fingerprint, timeout, work).await
    }

    pub(super) async fn publish_at(
        &self,
        request: &PublishRequest,
        target: &Path,
    ) -> Result<Note, NodeError> {
        let fields = [("target", target.display().to_string().into())];
        self.log.event(Level::Debug, "publishing", &fields);
        let staging = self.staging_of(request, target).await?;
        if let Some(staging) = &staging {
            self.renew_stale(staging, self.config.bounds.mount).await?;
        }
        if request.purpose != Purpose::Stage
            && let Some(stage) = self.stages.get(target).await?
            && self.mounted(target)?.is_some()
        {
            let what = format!("volume {} is staged there", stage.volume_id);
            return Err(taken(target, &what));
        }
        let found = self.compare_and_record(request, &staging, target).await?;
        let (made_folder, source, before) = match found {
            Found::Published(note) => {
                self.give_ownership(request, target).await?;
                return Ok(note);
            }
            Found::Mounted {
                mount,
                source,
                record,
            } => {
                if !self.is_stale(&mount).await {
                    self.give_ownership(request, target).await?;
                    return Ok(None);
                }
                let fields = [("target", target.display().to_string().into())];
                self.log
                    .event(Level::Warn, "replacing a stale mount", &fields);
                // Nothing can be written back through it.
                let bound = self.config.bounds.unmount;
                self.take_away(target, true, bound).await?;
                (false, source, Some(record))
            }
            Found::Nothing {
                made_folder,
                source,
                before,
            } => (made_folder, source, before),
        };
        let error = match self.mount(request, &source, target).await {
            Ok(note) => {
                // What this cannot do a repeat tries again; the mount stays.
                self.give_ownership(request, target).await?;
                return Ok(note);
            }
            Err(error) => error,
        };
        let ended = Ended::of(&error);
        if ended == Ended::Not {
            // It may still mount, so the record stays: a repeat finds what has become of it.
            return Err(error);
        }
        if self.mounted(target)?.is_some() {
            // The kernel may have finished just before the helper was ended: a mount appears with its flags or not at all.
            if ended != Ended::Killed {
                return Err(error);
            }
            self.give_ownership(request, target).await?;
            return Ok(None);
        }
        // A failed publish leaves what it has found, and the first error is the one to tell. What was published before, or is
        // taken for staged by the orchestrator, has its record and its folder: the next call mounts it, or takes them away.
        if made_folder {
            let _ = target::remove_folder(target).await;
        }
        self.put_back(request, target, before.as_deref()).await;
        Err(error)
    }

    /// The records that a request belongs to.
    fn records_for(&self, request: &PublishRequest) -> &PublishRecords {
        match request.purpose {
            Purpose::Publish { .. } | Purpose::Inline => &self.records,
            Purpose::Stage => &self.stages,
        }
    }

    /// Leaves the record that was there before a publish which has failed, as far as that can be.
    async fn put_back(
        &self,
        request: &PublishRequest,
        target: &Path,
        before: Option<&PublishRecord>,
    ) {
        let records = self.records_for(request);
        let _ = match before {
            Some(before) => records.put(before).await,
            None => records.remove(target).await,
        };
    }

    /// Whether the server does not know the folder of a mount any more. While it does not answer, that cannot be told, and
    /// the mount stays: it works again when the server does.
    pub(super) async fn is_stale(&self, mount: &Mount) -> bool {
        let bound = self.config.bounds.stats;
        let inquiry = Inquiry {
            path: &mount.target,
            mount: Some(mount),
            asks_no_server: false,
        };
        let answer = self.questions.usage(&self.helpers, inquiry, bound).await;
        let Err(error) = answer else { return false };
        let fields = [
            ("target", mount.target.display().to_string().into()),
            ("error", error.to_string().into()),
        ];
        self.log
            .event(Level::Warn, "a published volume does not answer", &fields);
        error.is_stale()
    }

    fn source(&self, request: &PublishRequest) -> Result<Source, NodeError> {
        let share = request.arguments.share()?;
        Ok(match self.config.local_share(&share) {
            Some((local, below)) => Source::Local {
                root: local.path.clone(),
                below: match &request.arguments.sub_dir {
                    Some(sub_dir) => below.join(sub_dir.to_path()),
                    None => below,
                },
            },
            None => Source::Nfs {
                below: match &request.arguments.sub_dir {
                    Some(sub_dir) => sub_dir.to_path(),
                    None => PathBuf::new(),
                },
                whole: request.arguments.export()?,
                share,
            },
        })
    }

    /// Applies the rules for a second publish and writes the record, as one step among all publishes.
    async fn compare_and_record(
        &self,
        request: &PublishRequest,
        staging: &Option<PathBuf>,
        target: &Path,
    ) -> Result<Found, NodeError> {
        let _comparing = self.comparing.lock().await;
        let _lock = self.records.lock().await?;
        if request.purpose != Purpose::Stage {
            self.check_other_targets(request, target).await?;
        }
        let source = match staging {
            None => self.source(request)?,
            Some(staging) => match self.staged(request, staging).await? {
                Staged::Mounted(mount) => Source::Staged(mount),
                Staged::OnPaper => self.source(request)?,
            },
        };
        let asked = Asked {
            request,
            target,
            staging: staging.as_deref(),
            source: &source,
        };
        let here = self.here(request, target).await?;
        let action = decide(&asked, &here)?;
        let before = here.record;
        let records = self.records_for(request);
        match action {
            Action::None(note) => Ok(Found::Published(note)),
            Action::Keep { mount, record } => {
                if before.as_ref() != Some(&*record) {
                    records.put(&record).await?;
                }
                Ok(match mount.is_nfs() {
                    true => Found::Mounted {
                        mount,
                        source,
                        record,
                    },
                    false => Found::Published(None),
                })
            }
            Action::Mount {
                makes_folder,
                record,
            } => {
                // First the record: only a folder that a record names is removed again.
                records.put(&record).await?;
                if makes_folder && let Err(error) = target::make_folder(target).await {
                    self.put_back(request, target, before.as_ref()).await;
                    return Err(error);
                }
                Ok(Found::Nothing {
                    made_folder: makes_folder,
                    source,
                    before: before.map(Box::new),
                })
            }
        }
    }

    /// What is at a target.
    async fn here(&self, request: &PublishRequest, target: &Path) -> Result<Here, NodeError> {
        let records = self.records_for(request);
        let record = records.get(target).await?;
        let mounted = self.mounted(target)?;
        // What is mounted is not touched: its server may be gone.
        let bare = match mounted {
            Some(_) => Bare::Nothing,
            None => target::look(target).await?,
        };
        Ok(Here {
            mounted,
            bare,
            record,
        })
    }

    /// The columns T1≠T2 of the specification's table: some modes allow one target on a node.
    async fn check_other_targets(
        &self,
        request: &PublishRequest,
        target: &Path,
    ) -> Result<(), NodeError> {
        let records = self.records.of_volume(&request.volume_id).await?;
        for other in records.iter().filter(|record| record.target != target) {
            let mode = request.arguments.access_mode();
            let strict = [mode, other.arguments.access_mode()]
                .into_iter()
                .find(|mode| !allows_many_targets(*mode));
            let Some(strict) = strict else { continue };
            // What does not run any more has its mount.
            let is_there = self.operations.is_running(&other.target)
                || self.mounted(&other.target)?.is_some()
                || other.symlink.is_some()
                    && matches!(target::look(&other.target).await?, Bare::Symlink(_));
            if is_there {
                return Err(NodeError::Exclusive {
                    volume: request.volume_id.clone(),
                    other: other.target.clone(),
                    mode: strict.as_str_name(),
                });
            }
        }
        Ok(())
    }

    async fn mount(
        &self,
        request: &PublishRequest,
        source: &Source,
        target: &Path,
    ) -> Result<Note, NodeError> {
        match source {
            Source::Nfs {
                share,
                below,
                whole,
            } => {
                let bound = self.config.bounds.mount;
                let task = Task::MountNfs {
                    source: NfsSource {
                        server: share.server().to_owned(),
                        path: share.path().to_owned(),
                        options: request.options.clone(),
                        timeout_ms: u64::try_from(timeout(bound).as_millis()).unwrap_or(u64::MAX),
                    },
                    below: below.clone(),
                    target: target.to_owned(),
                    without: hidden(request),
                };
                let (done, _) = self
                    .helpers
                    .run(&task, bound)
                    .await
                    .map_err(|error| NodeError::mount(whole, error))?;
                let version = done.version.map_or("", |version| version.as_str());
                self.log.event(
                    Level::Debug,
                    "mounted",
                    &[
                        ("export", whole.to_string().into()),
                        ("vers", version.into()),
                    ],
                );
                Ok(None)
            }
            Source::Local { root, below } => self.bind(request, root, below, target).await,
            Source::Staged(mount) => {
                let nothing = Path::new("");
                self.bind(request, &mount.target, nothing, target).await
            }
        }
    }

    /// Gives the folder that is mounted at `target` what the request asks for.
    ///
    /// # Errors
    /// When the server does not let it, or does not answer.
    async fn give_ownership(
        &self,
        request: &PublishRequest,
        target: &Path,
    ) -> Result<(), NodeError> {
        let Some(ownership) = request.ownership else {
            return Ok(());
        };
        let task = Task::SetOwnership {
            target: target.to_owned(),
            ownership,
        };
        match self.helpers.run(&task, self.config.bounds.mount).await {
            Ok(_) => Ok(()),
            Err(error) => Err(NodeError::mount(&request.arguments.export()?, error)),
        }
    }

    async fn bind(
        &self,
        request: &PublishRequest,
        root: &Path,
        below: &Path,
        target: &Path,
    ) -> Result<Note, NodeError> {
        if self.mounted(target)?.is_some() {
            // Bound from a staged mount that has been replaced since.
            self.take_away(target, true, BIND_BOUND).await?;
        }
        let task = Task::Bind {
            root: root.to_owned(),
            below: below.to_owned(),
            target: target.to_owned(),
            flags: request.options.flags,
            without: hidden(request),
        };
        let bound = match self.asks_no_server(root, below, target).await? {
            true => self.helpers.run_here(task, BIND_BOUND, ()).await,
            false => {
                let helped = self.helpers.run(&task, BIND_BOUND).await;
                helped.map(|(done, _)| done)
            }
        };
        match bound {
            Ok(_) => Ok(None),
            Err(error)
                if self.config.symlink_fallback
                    && error.kind() == Some(FailureKind::NotPermitted) =>
            {
                self.link(request, &root.join(below), target).await
            }
            Err(error) => Err(NodeError::mount(&request.arguments.export()?, error)),
        }
    }

    /// Whether a bind mount of the folder `below` inside `root` at `target` asks no server.
    async fn asks_no_server(
        &self,
        root: &Path,
        below: &Path,
        target: &Path,
    ) -> Result<bool, NodeError> {
        let mounts = self.mounts()?;
        let is_local = |path: &Path| mountinfo::asks_no_server(&mounts, path);
        // As it is written, before it is touched.
        if !is_local(target) || !is_local(&root.join(below)) {
            return Ok(false);
        }
        let context = format!("looking up {}", root.display());
        let root = root.to_owned();
        // A symlink may lead anywhere; a helper finds out what is wrong with the folder.
        #[expect(clippy::disallowed_methods, reason = "in a closure for `off_thread`")]
        let real = target::off_thread(context, &root.clone(), move || root.canonicalize()).await;
        Ok(real.is_ok_and(|real| is_local(&real.join(below))))
    }

    /// Where mounting is refused altogether, the target becomes a symlink to the volume's folder.
    async fn link(
        &self,
        request: &PublishRequest,
        folder: &Path,
        target: &Path,
    ) -> Result<Note, NodeError> {
        if request.options.flags.read_only {
            return Err(NodeError::NoReadOnly);
        }
        let records = self.records_for(request);
        let before = records.get(target).await?;
        let record = PublishRecord {
            volume_id: request.volume_id.clone(),
            target: target.to_owned(),
            arguments: request.arguments.clone(),
            symlink: Some(folder.to_owned()),
            staging: before.and_then(|record| record.staging),
        };
        records.put(&record).await?;
        if request.purpose == Purpose::Stage {
            // The folder is the caller's; what is published from it is a symlink too.
            return Ok(Some(symlink_note(folder)));
        }
        target::remove_folder(target).await?;
        target::make_symlink(folder, target).await?;
        let note = symlink_note(folder);
        let fields = [
            ("target", target.display().to_string().into()),
            ("why", note.clone().into()),
        ];
        self.log
            .event(Level::Warn, "symlink instead of a mount", &fields);
        Ok(Some(note))
    }
}

/// What must not be in the volume's folder: whoever writes a pod names that of an inline volume, and may name a share's root.
fn hidden(request: &PublishRequest) -> Option<String> {
    (request.purpose == Purpose::Inline).then(|| RECORDS_FOLDER.to_owned())
}
