//! Many calls at a time to the controllers of one share, drawn by a seed, and a model that must agree with the share in the
//! end: a map of the volumes and snapshots that were made and not deleted.
//!
//! Every call is repeated until its answer is final, as an orchestrator does; so the model knows what became of each.

use crate::support::calls::{self, Calls, Map, may_be_repeated, repeated};
use crate::support::dice::Dice;
use crate::support::disk::{Disk, Expected};
use crate::support::placed::of_volume;
use csi_proto::v1::CreateVolumeRequest;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// Callers at a time.
pub const CALLERS: u64 = 64;

/// Names of volumes, and as many of snapshots.
const NAMES: u64 = 8;

/// A storm of calls.
pub struct Storm<'a> {
    /// The controllers' endpoints; the callers are spread over them.
    pub controllers: &'a [String],
    /// The parameters of volumes, but onDelete.
    pub parameters: Map,
    /// The share's folder on disk.
    pub folder: &'a Path,
    /// What draws the calls.
    pub seed: u64,
    /// Until when calls are begun.
    pub extent: Extent,
}

/// How much of it there is.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// So many calls, or other pieces of work: as much on a busy machine as on a quiet one.
    Work(usize),
    Until(Instant),
}

impl Extent {
    /// `CSI_TEST_MINUTES` from now on, or so much work where that is not set.
    pub fn of(work: usize) -> Self {
        let minutes = std::env::var("CSI_TEST_MINUTES").ok();
        let minutes = minutes.map(|text| text.parse::<f64>().expect("CSI_TEST_MINUTES: a number"));
        let seconds = minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
        seconds.map_or(Self::Work(work), |time| Self::Until(Instant::now() + time))
    }

    /// Whether there is no more, when so much was done.
    pub fn is_over(self, done: usize) -> bool {
        match self {
            Self::Work(work) => done >= work,
            Self::Until(end) => Instant::now() >= end,
        }
    }
}

/// The life of a volume or snapshot as the callers have seen it. Times count the answers of all callers.
#[derive(Clone, Debug, Default)]
struct Life {
    name: String,
    deletion_begun: Option<u64>,
    deleted: Option<u64>,
    /// The largest size that an expansion has promised.
    bytes: i64,
}

#[derive(Default)]
struct Model {
    now: u64,
    volumes: BTreeMap<String, Life>,
    snapshots: BTreeMap<String, Life>,
    /// Calls by what they were and how they ended.
    tally: BTreeMap<String, usize>,
}

impl Model {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn answered(&self) -> usize {
        self.tally.values().sum()
    }

    fn count<T>(&mut self, what: &str, answer: &Result<T, Status>) {
        let how = answer
            .as_ref()
            .map_or_else(|status| status.code(), |_| Code::Ok);
        *self.tally.entry(format!("{what} {how:?}")).or_default() += 1;
    }
}

/// The policy of a volume, which its name decides: some are archived.
fn policy(name: u64) -> &'static str {
    if name >= NAMES - 2 {
        "archive"
    } else {
        "delete"
    }
}

impl Storm<'_> {
    /// Lets it rage, and compares the model with the share. Returns how many calls were answered.
    pub fn rage(&self) -> usize {
        let runtime = calls::runtime();
        let tasks = tokio::task::LocalSet::new();
        tasks.block_on(&runtime, self.run())
    }

    async fn run(&self) -> usize {
        let disk = Disk::with_foreign_files(self.folder);
        let controllers: Vec<Calls> = self.controllers.iter().map(|it| Calls::to(it)).collect();
        // One volume that nobody deletes, to be copied.
        let gold = controllers[0].create(self.request("gold", "delete"));
        let gold = gold.await.unwrap().volume_id;
        for file in 0..20 {
            std::fs::write(
                of_volume(self.folder, format!("gold/{file}")),
                format!("gold {file}"),
            )
            .unwrap();
        }
        let model = Rc::new(RefCell::new(Model::default()));
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                let caller = Caller {
                    calls: controllers[number as usize % controllers.len()].clone(),
                    parameters: self.parameters.clone(),
                    model: Rc::clone(&model),
                    dice: Dice::of(self.seed, number),
                    gold: gold.clone(),
                };
                tokio::task::spawn_local(caller.call_for(self.extent))
            })
            .collect();
        for caller in callers {
            caller
                .await
                .unwrap_or_else(|panic| panic!("seed {}: {panic}", self.seed));
        }
        let model = model.take();
        self.compare(&model, &controllers, &gold, &disk).await;
        let calls = model.answered();
        eprintln!("seed {}: {calls} calls: {:?}", self.seed, model.tally);
        calls
    }

    fn request(&self, name: &str, policy: &str) -> CreateVolumeRequest {
        request(&self.parameters, name, policy)
    }

    async fn compare(&self, model: &Model, controllers: &[Calls], gold: &str, disk: &Disk) {
        let alive = |lives: &BTreeMap<String, Life>| -> BTreeMap<String, String> {
            let living = lives.iter().filter(|(_, life)| life.deleted.is_none());
            living
                .map(|(id, life)| (id.clone(), life.name.clone()))
                .collect()
        };
        let (mut volumes, snapshots) = (alive(&model.volumes), alive(&model.snapshots));
        for living in [&volumes, &snapshots] {
            let names: BTreeSet<_> = living.values().collect();
            assert_eq!(
                names.len(),
                living.len(),
                "seed {}: two of a name: {living:?}",
                self.seed
            );
        }
        volumes.insert(gold.to_owned(), "gold".to_owned());
        for calls in controllers {
            let listed = calls.volumes().await.unwrap();
            let ids: BTreeSet<_> = listed.iter().map(|(it, _)| it.volume_id.clone()).collect();
            assert_eq!(ids, volumes.keys().cloned().collect(), "seed {}", self.seed);
            for (volume, wrong) in &listed {
                assert_eq!(*wrong, None, "seed {}: {}", self.seed, volume.volume_id);
                let life = model.volumes.get(&volume.volume_id);
                let promised = life.map_or(0, |life| life.bytes);
                assert!(
                    volume.capacity_bytes >= promised,
                    "seed {}: {volume:?}",
                    self.seed
                );
            }
            let listed = calls.snapshots().await.unwrap();
            let ids: BTreeSet<_> = listed.iter().map(|it| it.snapshot_id.clone()).collect();
            assert_eq!(
                ids,
                snapshots.keys().cloned().collect(),
                "seed {}",
                self.seed
            );
            assert!(listed.iter().all(|snapshot| snapshot.ready_to_use));
        }
        let mut folders: BTreeSet<String> = volumes.values().cloned().collect();
        for (id, life) in &model.volumes {
            let kept = life.name.strip_prefix('v').and_then(|it| it.parse().ok());
            if life.deleted.is_some() && kept.is_some_and(|number| policy(number) == "archive") {
                let nonce = id.rsplit_once('.').unwrap().1;
                folders.insert(format!("archived-{}-{nonce}", life.name));
            }
        }
        disk.settles_with(&Expected {
            folders,
            volumes: volumes.len(),
            snapshots: snapshots.len(),
        });
        for name in volumes
            .values()
            .filter(|name| name.starts_with("copy") || *name == "gold")
        {
            for file in 0..20 {
                let path = of_volume(self.folder, name).join(file.to_string());
                let content = std::fs::read_to_string(&path).unwrap();
                assert_eq!(
                    content,
                    format!("gold {file}"),
                    "seed {}: {path:?}",
                    self.seed
                );
            }
        }
    }
}

fn request(parameters: &Map, name: &str, policy: &str) -> CreateVolumeRequest {
    let mut parameters = parameters.clone();
    // Some at paths that users have chosen, some where the driver wants them.
    if name.len().is_multiple_of(2) || name.ends_with(['1', '3', '5', '7', '9']) {
        parameters.insert("subDir".to_owned(), name.to_owned());
    }
    parameters.insert("onDelete".to_owned(), policy.to_owned());
    calls::volume(name, &parameters)
}

struct Caller {
    calls: Calls,
    parameters: Map,
    model: Rc<RefCell<Model>>,
    dice: Dice,
    gold: String,
}

impl Caller {
    async fn call_for(mut self, extent: Extent) {
        while !extent.is_over(self.model.borrow().answered()) {
            let name = self.dice.below(NAMES);
            match self.dice.below(100) {
                0..30 => {
                    self.create(request(&self.parameters, &format!("v{name}"), policy(name)))
                        .await
                }
                30..40 => {
                    let copy = CreateVolumeRequest {
                        volume_content_source: calls::of_volume(&self.gold),
                        ..request(&self.parameters, &format!("copy{name}"), "delete")
                    };
                    self.create(copy).await;
                }
                40..65 => self.delete().await,
                65..75 => self.expand().await,
                75..85 => self.snapshot(name).await,
                85..93 => self.delete_snapshot().await,
                93..97 => self.restore(name).await,
                _ => self.list().await,
            }
        }
    }

    /// One of the volumes or snapshots, dead ones among them now and then.
    fn one_of(&mut self, pick: fn(&Model) -> &BTreeMap<String, Life>) -> Option<String> {
        let dead_too = self.dice.below(8) == 0;
        let model = self.model.borrow();
        let lives = pick(&model)
            .iter()
            .filter(|(_, life)| dead_too || life.deleted.is_none());
        let ids: Vec<&String> = lives.map(|(id, _)| id).collect();
        let count = ids.len() as u64;
        (count > 0).then(|| ids[self.dice.below(count) as usize].clone())
    }

    async fn create(&mut self, request: CreateVolumeRequest) {
        let begun = self.model.borrow_mut().tick();
        let answer = repeated(|| self.calls.create(request.clone())).await;
        let mut model = self.model.borrow_mut();
        model.count("create", &answer);
        match answer {
            Ok(volume) => {
                let life = model.volumes.entry(volume.volume_id.clone()).or_default();
                life.name = request.name;
                life.bytes = life.bytes.max(volume.capacity_bytes);
                assert!(
                    life.deleted.is_none_or(|deleted| deleted > begun),
                    "{} was deleted and came back",
                    volume.volume_id
                );
            }
            // The snapshot that was to be restored is gone, or the volume of that name is a copy of another one.
            Err(status)
                if request.volume_content_source.is_some()
                    && matches!(status.code(), Code::NotFound | Code::AlreadyExists) => {}
            Err(status) => panic!("create {}: {status}", request.name),
        }
    }

    async fn restore(&mut self, name: u64) {
        let Some(snapshot) = self.one_of(|model| &model.snapshots) else {
            return;
        };
        let restored = CreateVolumeRequest {
            // As large as what is restored, which may have been expanded.
            capacity_range: None,
            volume_content_source: calls::of_snapshot(&snapshot),
            ..request(&self.parameters, &format!("restored{name}"), "delete")
        };
        self.create(restored).await;
    }

    async fn delete(&mut self) {
        let Some(id) = self.one_of(|model| &model.volumes) else {
            return;
        };
        self.begin_deletion(&id, |model| &mut model.volumes);
        let answer = repeated(|| self.calls.delete(&id)).await;
        self.end_deletion("delete", &id, answer, |model| &mut model.volumes);
    }

    async fn delete_snapshot(&mut self) {
        let Some(id) = self.one_of(|model| &model.snapshots) else {
            return;
        };
        self.begin_deletion(&id, |model| &mut model.snapshots);
        let answer = repeated(|| self.calls.delete_snapshot(&id)).await;
        self.end_deletion("delete snapshot", &id, answer, |model| &mut model.snapshots);
    }

    fn begin_deletion(&self, id: &str, pick: fn(&mut Model) -> &mut BTreeMap<String, Life>) {
        let mut model = self.model.borrow_mut();
        let now = model.tick();
        let life = pick(&mut model).entry(id.to_owned()).or_default();
        life.deletion_begun.get_or_insert(now);
    }

    fn end_deletion(
        &self,
        what: &str,
        id: &str,
        answer: Result<(), Status>,
        pick: fn(&mut Model) -> &mut BTreeMap<String, Life>,
    ) {
        let mut model = self.model.borrow_mut();
        model.count(what, &answer);
        if let Err(status) = answer {
            panic!("{what} {id}: {status}");
        }
        let now = model.tick();
        let life = pick(&mut model).entry(id.to_owned()).or_default();
        life.deleted.get_or_insert(now);
    }

    async fn expand(&mut self) {
        let Some(id) = self.one_of(|model| &model.volumes) else {
            return;
        };
        let wanted = (1 + self.dice.below(8) as i64) << 30;
        let answer = repeated(|| self.calls.expand(&id, wanted)).await;
        let mut model = self.model.borrow_mut();
        model.count("expand", &answer);
        let life = model.volumes.entry(id.clone()).or_default();
        match answer {
            Ok(bytes) => {
                assert!(bytes >= wanted, "{id}: {bytes} instead of {wanted}");
                life.bytes = life.bytes.max(wanted);
            }
            Err(status) => is_gone(&id, life, &status),
        }
    }

    async fn snapshot(&mut self, name: u64) {
        let Some(of) = self.one_of(|model| &model.volumes) else {
            return;
        };
        let begun = self.model.borrow_mut().tick();
        let answer = self.calls.ready_snapshot(&format!("s{name}"), &of).await;
        let mut model = self.model.borrow_mut();
        model.count("snapshot", &answer);
        match answer {
            Ok(snapshot) => {
                let life = model
                    .snapshots
                    .entry(snapshot.snapshot_id.clone())
                    .or_default();
                life.name = format!("s{name}");
                assert!(
                    life.deleted.is_none_or(|deleted| deleted > begun),
                    "{} was deleted and came back",
                    snapshot.snapshot_id
                );
            }
            // The name is that of a snapshot of another volume.
            Err(status) if status.code() == Code::AlreadyExists => {}
            Err(status) => {
                let life = model.volumes.entry(of.clone()).or_default();
                is_gone(&of, life, &status);
            }
        }
    }

    async fn list(&mut self) {
        let begun = self.model.borrow_mut().tick();
        let answer = repeated(|| self.calls.volumes()).await;
        let mut model = self.model.borrow_mut();
        model.count("list", &answer);
        let listed = answer.unwrap_or_else(|status| panic!("list: {status}"));
        let ids: BTreeSet<_> = listed.iter().map(|(volume, _)| &volume.volume_id).collect();
        for (id, life) in &model.volumes {
            let deleted = life.deleted.is_some_and(|deleted| deleted < begun);
            assert!(!(deleted && ids.contains(id)), "{id} is deleted and listed");
        }
    }
}

/// Only a volume that somebody deletes may be missing.
fn is_gone(id: &str, life: &Life, status: &Status) {
    assert!(!may_be_repeated(status), "{id}: no end: {status}");
    assert_eq!(status.code(), Code::NotFound, "{id}: {status}");
    assert!(life.deletion_begun.is_some(), "{id} is missing: {status}");
}

/// All callers create one volume at a time, then delete it, a few times over.
pub fn race_for_one_name(controllers: &[String], parameters: &Map, folder: &Path) {
    let runtime = calls::runtime();
    let disk = Disk::with_foreign_files(folder);
    runtime.block_on(async {
        let controllers: Vec<Calls> = controllers.iter().map(|it| Calls::to(it)).collect();
        for round in 0..3 {
            let name = format!("one-{round}");
            let at = |number: u64| controllers[number as usize % controllers.len()].clone();
            let creations: Vec<_> = (0..CALLERS)
                .map(|number| {
                    let (calls, request) = (at(number), request(parameters, &name, "delete"));
                    tokio::spawn(async move { repeated(|| calls.create(request.clone())).await })
                })
                .collect();
            let mut ids = BTreeSet::new();
            for creation in creations {
                ids.insert(creation.await.unwrap().unwrap().volume_id);
            }
            assert_eq!(ids.len(), 1, "{ids:?}");
            let id = ids.pop_first().unwrap();
            for calls in &controllers {
                let listed = calls.volumes().await.unwrap();
                assert_eq!(listed.len(), 1);
                assert_eq!(listed[0].0.volume_id, id);
            }
            disk.settles_with(&Expected {
                folders: [name].into(),
                volumes: 1,
                snapshots: 0,
            });
            let deletions: Vec<_> = (0..CALLERS)
                .map(|number| {
                    let (calls, id) = (at(number), id.clone());
                    tokio::spawn(async move { repeated(|| calls.delete(&id)).await })
                })
                .collect();
            for deletion in deletions {
                deletion.await.unwrap().unwrap();
            }
            disk.settles_with(&Expected::default());
        }
    });
}
