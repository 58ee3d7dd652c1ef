//! What must leave neither a volume without its limit nor a limit that is nobody's: an agent that is killed before any of its
//! system calls, a disk that is full, records from a backup; and ext4 with root squashed, where limits bind.

use crate::patience::Patience;
use crate::scene::{MIB, Share, export, run, shown};
use crate::site::{Agent, Site, says_enforced, until, volume};
use crate::strace::{Kills, TRIES, counts, has_killed, kill_before, numbers, words};
use crate::tools::{USER, refusal, write};
use csi_nfs_store::quota::ability::FileSystem;
use csi_nfs_store::quota::project_id::ProjectId;
use csi_proto::v1::Volume;
use rustix::fs::{FallocateFlags, fallocate};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use tonic::Code;

const ENFORCE: &[(&str, &str)] = &[("quota", "enforce")];

/// System calls that change something or put it on disk. Those that a processor does not have are left out by strace.
const CHANGING: &str = "?mkdir,?mkdirat,?openat,?rename,?renameat,?renameat2,?unlink,?unlinkat,?chown,?fchown,?fchownat,\
    ?fsync,?ioctl,?quotactl_fd";

impl Site {
    /// An agent whose calls strace writes down, and does `inject` to. It may be dead already.
    fn traced_agent(&self, log: &Path, inject: Option<&str>) -> Agent {
        let agent = self.command();
        let words = words(log, CHANGING, inject);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.arg(agent.get_program()).args(agent.get_args());
        let before = self.announced();
        let mut agent = Agent(command.spawn().unwrap());
        until("an agent", || {
            self.announced().difference(&before).count() > 0
                || agent.0.try_wait().unwrap().is_some()
        });
        agent
    }

    /// Creates volumes, whose names are added to `names`, until an agent was killed before this call. Returns whether one was.
    async fn is_killed(
        &self,
        call: &str,
        number: u32,
        logs: &Path,
        names: &mut Vec<String>,
    ) -> bool {
        let inject = kill_before(call, number);
        for again in 0..TRIES {
            let name = format!("{call}-{number}-{again}");
            let mut agent = self.traced_agent(&logs.join(&name), Some(&inject));
            // Whoever sees that the agent is dead says so.
            if let Err(refused) = self.create(volume(&name, 10, ENFORCE)).await {
                assert!(
                    matches!(refused.code(), Code::Unavailable | Code::FailedPrecondition),
                    "{name}: {refused}"
                );
            }
            names.push(name);
            if agent.0.try_wait().unwrap().is_some() {
                return true;
            }
        }
        false
    }

    /// Repeats a creation for as long as an orchestrator would.
    async fn create_at_last(&self, name: &str, mib: u64) -> Volume {
        let mut patience = Patience::default();
        loop {
            match self.create(volume(name, mib, ENFORCE)).await {
                Ok(made) => return made,
                Err(refused) => {
                    assert!(patience.lasts(), "{name}: {refused}");
                    tokio::time::sleep(patience.pause()).await;
                }
            }
        }
    }

    /// Each of these volumes has a project of its own with this limit; and when an agent has compared, nothing else has one, here
    /// or in the ledger.
    fn check(&mut self, volumes: &[&Volume], mib: u64) {
        let ids: BTreeSet<ProjectId> = volumes.iter().map(|it| self.id(it).unwrap()).collect();
        assert_eq!(ids.len(), volumes.len());
        self.share.age_ledger();
        let _agent = self.agent();
        self.share.has_these_limits_alone(&ids, mib);
    }
}

/// The calls that an undisturbed agent makes for the creation of one volume: their names, and their numbers in their threads.
async fn calls_of(site: &mut Site, log: &Path) -> BTreeMap<String, RangeInclusive<u32>> {
    let mut agent = site.traced_agent(log, None);
    let before = counts(log);
    site.create(volume("undisturbed", 10, ENFORCE))
        .await
        .unwrap();
    agent.0.kill().unwrap();
    until("the end of the trace", || has_killed(log));
    numbers(&before, &counts(log))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_killed_before_any_system_call_leaves_no_limit_that_is_nobodys_on_xfs() {
    let mut site = Site::alone("agent-strace").await;
    let logs = tempfile::tempdir().unwrap();
    let calls = calls_of(&mut site, &logs.path().join("undisturbed")).await;
    let mut names = vec!["undisturbed".to_owned()];
    let mut hit = BTreeSet::new();
    for (call, numbers) in calls {
        let mut kills = Kills::new(numbers.clone());
        while let Some(number) = kills.number() {
            let killed = site.is_killed(&call, number, logs.path(), &mut names);
            kills.was_hit(killed.await);
        }
        eprintln!("{} kills before {call}, of {numbers:?}", kills.hits);
        hit.extend((kills.hits > 0).then_some(call));
    }
    // Others are made in some runs only.
    for changing in ["fsync", "ioctl", "quotactl_fd"] {
        assert!(hit.contains(changing), "{hit:?}");
    }
    let agent = site.agent();
    let mut made = Vec::new();
    for name in &names {
        made.push(site.create_at_last(name, 10).await);
    }
    drop(agent);
    site.check(&made.iter().collect::<Vec<_>>(), 10);
}

/// Takes all the room there is.
pub fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("filler");
    let file = File::create(&path).unwrap();
    let (mut from, mut more) = (0, 1 << 32);
    while more >= 4096 {
        match fallocate(&file, FallocateFlags::empty(), from, more) {
            Ok(()) => from += more,
            Err(_) => more /= 2,
        }
    }
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_no_volume_is_promised_without_its_limit_on_xfs() {
    let mut site = Site::alone("agent-full").await;
    let agent = site.agent();
    let before = site.create(volume("before", 10, ENFORCE)).await.unwrap();
    // Of what other tests have deleted room may come back late: then again.
    let mut patience = Patience::default();
    let filler = loop {
        let filler = fill(&site.share.folder);
        match write(USER, &site.folder(&before).join("file"), 1) {
            Err(_) => break filler,
            Ok(_) => assert!(patience.lasts(), "there is room without end"),
        }
    };
    let names: Vec<String> = (0..8).map(|number| format!("full-{number}")).collect();
    for name in &names {
        match site.create(volume(name, 20, ENFORCE)).await {
            Ok(made) => {
                let id = site.id(&made).unwrap();
                assert_eq!(site.share.quota(id).limits.bytes, 20 * MIB);
            }
            Err(refused) => assert!(
                matches!(
                    refused.code(),
                    Code::Unavailable | Code::ResourceExhausted | Code::FailedPrecondition
                ),
                "{refused}"
            ),
        }
    }
    match site.expand(&before, 20).await {
        Ok(()) => assert_eq!(shown(&site.folder(&before)).0, 20 * MIB),
        Err(refused) => assert!(
            matches!(refused.code(), Code::Unavailable | Code::ResourceExhausted),
            "{refused}"
        ),
    }
    fs::remove_file(filler).unwrap();
    until("the room is given back", || {
        shown(&site.share.folder).1 > 100 * MIB
    });
    site.expand(&before, 20).await.unwrap();
    let mut made = vec![before];
    for name in &names {
        made.push(site.create_at_last(name, 20).await);
    }
    drop(agent);
    site.check(&made.iter().collect::<Vec<_>>(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_from_a_backup_get_their_limits_back_on_xfs() {
    let mut site = Site::alone("agent-backup").await;
    let records = site.share.folder.join(".csi-nfs");
    let kept = tempfile::tempdir().unwrap();
    let copy = |from: &Path, to: &Path| {
        run(Command::new("cp").arg("-a").arg(from.join(".")).arg(to));
    };
    let agent = site.agent();
    let old = site.create(volume("old", 10, ENFORCE)).await.unwrap();
    let gone = site.create(volume("gone", 10, ENFORCE)).await.unwrap();
    agent.kill();
    copy(&records, kept.path());
    let agent = site.agent();
    site.expand(&old, 20).await.unwrap();
    let freed = site.id(&gone).unwrap();
    site.delete(&gone).await;
    site.share.wait_for_usage(freed, |used| used.inodes == 0);
    let unknown = site.create(volume("new", 10, ENFORCE)).await.unwrap();
    let unknown_id = site.id(&unknown).unwrap();
    agent.kill();

    fs::remove_dir_all(&records).unwrap();
    fs::create_dir(&records).unwrap();
    copy(kept.path(), &records);
    site.share.age_ledger();
    let agent = site.agent();
    let id = site.id(&old).unwrap();
    until("the limit on record", || {
        site.share.quota(id).limits.bytes == 10 * MIB
    });
    assert!(site.condition(&gone).await.abnormal);
    site.delete(&gone).await;
    // Nobody knows it but its folder, which goes on.
    assert_eq!(site.share.quota(unknown_id).limits.bytes, 10 * MIB);
    let again = site.create(volume("new", 10, ENFORCE)).await.unwrap();
    assert_ne!(site.id(&again), Some(unknown_id));
    assert_eq!(site.id(&unknown), Some(unknown_id));
    // An administrator who does not want it removes it; the server forgets the rest of its limit at the same time.
    run(Command::new("rm")
        .arg("-rf")
        .arg(site.share.folder.join(&unknown.volume_context["subDir"])));
    csi_nfs_store::quota::project::lift_limits(site.share.root(), unknown_id).unwrap();
    drop(agent);
    site.check(&[&old, &again], 10);
}

/// The whole export with root squashed, until this is dropped.
pub struct Squashed;

impl Squashed {
    pub fn begin() -> Self {
        Self::export("root_squash");
        Self
    }

    /// Exports it so while it goes on.
    pub fn again(&self, squash: &str) {
        Self::export(squash);
    }

    fn export(squash: &str) {
        let folder = export();
        let options = format!("rw,{squash},fsid=0,insecure,no_subtree_check");
        run(Command::new("exportfs")
            .args(["-o", &options])
            .arg(format!("127.0.0.0/8:{}", folder.display()))
            .arg(format!("[::1]:{}", folder.display())));
    }
}

impl Drop for Squashed {
    fn drop(&mut self) {
        Self::export("no_root_squash");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_are_enforced_on_ext4_where_root_is_squashed() {
    const NOBODY: u32 = 65534;
    let share = Share::alone("agent-ext4");
    let squashed = Squashed::begin();
    std::os::unix::fs::chown(&share.folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut site = Site::on(share).await;
    let agent = site.agent();
    let made = site.create(volume("v", 10, ENFORCE)).await.unwrap();
    let id = site.id(&made).unwrap();
    let message = site.condition(&made).await.message;
    assert!(says_enforced(&message, id), "{message}");
    let folder = site.folder(&made);
    assert_eq!(shown(&folder).0, 10 * MIB);
    for (user, file) in [(USER, "user"), (0, "root")] {
        let error = write(user, &folder.join(file), 20).unwrap_err();
        assert!(error.contains(refusal(FileSystem::Ext4)), "{error}");
        fs::remove_file(folder.join(file)).unwrap();
        site.share.wait_for_usage(id, |used| used.bytes < MIB);
    }
    site.expand(&made, 30).await.unwrap();
    write(USER, &folder.join("file"), 20).unwrap();
    drop(agent);
    site.check(&[&made], 30);
    // Somebody exports it otherwise: the next volumes are advisory, and say why.
    drop(squashed);
    let _agent = site.agent();
    let advisory = site.create(volume("later", 10, &[])).await.unwrap();
    let message = site.condition(&advisory).await.message;
    assert!(message.contains("ext4 does not limit root"), "{message}");
}
