//! The shares that this process knows, and work on them. Owns which share a request means, what was learned of each since
//! the start (its UUID, its mount options). What no call waits for is in `background`, what lies in what in `neighbours`.

use super::background_tasks::BackgroundTasks;
use super::config::{ControllerConfig, NamedShare, Role};
use super::copies::Copies;
use super::error::ControllerError;
use super::known::{Attempt, Known};
use super::looks::Looks;
use super::options::{KnownOptions, Options};
use super::outcome::{Lists, OperationKey, SnapshotOutcome, VolumeOutcome, are_on_one_server};
use super::remembered::{Remembered, remember};
use crate::calls::limits;
use crate::calls::operations::Operations;
use crate::calls::parameters::{Parameters, secret_options};
use crate::calls::volume_id::Location;
use crate::mount::options::MountOptions;
use crate::process::disk_thread::DiskThread;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::files::roots::{MoreMounts, Root, RootError};
use csi_nfs_store::share::agent_memory::AgentMemory;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::paths::sub_path::RECORDS_FOLDER;
use csi_nfs_store::share::promise_memory::PromiseMemory;
use csi_nfs_store::share::token::ShareUuid;
use csi_proto::lock::lock;
use csi_proto::v1::{list_snapshots_response, list_volumes_response};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// A share that a request means.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub export: Export,
    pub location: Location,
}

pub(crate) struct Shares {
    pub(crate) config: ControllerConfig,
    pub(super) known: Mutex<BTreeMap<Export, Known>>,
    /// Which share belongs at an address where none has been seen, or lists have forgotten it. The id of a call that changes
    /// something has told the first kind.
    pub(super) lost: Mutex<BTreeMap<Export, ShareUuid>>,
    remembered: Mutex<Remembered>,
    /// Writes the file of what is remembered.
    work_folder: DiskThread,
    pub(super) agent_memory: Arc<AgentMemory>,
    pub(super) promise_memory: Arc<PromiseMemory>,
    pub(super) background: BackgroundTasks,
    pub(crate) operations: Operations<OperationKey, VolumeOutcome>,
    pub(crate) snapshot_operations: Operations<OperationKey, SnapshotOutcome>,
    pub(super) volume_lists: Lists<list_volumes_response::Entry>,
    pub(super) snapshot_lists: Lists<list_snapshots_response::Entry>,
    pub(super) copies: Copies,
    pub(super) looks: Arc<Looks>,
    /// Whether the shares that were named at the start have been looked at.
    pub(super) looked_at: OnceCell<()>,
}

/// How many lost shares are learned of from ids.
const MOST_LOST: usize = 10_000;

/// How an attempt to use a share has ended.
enum ShareUse<T, W> {
    Done(T),
    /// The root folder is one that the server does not know any more; the work was not begun.
    Stale(W),
    /// The share has the UUID of one at another address, which it is to be compared with; the work was not begun.
    Twin(W, (Root, ShareUuid), Export),
}

impl Shares {
    pub(super) fn new(config: ControllerConfig) -> Self {
        let shares = Self {
            known: Mutex::default(),
            lost: Mutex::default(),
            remembered: Mutex::new(Remembered::load(config.remember.clone())),
            work_folder: DiskThread::default(),
            agent_memory: Arc::default(),
            promise_memory: Arc::default(),
            background: BackgroundTasks::default(),
            operations: Operations::by_server(are_on_one_server),
            snapshot_operations: Operations::by_server(are_on_one_server),
            volume_lists: Lists::default(),
            snapshot_lists: Lists::default(),
            copies: Copies::default(),
            looks: Arc::default(),
            looked_at: OnceCell::new(),
            config,
        };
        for export in &shares.config.other_exports {
            shares.know(&mut lock(&shares.known), export);
        }
        for named in &shares.config.named_shares {
            let mut known = lock(&shares.known);
            let share = shares.know(&mut known, &named.export);
            share.options.configured = named.mount_options.clone();
        }
        shares
    }

    /// What is known of a share, which is known from now on.
    fn know<'a>(&self, known: &'a mut BTreeMap<Export, Known>, export: &Export) -> &'a mut Known {
        let order = known.values().map(|share| share.order + 1).max();
        known.entry(export.clone()).or_insert_with(|| Known {
            order: order.unwrap_or_default(),
            options: self.remembered(export),
            ..Known::default()
        })
    }

    /// Does `work` with what is known of the share, if anything is.
    pub(super) fn on_known<T>(
        &self,
        export: &Export,
        work: impl FnOnce(&mut Known) -> T,
    ) -> Option<T> {
        lock(&self.known).get_mut(export).map(work)
    }

    /// Remembers a share that has been opened with the options `used` for a call with `given` ones, and was found to be `uuid`.
    /// Returns whether this is its first use.
    fn learn(&self, export: &Export, given: &Options, used: Vec<String>, uuid: ShareUuid) -> bool {
        let mut known = lock(&self.known);
        let share = self.know(&mut known, export);
        share.uuid = Some(uuid);
        lock(&self.lost).remove(export);
        share.used = Some(Instant::now());
        share.options.learn(given, used);
        !std::mem::replace(&mut share.recovered, true)
    }

    /// Keeps which share there is at an address that is known. It has been looked at, which is no use: nothing else is learned.
    pub(super) fn saw(&self, export: &Export, uuid: ShareUuid) {
        self.on_known(export, |share| {
            share.uuid.get_or_insert(uuid);
        });
    }

    /// Forgets a share, but for which one it was. Returns whether it was known.
    pub(super) fn forget(&self, export: &Export) -> bool {
        let mut known = lock(&self.known);
        let share = known.remove(export);
        if let Some(uuid) = share.as_ref().and_then(|share| share.uuid) {
            lock(&self.lost).insert(export.clone(), uuid);
            if !known.values().any(|other| other.uuid == Some(uuid)) {
                self.agent_memory.forget(uuid);
            }
        }
        share.is_some()
    }

    /// The options to open a share with.
    pub(super) fn options(&self, export: &Export, given: &Options) -> Vec<String> {
        let known = self.on_known(export, |share| share.options.choose(given));
        known.unwrap_or_else(|| self.remembered(export).choose(given))
    }

    /// The options that an earlier process has opened a share with.
    fn remembered(&self, export: &Export) -> KnownOptions {
        KnownOptions {
            learned: lock(&self.remembered).get(export).cloned(),
            ..KnownOptions::default()
        }
    }

    /// Keeps the options of a share, with which it has been opened, for the time after a restart.
    pub(super) async fn remember(self: &Arc<Self>, export: &Export) {
        let learned = self.on_known(export, |share| share.options.learned.clone());
        let Some(options) = learned.flatten() else {
            return;
        };
        if !lock(&self.remembered).is_new(export, &options) {
            return;
        }
        let (shares, address) = (Arc::clone(self), export.clone());
        let writing = move || remember(&shares.remembered, address, options);
        if let Err(error) = self.work_folder.run(writing).await {
            (self.config.notice)(&format!(
                "{export}: its mount options are forgotten at the next restart: {error}"
            ));
        }
    }

    /// The shares that were named at the start, in order.
    pub(super) fn configured(&self) -> Vec<Export> {
        let named = self.config.named_shares.iter().map(|named| &named.export);
        let mut exports: Vec<Export> = named.chain(&self.config.other_exports).cloned().collect();
        exports.sort();
        exports.dedup();
        exports
    }

    /// The share that parameters mean.
    pub(crate) fn choose(&self, parameters: &Parameters) -> Result<Chosen, ControllerError> {
        match (&parameters.server, &parameters.share) {
            (Some(server), Some(share)) => self.at(Export::parse(server, share)?),
            (Some(_), None) => Err(ControllerError::Invalid(
                "the parameter server is given without share: give both, or neither".to_owned(),
            )),
            (None, Some(name)) => {
                let named = self.named(name).ok_or_else(|| {
                    ControllerError::Invalid(format!(
                        "the parameter share is {name:?} without server, and no share has that name: give server too, or {}",
                        self.names()
                    ))
                })?;
                Ok(Chosen {
                    export: named.export.clone(),
                    location: Location::Named(named.name.clone()),
                })
            }
            (None, None) => match self.configured().as_slice() {
                [export] => match self.name_of(export) {
                    Some(location) => Ok(Chosen {
                        export: export.clone(),
                        location,
                    }),
                    None => self.at(export.clone()),
                },
                _ => Err(ControllerError::Invalid(format!(
                    "the parameters server and share are missing: they may be left out only when the driver was started with exactly one share; give both, or {}",
                    self.names()
                ))),
            },
        }
    }

    /// The share at an address, by which ids name it unless that is too long.
    pub(crate) fn at(&self, export: Export) -> Result<Chosen, ControllerError> {
        if export.is_private() {
            return Err(ControllerError::Invalid(format!(
                "the share {:?} is in the driver's own folder {RECORDS_FOLDER}",
                export.path()
            )));
        }
        self.check_server(&export)?;
        let by_address = Location::Export(export.clone());
        let location = match (by_address.check_length(), self.name_of(&export)) {
            (Ok(()), _) => by_address,
            (Err(_), Some(named)) => named,
            (Err(too_long), None) => return Err(too_long.into()),
        };
        Ok(Chosen { export, location })
    }

    pub(super) fn named(&self, name: &str) -> Option<&NamedShare> {
        let mut named = self.config.named_shares.iter();
        named.find(|named| named.name == name)
    }

    pub(super) fn name_of(&self, export: &Export) -> Option<Location> {
        let mut named = self.config.named_shares.iter();
        let named = named.find(|named| named.export == *export)?;
        Some(Location::Named(named.name.clone()))
    }

    fn names(&self) -> String {
        let named = self.config.named_shares.iter();
        let names: Vec<&str> = named.map(|named| named.name.as_str()).collect();
        match names.as_slice() {
            [] => "start the driver with --share NAME=SERVER:/PATH".to_owned(),
            names => format!("share=NAME alone with one of {}", names.join(", ")),
        }
    }

    /// The share that an id means.
    pub(crate) fn locate(&self, location: &Location) -> Result<Export, ControllerError> {
        match location {
            Location::Export(export) => {
                self.check_server(export)?;
                Ok(export.clone())
            }
            Location::Named(name) => match self.named(name) {
                Some(named) => Ok(named.export.clone()),
                None => Err(ControllerError::UnknownShare(name.clone())),
            },
        }
    }

    fn check_server(&self, export: &Export) -> Result<(), ControllerError> {
        let server = export.server();
        let is_named = |known: &Export| known.is_on(server);
        match self.config.policy.allows_server(server) || self.configured().iter().any(is_named) {
            true => Ok(()),
            false => Err(ControllerError::ServerNotAllowed(export.clone())),
        }
    }

    /// Refuses mount options that nobody may use.
    pub(crate) fn check_mount_options(&self, options: &[String]) -> Result<(), ControllerError> {
        let words = options.iter().map(String::as_str);
        MountOptions::parse(words, &self.config.policy)?;
        Ok(())
    }

    /// The mount options of a call that has only secrets.
    pub(crate) fn secret_options(
        &self,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Options, ControllerError> {
        limits::map("secrets", secrets)?;
        let options = secret_options(secrets);
        self.check_mount_options(&options)?;
        Ok(Options::of_call(Vec::new(), options))
    }

    /// What to expect of a share, where no id tells.
    pub(crate) fn expect_or(&self, export: &Export, unknown: Expect) -> Expect {
        if let Expect::Known(_) = unknown {
            return unknown;
        }
        let mut named = self.config.named_shares.iter();
        let told = named.find_map(|named| named.uuid.filter(|_| named.export == *export));
        let seen = || self.on_known(export, |share| share.uuid).flatten();
        // An id may be older than the share that is there now.
        let lost = || lock(&self.lost).get(export).copied().map(Expect::Kept);
        let known = told.or_else(seen).map(Expect::Known);
        known.or_else(lost).unwrap_or(unknown)
    }

    /// What a call has `done` that changes what an id means. Where the id's share has lost its records, that is remembered: a later
    /// call that knows less would begin anew in its place. A question teaches nothing, since it may be about any id.
    pub(super) fn taught<T>(
        &self,
        export: &Export,
        done: Result<T, ControllerError>,
    ) -> Result<T, ControllerError> {
        if let Err(ControllerError::Share { source, .. }) = &done
            && let ShareError::RecordsMissing(uuid) = **source
        {
            let mut lost = lock(&self.lost);
            if lost.len() < MOST_LOST {
                lost.entry(export.clone()).or_insert(uuid);
            }
        }
        done
    }

    /// The root folder of a share, and the options that it was opened with.
    ///
    /// Of a volume made with `mountOptions=vers=3` on a server that exports other paths to version 4, a driver may know no
    /// more than the id. When it `may_be_older`, version 3 is tried too: the UUID tells whether it leads to the right share.
    async fn open(
        &self,
        export: &Export,
        options: Vec<String>,
        may_be_older: bool,
    ) -> Result<(Root, Vec<String>), ControllerError> {
        let roots = &self.config.roots;
        let missing = match roots.open(export, &options).await {
            Ok(root) => return Ok((root, options)),
            Err(missing @ RootError::NotExported(_)) if may_be_older => missing,
            Err(other) => return Err(ControllerError::Root(Arc::new(other))),
        };
        let older = vec!["vers=3".to_owned()];
        if self.check_mount_options(&older).is_ok() {
            let older = self.options(export, &Options::Open(older));
            if let Ok(root) = roots.open(export, &older).await {
                return Ok((root, older));
            }
        }
        Err(ControllerError::Root(Arc::new(missing)))
    }

    /// Does `work`, which may block, with the root folder of a share, opened with `mount_options` as [`Shares::open`] does. It
    /// waits for its turn among work of its `kind` after that, so a server that cannot be reached has nobody wait for it here.
    pub(super) async fn with_opened<T: Send + 'static>(
        &self,
        kind: Work,
        export: &Export,
        mount_options: Vec<String>,
        may_be_older: bool,
        work: impl FnOnce(Root, Vec<String>) -> Result<T, ShareError> + Send + 'static,
    ) -> Result<T, ControllerError> {
        let opening = self.open(export, mount_options, may_be_older);
        let mut attempt = Attempt::begin(&self.known, export);
        let opened = self.looks.watch(export, None, opening).await;
        attempt.opened = Some(opened.is_ok());
        drop(attempt);
        let (root, options) = opened?;
        // Not to be the last that has it: the last close of a mount waits for the server.
        let seen = Arc::downgrade(&root);
        let used = options.clone();
        let working = async {
            let turn = self.config.admission.enter(export.server(), kind).await;
            let working = spawn_blocking(move || {
                let done = work(root, used);
                drop(turn);
                done
            });
            working.await
        };
        match self.looks.watch(export, Some(seen), working).await {
            Ok(result) => result.map_err(|source| {
                if source.is_stale() {
                    self.config.roots.forget(export, &options);
                }
                ControllerError::Share {
                    export: export.clone(),
                    source: Arc::new(source),
                }
            }),
            Err(_) => Err(ControllerError::ShuttingDown),
        }
    }

    /// Does `work` of a call, which may block, with the root folder of a share, which may have no records. Nothing is learned of
    /// the share.
    pub(crate) async fn with_root<T: Send + 'static>(
        &self,
        export: &Export,
        given: &Options,
        work: impl Fn(Root) -> Result<T, ShareError> + Clone + Send + 'static,
    ) -> Result<T, ControllerError> {
        let once = || {
            let (options, work) = (self.options(export, given), work.clone());
            let may_be_older = *given == Options::Upstream;
            let work = move |root, _| work(root);
            self.with_opened(Work::Call, export, options, may_be_older, work)
        };
        match once().await {
            // The mount of a folder that is gone has been let go of.
            Err(ControllerError::Share { source, .. }) if source.is_stale() => once().await,
            done => done,
        }
    }

    /// Does `work` of a call, which may block, with a share that is what `expect` says.
    pub(crate) async fn with_share<T: Send + 'static>(
        self: &Arc<Self>,
        export: &Export,
        given: &Options,
        expect: Expect,
        work: impl FnOnce(&Share) -> Result<T, ShareError> + Send + 'static,
    ) -> Result<T, ControllerError> {
        self.with_share_for(Work::Call, export, given, expect, work)
            .await
    }

    /// Does the driver's own `work` with a share; nothing where that has no records.
    pub(crate) async fn with_records<T: Send + 'static>(
        self: &Arc<Self>,
        kind: Work,
        export: &Export,
        work: impl FnOnce(&Share) -> Result<T, ShareError> + Send + 'static,
    ) -> Result<Option<T>, ControllerError> {
        let expect = self.expect_or(export, Expect::Initialised);
        let working = self.with_share_for(kind, export, &Options::Own, expect, work);
        match working.await {
            Err(error) if error.is_no_records() => Ok(None),
            done => done.map(Some),
        }
    }

    /// Does `work` of any kind with a share that is what `expect` says. The first use of a share starts its recovery; upkeep is
    /// no use, and no more is learned by it than which share there is.
    pub(super) async fn with_share_for<T: Send + 'static>(
        self: &Arc<Self>,
        kind: Work,
        export: &Export,
        given: &Options,
        expect: Expect,
        mut work: impl FnOnce(&Share) -> Result<T, ShareError> + Send + 'static,
    ) -> Result<T, ControllerError> {
        self.look_at_configured(export).await;
        let options = self.options(export, given);
        let may_be_older = match given {
            Options::Upstream => true,
            _ => matches!(expect, Expect::Known(_)) && options.is_empty(),
        };
        let mut is_second = false;
        loop {
            let (shares, address, given) = (Arc::clone(self), export.clone(), given.clone());
            let with_root = move |root: Root, options: Vec<String>| {
                let expect = shares.expect_or(&address, expect);
                let share = match Share::open(Arc::clone(&root), expect) {
                    // Kept mounts can be of a folder that the server has no more. Another one tells what is there now.
                    Err(stale) if stale.is_stale() && !is_second => {
                        shares.config.roots.forget(&address, &options);
                        return Ok(ShareUse::Stale(work));
                    }
                    share => share?,
                };
                let uuid = share.uuid();
                if let Some(twin) = shares.twin(&address, uuid) {
                    return Ok(ShareUse::Twin(work, (root, uuid), twin));
                }
                let share = shares.placed(&address, kind, &options, share)?;
                let is_first_use = match kind {
                    Work::Upkeep => {
                        shares.saw(&address, uuid);
                        false
                    }
                    _ => shares.learn(&address, &given, options, uuid),
                };
                let result = work(&share);
                // An agent walks through its shares anyway.
                if is_first_use && shares.config.role == Role::Controller {
                    shares.spawn(Arc::clone(&shares).recover(address));
                }
                result.map(ShareUse::Done)
            };
            let used = self.with_opened(kind, export, options.clone(), may_be_older, with_root);
            work = match used.await? {
                ShareUse::Done(done) => return Ok(done),
                ShareUse::Stale(work) => {
                    is_second = true;
                    work
                }
                ShareUse::Twin(work, share, other) => {
                    self.compare(export, share, other).await?;
                    work
                }
            };
        }
    }

    /// The share, opened with `mount_options`, as one on which this process does work of a `kind` from where it is.
    fn placed(
        &self,
        export: &Export,
        kind: Work,
        mount_options: &[String],
        share: Share,
    ) -> Result<Share, ShareError> {
        let mut share = self.counting(export, share);
        share.memory = Arc::clone(&self.agent_memory);
        if kind == Work::Copy {
            share.more = Some(MoreMounts {
                roots: Arc::clone(&self.config.roots),
                export: export.clone(),
                mount_options: mount_options.to_vec(),
                runtime: Handle::current(),
            });
        }
        let share = match self.config.role {
            Role::Agent => share.as_agent()?,
            Role::Controller if self.config.roots.is_local(export) => share,
            Role::Controller => return Ok(share.away()),
        };
        Ok(match self.config.quotas {
            true => share.with_quotas(),
            false => share,
        })
    }
}
