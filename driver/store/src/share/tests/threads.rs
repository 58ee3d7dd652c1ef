//! What happens where the system gives no more threads, as in a container with a bound on them.

use super::*;
use crate::files::copying;
use crate::share::records::origin::Origin;
use std::process::Command;

/// Says that this process is the one of which the threads ask for more memory than there is.
const ALONE: &str = "TRIAL_WITHOUT_THREADS";

#[test]
fn the_driver_goes_on_where_no_thread_can_be_had() {
    if std::env::var_os(ALONE).is_some() {
        return without_threads();
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let test = format!("{module}::the_driver_goes_on_where_no_thread_can_be_had");
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--test-threads=1", "--nocapture"])
        .env(ALONE, "1")
        .env("RUST_MIN_STACK", (1_u64 << 60).to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned()
        + &String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

fn without_threads() {
    assert!(std::thread::Builder::new().spawn(|| ()).is_err());
    let trial = Trial::new();
    let names: Vec<String> = (0..40).map(|number| format!("v{number}")).collect();
    let made = names.iter().map(|name| trial.create(&wanted(name, name)));
    let records: Vec<Record<Volume>> = made.map(Result::unwrap).collect();
    let mut listed = 0;
    walk::<Volume>(&trial.share(), |_| listed += 1).unwrap();
    assert_eq!(listed, records.len());

    // Those that copy ask for little, and can be had.
    std::fs::write(trial.at("v0/a"), "x").unwrap();
    std::fs::hard_link(trial.at("v0/a"), trial.at("v0/b")).unwrap();
    let target = trial.at("target");
    std::fs::create_dir(&target).unwrap();
    let [from, to, beside] = [&trial.at("v0"), &target, &trial.at(".")]
        .map(|folder| std::os::fd::OwnedFd::from(File::open(folder).unwrap()));
    let links = copying::LinksFolder::new(beside, "links");
    let view = copying::View::new(from, to, links);
    copying::copy(view, &|| None, &Progress::default()).unwrap();
    assert!(target.join("b").exists() && !trial.at("links").exists());

    // Nobody would renew the claim on this one.
    let origin = Origin::new("s:/a#v0", records[0].key(), records[0].nonce);
    let begun = trial.snapshot_of("s", origin, &Progress::default());
    let error = begun.unwrap_err().to_string();
    assert!(error.contains("starting a thread"), "{error}");
    // There may be threads again, so it is left to a retry.
    let [left] = trial.snapshots().try_into().unwrap();
    assert_eq!(left.state, State::Creating);
    life::delete::<Snapshot>(&trial.share(), left.key(), left.nonce).unwrap();
    assert!(trial.files(".csi-nfs/snapshots").is_empty());
    for record in &records {
        trial.delete(record).unwrap();
    }
    trial.check();
}
