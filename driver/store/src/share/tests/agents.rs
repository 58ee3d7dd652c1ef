//! Copies that are left to an agent: taken by it, by others when it is dead or does nothing, and given back.

use super::super::agents::{self, Presence};
use super::super::attempt::process;
use super::copies::{assert_full, copy_of, full_volume, origin};
use super::*;
use crate::share::attempt::heartbeat::tests::let_a_period_pass;
use crate::share::comparison;
use crate::share::limits;
use crate::share::records::origin::{Origin, Source};
use crate::share::records::size::{Quota, Size};
use std::os::unix::fs::{MetadataExt, chown};
use std::time::Duration;

impl Trial {
    /// The share as a controller elsewhere sees it.
    fn away(&self) -> Share {
        self.share().away()
    }

    /// The share as the agent sees it.
    fn as_agent(&self) -> Share {
        self.share().as_agent().unwrap()
    }

    /// An agent that lives in `process` as far as anybody can know, and does nothing.
    fn announce(&self, process: &str) -> PathBuf {
        let presence = Presence::announce(&self.as_agent()).unwrap();
        let own = self.announcements().pop().unwrap();
        let text = std::fs::read_to_string(&own).unwrap();
        let other = own.with_file_name(crate::share::token::Nonce::random().unwrap().to_string());
        let text = text.replace(process::own(), process);
        assert!(text.contains(process), "{text}");
        std::fs::write(&other, text).unwrap();
        drop(presence);
        assert_eq!(self.announcements(), std::slice::from_ref(&other));
        other
    }

    /// One that says of itself that it enforces the sizes of volumes, and does nothing.
    fn announce_limits(&self) {
        let path = self.announce(STRANGER);
        let text = std::fs::read(&path).unwrap();
        let mut agent: serde_json::Value = serde_json::from_slice(&text).unwrap();
        agent["can"]["quotas"] = "enforced".into();
        std::fs::write(&path, agent.to_string()).unwrap();
        limits::prepare(&self.as_agent().with_quotas()).unwrap();
    }

    fn announcements(&self) -> Vec<PathBuf> {
        let names = self.files(".csi-nfs/agents").into_iter();
        names
            .map(|name| self.at(".csi-nfs/agents").join(name))
            .collect()
    }

    fn snapshot_from(
        &self,
        share: &Share,
        source: &Origin,
    ) -> Result<Record<Snapshot>, ShareError> {
        let wanted = snapshot::Wanted {
            name: "s".to_owned(),
            source: source.clone(),
        };
        life::create(share, &wanted, "s:/a", &Progress::default())
    }

    /// Leaves the copy of a snapshot to this process, as an agent, and dies.
    fn leave_snapshot(&self, source: &Origin) -> Presence {
        let presence = Presence::announce(&self.as_agent()).unwrap();
        let begun = crashing(3, || self.snapshot_from(&self.away(), source));
        assert!(begun.is_err());
        let record = &self.snapshots()[0];
        assert_eq!((record.generation, record.state), (1, State::Creating));
        assert_eq!(record.copying.as_ref().unwrap().process, process::own());
        presence
    }
}

const STRANGER: &str = "another-machine/1/1/1";

#[test]
fn a_copy_is_left_to_an_agent_that_lives_and_made_when_it_does_nothing() {
    let trial = Trial::new();
    let source = origin(&full_volume(&trial, "v"));
    trial.announce(STRANGER);
    for _ in 0..2 {
        let waiting = trial.snapshot_from(&trial.away(), &source).unwrap_err();
        let ShareError::CopiedElsewhere(_) = waiting else {
            panic!("{waiting}");
        };
        let [record] = &trial.snapshots()[..] else {
            panic!("{:?}", trial.snapshots());
        };
        let copying = record.copying.as_ref().unwrap();
        assert_eq!((record.generation, &*copying.process), (1, STRANGER));
        // Nothing of a copy that nobody has begun.
        assert_eq!(
            trial
                .files(&format!(".csi-nfs/snapshots/{}", record.key()))
                .len(),
            1
        );
    }
    // As every controller does, also one that knows of no agents.
    let_a_period_pass();
    let made = trial.snapshot_from(&trial.share(), &source).unwrap();
    assert_eq!(made.state, State::Ready);
    trial.check_snapshots();
    // That agent is dead by now, and nothing more is left to it.
    assert_eq!(agents::at_work(&trial.away()).unwrap(), None);
    agents::sweep(&trial.share());
    assert_eq!(trial.announcements(), Vec::<PathBuf>::new());
}

#[test]
fn nothing_is_left_to_a_dead_agent_nor_by_those_who_are_near() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    let announcement = trial.announce(&process::dead());
    let made = trial
        .snapshot_from(&trial.away(), &origin(&volume))
        .unwrap();
    assert_eq!(made.state, State::Ready);
    trial.recover();
    assert!(!announcement.exists());
    let announcement = trial.announce(STRANGER);
    for near in [trial.share(), trial.as_agent()] {
        assert_eq!(agents::at_work(&near).unwrap(), None);
    }
    assert!(agents::at_work(&trial.away()).unwrap().is_some());
    std::fs::write(&announcement, "{").unwrap();
    assert_eq!(agents::at_work(&trial.away()).unwrap(), None);
}

#[test]
fn a_presence_ends_with_its_process_or_when_it_is_taken_for_dead() {
    let trial = Trial::new();
    let presence = Presence::announce(&trial.as_agent()).unwrap();
    let second = Presence::announce(&trial.as_agent()).unwrap();
    assert_eq!(trial.announcements().len(), 2);
    let agent = agents::at_work(&trial.away()).unwrap().unwrap();
    assert_eq!(
        (&*agent.process, agent.capabilities),
        (process::own(), presence.capabilities().clone())
    );
    // A beat is seen, so it lives on.
    let_a_period_pass();
    assert!(presence.beat().unwrap() && second.beat().unwrap());
    assert!(agents::at_work(&trial.away()).unwrap().is_some());
    drop(second);
    let_a_period_pass();
    agents::sweep(&trial.share());
    assert_eq!(trial.announcements(), Vec::<PathBuf>::new());
    assert!(!presence.beat().unwrap());
}

#[test]
fn an_agent_makes_what_is_left_to_it() {
    let trial = Trial::new();
    let source = origin(&full_volume(&trial, "v"));
    let _presence = trial.leave_snapshot(&source);
    let (share, progress) = (trial.as_agent(), Progress::default());
    life::assist::<Snapshot>(&share, NameKey::of("s"), &progress).unwrap();
    trial.check_snapshots();
    // A volume's copy is made, and placed by who asked.
    let wanted = copy_of(Source::Volume(source));
    let create = || life::create::<Volume>(&trial.away(), &wanted, "s:/a", &Progress::default());
    assert!(crashing(4, create).is_err());
    life::assist::<Volume>(&share, NameKey::of(&wanted.name), &progress).unwrap();
    assert!(!trial.at("team/copy").exists());
    assert_eq!(create().unwrap().state, State::Ready);
    assert_full(&trial.at("team/copy"));
    trial.check_snapshots();
}

#[test]
fn an_agent_may_die_at_any_step_of_a_copy() {
    at_each_step(
        6,
        |trial| {
            let source = origin(&full_volume(trial, "v"));
            (trial.leave_snapshot(&source), source)
        },
        |trial, _| {
            let share = trial.as_agent();
            life::assist::<Snapshot>(&share, NameKey::of("s"), &Progress::default())
        },
        |trial, (_, source)| {
            trial.snapshot_from(&trial.share(), source).unwrap();
            trial.check_snapshots();
        },
    );
}

#[test]
fn what_an_agent_cannot_copy_is_given_back_once() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    let source = origin(&volume);
    let _presence = trial.leave_snapshot(&source);
    trial.delete(&volume).unwrap();
    let share = trial.as_agent();
    let assist = || life::assist::<Snapshot>(&share, NameKey::of("s"), &Progress::default());
    let failure = assist().unwrap_err();
    assert!(matches!(failure, ShareError::NoSource(_)), "{failure}");
    let [record] = &trial.snapshots()[..] else {
        panic!("{:?}", trial.snapshots());
    };
    assert_eq!((record.generation, &record.copying), (2, &None));
    assist().unwrap();
    assert_eq!(trial.snapshots()[0], *record);
    // Who asked meets it, and withdraws what cannot be had.
    let failure = trial.snapshot_from(&trial.share(), &source).unwrap_err();
    assert!(matches!(failure, ShareError::NoSource(_)), "{failure}");
    assert_eq!(trial.snapshots(), []);
}

/// With `root_squash` a controller may do what the owner of the records may, and no more.
#[test]
fn what_an_agent_makes_belongs_to_the_owner_of_the_records() {
    if !rustix::process::geteuid().is_root() {
        // Only root can be an agent for others.
        return;
    }
    let nobody = 65534;
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    chown(trial.at("v"), Some(1000), Some(1000)).unwrap();
    chown(trial.at("v/folder/b"), Some(1000), Some(1000)).unwrap();
    let mut below = vec![trial.at(".csi-nfs")];
    while let Some(path) = below.pop() {
        chown(&path, Some(nobody), Some(nobody)).unwrap();
        if path.is_dir() {
            below.extend(
                std::fs::read_dir(path)
                    .unwrap()
                    .map(|it| it.unwrap().path()),
            );
        }
    }
    let source = origin(&volume);
    let _presence = trial.leave_snapshot(&source);
    let key = NameKey::of("s");
    for path in trial.files(&format!(".csi-nfs/snapshots/{key}")) {
        // What a squashed controller would have made.
        let path = trial.at(&format!(".csi-nfs/snapshots/{key}/{path}"));
        chown(path, Some(nobody), Some(nobody)).unwrap();
    }
    life::assist::<Snapshot>(&trial.as_agent(), key, &Progress::default()).unwrap();
    let record = &trial.snapshots()[0];
    assert_eq!(record.state, State::Ready);
    for folder in [
        format!(".csi-nfs/snapshots/{key}"),
        ".csi-nfs/agents".to_owned(),
    ] {
        for name in trial.files(&folder) {
            let path = trial.at(&folder).join(name);
            let found = path.metadata().unwrap();
            assert_eq!((found.uid(), found.gid()), (nobody, nobody), "{path:?}");
        }
    }
    assert_eq!(
        trial.at(".csi-nfs/agents").metadata().unwrap().uid(),
        nobody
    );
    // What is in it is as it was.
    let inner = trial.data(record).join("folder/b").metadata().unwrap();
    assert_eq!(inner.uid(), 1000);
}

#[test]
fn a_volume_that_is_to_be_held_to_its_size_is_not_made_without_an_agent_that_can() {
    let trial = Trial::new();
    // This one was not told to.
    let presence = Presence::announce(&trial.as_agent()).unwrap();
    assert_eq!(presence.capabilities().quotas, agents::Quotas::None);
    let enforced = Wanted {
        quota: Some(Quota::Enforce),
        ..wanted("v", "")
    };
    for share in [trial.share(), trial.away()] {
        let refused = life::create::<Volume>(&share, &enforced, "s:/a", &Progress::default());
        let refused = refused.unwrap_err();
        assert!(matches!(refused, ShareError::NotHeld(_)), "{refused}");
    }
    assert!(trial.files(".csi-nfs/volumes").is_empty());
    drop(presence);
    // This one was, and the file system cannot.
    let presence = Presence::announce(&trial.as_agent().with_quotas()).unwrap();
    let why = presence.capabilities().why.clone();
    assert_eq!(presence.capabilities().quotas, agents::Quotas::Advisory);
    let made: Record<Volume> = life::create(
        &trial.away(),
        &wanted("v", ""),
        "s:/a",
        &Progress::default(),
    )
    .unwrap();
    assert_eq!(
        made.what.size.unwrap(),
        Size::Advisory { why: why.unwrap() }
    );
    let compared = comparison::keep_up(&trial.as_agent().with_quotas()).unwrap();
    assert_eq!(compared.told, Vec::<String>::new());
}

/// A volume that is to be held to its size by an agent, which is dead by now, though nobody knew it when it was begun.
fn begun_with_a_dead_agent(trial: &Trial, wanted: &Wanted) -> Record<Volume> {
    trial.announce_limits();
    let create = || life::create::<Volume>(&trial.away(), wanted, "s:/a", &Progress::default());
    // Its record is published.
    assert!(crashing(3, create).is_err());
    if wanted.source.is_some() {
        let waiting = create().unwrap_err();
        assert!(
            matches!(waiting, ShareError::CopiedElsewhere(_)),
            "{waiting}"
        );
    }
    let found = store::find::<Volume>(&trial.share(), NameKey::of(&wanted.name));
    let begun = found.unwrap().unwrap().record;
    let size = Size::Enforced { project: None };
    assert_eq!(
        (begun.state, &begun.what.size),
        (State::Creating, &Some(size))
    );
    let_a_period_pass();
    begun
}

fn is_begun_anew(wanted: impl Fn(&Trial) -> Wanted) {
    let create = |trial: &Trial, wanted: &Wanted| -> Result<Record<Volume>, ShareError> {
        life::create(&trial.away(), wanted, "s:/a", &Progress::default())
    };
    at_each_step(
        10,
        |trial| {
            let wanted = wanted(trial);
            (begun_with_a_dead_agent(trial, &wanted), wanted)
        },
        |trial, (_, wanted)| create(trial, wanted).map(drop),
        |trial, (begun, wanted)| {
            let made = create(trial, wanted).unwrap();
            assert_eq!((made.state, &made.what.size), (State::Ready, &None));
            assert!(made.nonce != begun.nonce);
            let folder = trial.at("team").join(&wanted.name);
            match wanted.source.is_some() {
                true => assert_full(&folder),
                false => assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0),
            }
            trial.check();
        },
    );
}

#[test]
fn a_volume_that_nobody_can_hold_to_its_size_is_begun_anew_where_it_need_not_be() {
    is_begun_anew(|_| wanted("v", "team/v"));
}

#[test]
fn a_copy_that_nobody_can_hold_to_its_size_is_begun_anew_where_it_need_not_be() {
    is_begun_anew(|trial| copy_of(Source::Volume(origin(&full_volume(trial, "v")))));
}

#[test]
fn a_volume_that_has_to_be_held_to_its_size_waits_for_an_agent() {
    let trial = Trial::new();
    let enforced = Wanted {
        quota: Some(Quota::Enforce),
        ..wanted("v", "")
    };
    let begun = begun_with_a_dead_agent(&trial, &enforced);
    let refused = life::create::<Volume>(&trial.away(), &enforced, "s:/a", &Progress::default());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("not enforced yet"), "{refused}");
    assert_eq!(trial.records(), [begun]);
}

#[test]
fn a_controller_that_has_the_folder_itself_decides_without_an_agent() {
    let trial = Trial::new();
    let create = |wanted: &Wanted| -> Result<Record<Volume>, ShareError> {
        let share = trial.share().with_quotas();
        life::create(&share, wanted, "s:/a", &Progress::default())
    };
    // It was told to enforce the sizes of volumes, and this file system cannot.
    let made = create(&wanted("v", "")).unwrap();
    let Some(Size::Advisory { why }) = made.what.size else {
        panic!("{made:?}");
    };
    let enforced = Wanted {
        quota: Some(Quota::Enforce),
        ..wanted("e", "")
    };
    let refused = create(&enforced).unwrap_err().to_string();
    assert!(refused.contains(&why), "{refused}");
    for part in ["agents", "requests", "projects"] {
        assert!(!trial.at(&format!(".csi-nfs/{part}")).exists(), "{part}");
    }
}

#[test]
fn a_lock_that_a_stopped_process_keeps_is_not_waited_for_for_ever() {
    let trial = Trial::new();
    let share = trial.share();
    let made = life::create::<Volume>(&share, &wanted("v", ""), "s:/a", &Progress::default());
    let found = store::find::<Volume>(&share, made.unwrap().key());
    let found = found.unwrap().unwrap();
    let others = limits::alone(&found, Duration::ZERO).unwrap();
    let refused = limits::alone(&found, Duration::from_millis(1)).unwrap_err();
    assert!(matches!(refused, ShareError::NotHeldYet(_)), "{refused}");
    let waiting = std::thread::spawn(move || limits::alone(&found, Duration::from_mins(1)));
    drop(others);
    waiting.join().unwrap().unwrap();
}
