//! Publishing: a volume appears at a target, or at the staging path for later publishes. Owns the order of steps, each of
//! which can be repeated after a crash. What a second publish may do is decided in `second_publish.rs`.

use crate::calls::node::arguments::Arguments;
use crate::calls::node::error::NodeError;
use crate::calls::node::questions::server_of;
use crate::calls::node::record::{PublishRecord, PublishRecords};
use crate::calls::node::request::{PublishRequest, Purpose, allows_many_targets};
use crate::calls::node::second_publish::{Action, Here, Source, decide, symlink_note};
use crate::calls::node::target::{self, Bare, found_by, taken};
use crate::calls::node::volumes::{Note, Volumes};
use crate::mount::control::timeout;
use crate::mount::helper::HelperError;
use crate::mount::mountinfo;
use crate::mount::task::{Done, FailureKind, NfsSource, Ownership, Place, Task};
use crate::process::log::Level;
use csi_nfs_store::share::paths::sub_path::RECORDS_FOLDER;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A bind mount asks no server; this bounds a fault of the node's own file system.
const BIND_BOUND: Duration = Duration::from_secs(10);

impl Volumes {
    /// Publishes as `request` says, and waits for that until `deadline`. Returns a note when the volume is not mounted
    /// but linked to.
    ///
    /// # Errors
    /// As the specification has it for NodePublishVolume.
    pub async fn publish(
        &self,
        request: PublishRequest,
        deadline: Instant,
    ) -> Result<Note, NodeError> {
        let looking = target::locate(&request.target);
        let Some(target) = found_by(deadline, &request.target, looking).await? else {
            let parent = request.target.parent().unwrap_or(Path::new("/"));
            return Err(NodeError::NoParent(parent.to_owned()));
        };
        if target.to_str().is_none() {
            // No record could tell of it.
            return Err(taken(&target, "is not UTF-8: give another path"));
        }
        let fingerprint = format!(
            "{}\0{:?}\0{:?}",
            request.volume_id, request.arguments, request.purpose
        );
        let rpc = match request.purpose {
            Purpose::Publish { .. } | Purpose::Inline => "NodePublishVolume",
            Purpose::Stage => "NodeStageVolume",
        };
        let work =
            |this: Self, target: PathBuf| async move { this.publish_at(&request, &target).await };
        self.run(target, rpc, fingerprint, deadline, work).await
    }

    pub(super) async fn publish_at(
        &self,
        request: &PublishRequest,
        target: &Path,
    ) -> Result<Note, NodeError> {
        let fields = [("target", target.display().to_string().into())];
        self.log.event(Level::Debug, "publishing", &fields);
        let staging = self.staging_of(request, target).await?;
        let is_stage = request.purpose == Purpose::Stage;
        if let Some((volume, how)) = self.other_use(is_stage, target).await? {
            let what = format!("is in use: volume {volume} is {how} there");
            return Err(taken(target, &what));
        }
        let staging = staging.as_deref();
        let published = self.publish_from(request, staging, target, false).await;
        match (staging, published) {
            (Some(staged), Err(NodeError::NotStaged { .. })) => {
                // The one that was stale is gone: another call mounts a new one now, or has, or could not.
                let mount = self.mounted(staged)?;
                if mount.is_none_or(|mount| mount.is_local_without_folder()) {
                    self.renew(staged).await?;
                }
                self.publish_from(request, staging, target, true).await
            }
            (Some(staged), Err(error)) if error.is_stale() => {
                self.renew(staged).await?;
                self.publish_from(request, staging, target, true).await
            }
            (_, published) => published,
        }
    }

    /// Publishes a volume from `staging`, or by itself.
    ///
    /// # Errors
    /// One that [is stale](NodeError::is_stale) where the server may not know any more what is staged, unless that `is_renewed`.
    async fn publish_from(
        &self,
        request: &PublishRequest,
        staging: Option<&Path>,
        target: &Path,
        is_renewed: bool,
    ) -> Result<Note, NodeError> {
        let (action, source, here) = self.compare_and_record(request, staging, target).await?;
        match &action {
            Action::Link(note) => return Ok(Some(note.clone())),
            Action::Keep => {
                let Some(error) = self.give_ownership_or_ask(request, &here).await? else {
                    return Ok(None);
                };
                // While nothing better is staged, this mount stays.
                if matches!(source, Source::Staged(_)) && !is_renewed {
                    return Err(error);
                }
                let fields = [("target", target.display().to_string().into())];
                self.log
                    .event(Level::Warn, "replacing a stale mount", &fields);
                // Nothing can be written back through it.
                let bound = self.config.bounds.unmount;
                self.take_away(target, true, bound).await?;
            }
            // Bound from a staged mount that has been replaced since.
            Action::Mount { .. } if here.mounted.is_some() => {
                self.take_away(target, true, BIND_BOUND).await?;
            }
            Action::Mount { .. } => {}
        }
        let error = match self.mount(request, &source, target).await {
            Ok(note) => return Ok(note),
            Err(error) => error,
        };
        if let NodeError::Mount { cause, .. } = &error
            && cause.goes_on()
        {
            // It may still mount, so the record stays: a repeat finds what has become of it.
            return Err(error);
        }
        if self.mounted(target)?.is_some() {
            // The kernel may have finished just before the helper was ended: a mount appears with its flags or not at all.
            if matches!(&error, NodeError::Mount { cause, .. } if cause.was_cut_off()) {
                return self.give_ownership(request, target).await.map(|()| None);
            }
            // What it could not give the mount a repeat tries again.
            return Err(error);
        }
        // A failed publish leaves what it has found, and the first error is the one to tell. What was published before, or is
        // taken for staged by the orchestrator, has its record and its folder: the next call mounts it, or takes them away.
        if let Action::Mount { makes_folder: true } = action {
            let _ = target::remove_folder(target).await;
        }
        self.put_back(request, target, here.record.as_ref()).await;
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

    /// Gives what is mounted already the owner and mode that the request asks for, or else asks its server. Returns an error
    /// when the server does not know the folder any more. While it does not answer, that cannot be told, and the mount stays: it
    /// works again when the server does.
    async fn give_ownership_or_ask(
        &self,
        request: &PublishRequest,
        here: &Here,
    ) -> Result<Option<NodeError>, NodeError> {
        let Some(mount) = &here.mounted else {
            return Ok(None);
        };
        if request.ownership != Ownership::default() {
            return match self.give_ownership(request, &mount.target).await {
                Err(error) if mount.is_nfs() && error.is_stale() => Ok(Some(error)),
                given => given.map(|()| None),
            };
        }
        if !mount.is_nfs() {
            return Ok(None);
        }
        let bound = self.config.bounds.stats;
        let path = &mount.target;
        let answer = self.questions.usage(path, Some(mount), false, bound).await;
        let Err(cause) = answer else { return Ok(None) };
        let why = cause.to_string();
        self.warn("a published volume does not answer", path, ("error", &why));
        let (path, cause) = (path.clone(), Arc::new(cause));
        Ok(cause
            .is_stale()
            .then_some(NodeError::NoAnswer { path, cause }))
    }

    fn source(&self, arguments: &Arguments) -> Source {
        match self.config.local_share(&arguments.share) {
            Some((local, below)) => Source::Local {
                root: local.path.clone(),
                below: below.join(arguments.below()),
            },
            None => Source::Nfs,
        }
    }

    /// Applies the rules for a second publish and writes the record, as one step among all publishes. What is at the target comes
    /// with the record that is to stay when mounting fails.
    async fn compare_and_record(
        &self,
        request: &PublishRequest,
        staging: Option<&Path>,
        target: &Path,
    ) -> Result<(Action, Source, Here), NodeError> {
        let _lock = self.records.lock().await?;
        if request.purpose != Purpose::Stage {
            self.check_other_targets(request, target).await?;
        }
        let source = match staging {
            None => self.source(&request.arguments),
            Some(staging) => self.staged(request, staging).await?,
        };
        let mut here = self.here(request, target).await?;
        let new = request.record_at(target, staging);
        let (action, record) = decide(request, new, &source, &here)?;
        let records = self.records_for(request);
        match action {
            Action::Link(_) => {}
            Action::Keep => {
                if here.record.as_ref() != Some(&record) {
                    records.put(&record).await?;
                }
                here.record = Some(record);
            }
            Action::Mount { makes_folder } => {
                // First the record: only a folder that a record names is removed again.
                records.put(&record).await?;
                if makes_folder && let Err(error) = target::make_folder(target).await {
                    self.put_back(request, target, here.record.as_ref()).await;
                    return Err(error);
                }
            }
        }
        Ok((action, source, here))
    }

    /// What is at a target.
    async fn here(&self, request: &PublishRequest, target: &Path) -> Result<Here, NodeError> {
        let record = self.records_for(request).get(target).await?;
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
        for other in self.records.all().await? {
            if other.volume_id != request.volume_id || other.target == target {
                continue;
            }
            let mode = request.arguments.access_mode();
            let strict = [mode, other.arguments.access_mode()]
                .into_iter()
                .find(|mode| !allows_many_targets(*mode));
            if let Some(strict) = strict
                && self.is_there(&other).await?
            {
                return Err(NodeError::Exclusive {
                    volume: other.volume_id,
                    other: other.target,
                    mode: strict.as_str_name(),
                });
            }
        }
        Ok(())
    }

    /// Whether what a record tells of is at its target, or being made or taken away.
    pub(super) async fn is_there(&self, record: &PublishRecord) -> Result<bool, NodeError> {
        // In this order: what does not run any more has its mount.
        Ok(self.operations.is_running(&record.target)
            || self.mounted(&record.target)?.is_some()
            || record.symlink.is_some()
                && matches!(target::look(&record.target).await?, Bare::Symlink(_)))
    }

    async fn mount(
        &self,
        request: &PublishRequest,
        source: &Source,
        target: &Path,
    ) -> Result<Note, NodeError> {
        let bounds = self.config.bounds;
        let bind = |root: &Path, below: &Path, is_nfs: bool| Task::Bind {
            root: root.to_owned(),
            below: below.to_owned(),
            target: target.to_owned(),
            flags: request.options.flags,
            without: hidden(request),
            ownership: request.ownership,
            is_nfs,
        };
        let (task, bound) = match source {
            Source::Nfs => {
                let source = NfsSource {
                    export: request.arguments.share.clone(),
                    options: request.options.clone(),
                    timeout: timeout(bounds.mount),
                };
                let place = Place::At {
                    target: target.to_owned(),
                    below: request.arguments.below(),
                    without: hidden(request),
                    ownership: request.ownership,
                };
                (Task::MountNfs { source, place }, bounds.mount)
            }
            Source::Local { root, below } => (bind(root, below, false), BIND_BOUND),
            Source::Staged(mount) => {
                let bind = bind(&mount.target, Path::new(""), mount.is_nfs());
                (bind, BIND_BOUND + bounds.stats)
            }
        };
        let mounted = match self.local_disk(source, target).await? {
            Some(disk) => self.mount_here(task, &disk, target, bound).await,
            None => self.helpers.run(&task, bound).await,
        };
        let error = match mounted {
            Ok(done) => {
                if let Some(version) = done.version {
                    let export = request.arguments.export().to_string();
                    let fields = [("export", export.into()), ("vers", version.as_str().into())];
                    self.log.event(Level::Debug, "mounted", &fields);
                }
                return Ok(None);
            }
            Err(error) => error,
        };
        match source.bound_folder() {
            Some((root, below))
                if self.config.symlink_fallback
                    && error.kind() == Some(FailureKind::NotPermitted) =>
            {
                self.link(request, &root.join(below), target).await
            }
            _ => Err(NodeError::mount(&request.arguments.export(), error)),
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
        let ownership = request.ownership;
        if ownership == Ownership::default() {
            return Ok(());
        }
        let target = target.to_owned();
        let task = Task::SetOwnership { target, ownership };
        match self.helpers.run(&task, self.config.bounds.mount).await {
            Ok(_) => Ok(()),
            Err(error) => Err(NodeError::mount(&request.arguments.export(), error)),
        }
    }

    /// Does `task`, a mount at `target` of what is on the disk `disk`, in a thread. One that hangs cannot be ended: so each disk has
    /// a few, and each target one. Those that hang at one target would mount one on top of the other in the end.
    async fn mount_here(
        &self,
        task: Task,
        disk: &str,
        target: &Path,
        bound: Duration,
    ) -> Result<Done, HelperError> {
        let hangs = |step: &str| HelperError::Hangs {
            step: step.to_owned(),
            after: bound,
        };
        let Some(at_target) = self.questions.turn_at(target) else {
            return Err(hangs("an earlier mount there goes on"));
        };
        let deadline = Instant::now() + bound;
        let Some(on_disk) = self.questions.turn(disk, deadline).await else {
            return Err(hangs("earlier tasks on its disk go on"));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let guard = (at_target, on_disk);
        self.helpers
            .run_where_it_fits(task, true, left, guard)
            .await
    }

    /// The disk that a mount of `source` at `target` waits for, where it asks no server.
    ///
    /// # Errors
    /// When the source does not answer.
    async fn local_disk(
        &self,
        source: &Source,
        target: &Path,
    ) -> Result<Option<String>, NodeError> {
        let Some((root, below)) = source.bound_folder() else {
            return Ok(None);
        };
        let mounts = self.mounts()?;
        let is_local = |path: &Path| mountinfo::asks_no_server(&mounts, path);
        // As it is written, before it is touched.
        if !is_local(target) || !is_local(&root.join(below)) {
            return Ok(None);
        }
        let context = format!("looking up {}", root.display());
        let root = root.to_owned();
        // A symlink may lead anywhere; a helper finds out what is wrong with the folder.
        #[expect(clippy::disallowed_methods, reason = "in a closure for `off_thread`")]
        let real = target::off_thread(context, &root.clone(), move || root.canonicalize()).await;
        match real.map(|real| real.join(below)) {
            Ok(real) if is_local(&real) => Ok(mountinfo::covering(&mounts, &real).map(server_of)),
            // A helper would hang as well, and could not be ended.
            Err(error) if matches!(&error, NodeError::Io { cause, .. } if cause.kind() == io::ErrorKind::TimedOut) => {
                Err(error)
            }
            _ => Ok(None),
        }
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
        let record = PublishRecord {
            symlink: Some(folder.to_owned()),
            ..request.record_at(target, None)
        };
        self.records_for(request).put(&record).await?;
        let note = symlink_note(folder);
        target::remove_folder(target).await?;
        target::make_symlink(folder, target).await?;
        self.warn("symlink instead of a mount", target, ("why", &note));
        Ok(Some(note))
    }
}

/// What must not be in the volume's folder: whoever writes a pod names that of an inline volume, and may name a share's root.
fn hidden(request: &PublishRequest) -> Option<String> {
    (request.purpose == Purpose::Inline).then(|| RECORDS_FOLDER.to_owned())
}
