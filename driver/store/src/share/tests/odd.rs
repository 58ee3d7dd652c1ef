//! Things in the private folder that are not what stands there: each is told by its name, and hides nothing else.

use super::super::agents::{self, Presence};
use super::super::comparison;
use super::super::records::store::{self, Kept};
use super::super::{promised, recovery, requests};
use super::*;
use crate::share::records::promise::Ratio;
use crate::share::token::Nonce;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// What somebody has put there, by name.
fn plant(trial: &Trial, part: &str, name: &str, what: &str) -> PathBuf {
    let path = trial.at(&format!(".csi-nfs/{part}/{name}"));
    match what {
        "a file" => std::fs::write(&path, "").unwrap(),
        "a symlink" => symlink("/", &path).unwrap(),
        _ => {
            // A record that cannot be opened, in its place.
            let nonce = Nonce::random().unwrap();
            std::fs::create_dir(&path).unwrap();
            symlink("/", path.join(format!("{nonce}.1"))).unwrap();
        }
    }
    path
}

const ODD: [&str; 3] = ["a file", "a symlink", "a record"];

fn listed(trial: &Trial) -> (Vec<String>, usize) {
    let (mut names, mut odd) = (Vec::new(), 0);
    walk::<Volume>(&trial.share(), |listed| match listed {
        Ok(it) => names.push(it.record.what.wanted.name),
        Err(_) => odd += 1,
    })
    .unwrap();
    (names, odd)
}

#[test]
fn what_is_no_record_hides_no_other() {
    for what in ODD {
        let trial = Trial::new();
        let good = trial.create(&wanted("good", "")).unwrap();
        let bad = NameKey::of("bad");
        for part in ["volumes", "snapshots"] {
            plant(&trial, part, &bad.to_string(), what);
        }
        // What begun and was not finished comes to its end all the same.
        let begun = crashing(5, || trial.create(&wanted("begun", "")));
        assert!(begun.is_err());
        let recovered = recovery::recover(&trial.share(), |_| Some(())).unwrap();
        let told: Vec<String> = recovered.failures.iter().map(ToString::to_string).collect();
        for part in ["volumes", "snapshots"] {
            let is_named = |it: &String| it.contains(&format!("{part}/{bad}"));
            assert!(told.iter().any(is_named), "{what}: {told:?}");
        }
        assert_eq!(told.len(), 2, "{what}: {told:?}");
        let copies = recovery::recover_copies(&trial.share()).unwrap();
        assert_eq!(copies.failures.len(), 2, "{what}");

        let (names, odd) = listed(&trial);
        assert!(names.contains(&"good".to_owned()), "{what}: {names:?}");
        assert_eq!(odd, 1, "{what}");
        assert!(
            promised::left(&trial.share(), Ratio::parse("10").unwrap()).is_ok(),
            "{what}"
        );
        let bounded = Wanted {
            overcommit: Some(Ratio::parse("1000").unwrap()),
            ..wanted("more", "")
        };
        trial.create(&bounded).unwrap();
        trial.delete(&good).unwrap();

        // Of the bad one nothing is said to be absent, and no second one is made.
        assert!(
            store::find::<Volume>(&trial.share(), bad).is_err(),
            "{what}"
        );
        trial.create(&wanted("bad", "")).unwrap_err();
        let deleted = life::delete::<Volume>(&trial.share(), bad, Nonce::random().unwrap());
        assert!(deleted.is_err(), "{what}");
        let there = store::look_among::<Volume>(&trial.share(), bad).unwrap();
        assert!(matches!(there, Kept::Unreadable(_)), "{what}: {there:?}");
    }
}

#[test]
fn what_is_no_agent_and_no_request_hides_no_other() {
    let trial = Trial::new();
    let share = trial.share().away();
    let presence = Presence::announce(&trial.share()).unwrap();
    trial.share().make_part(requests::REQUESTS).unwrap();
    for what in ["a file", "a symlink", "a folder"] {
        let nonce = Nonce::random().unwrap();
        plant(&trial, "agents", &nonce.to_string(), what);
        plant(&trial, "requests", &format!("{nonce}.request"), what);
    }
    assert_eq!(
        agents::at_work(&share).unwrap().unwrap().capabilities,
        *presence.capabilities()
    );
    let odd = agents::sweep(&share);
    assert_eq!(odd.len(), 1, "{odd:?}");
    let (requests, odd) = requests::Requests::if_there(&share)
        .unwrap()
        .unwrap()
        .all()
        .unwrap();
    assert!(requests.is_empty());
    assert_eq!(odd.len(), 2, "{odd:?}");
    // This file system has no quotas, which is what is compared then.
    let compared = comparison::keep_up(&trial.share().with_quotas()).unwrap();
    assert_eq!(compared.told.len(), 2, "{:?}", compared.told);
}

#[test]
fn a_share_that_does_not_answer_is_not_taken_for_one_with_bad_records() {
    let trial = Trial::new();
    let share = trial.share();
    plant(&trial, "volumes", &NameKey::of("bad").to_string(), "a file");
    std::fs::remove_file(trial.at(".csi-nfs/share.json")).unwrap();
    assert!(store::look_among::<Volume>(&share, NameKey::of("bad")).is_err());
}
