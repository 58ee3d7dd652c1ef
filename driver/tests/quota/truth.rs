//! What a condition says of a size is what the last comparison found on the disk, whatever was done there or to the export meanwhile;
//! and one thing that cannot be used hides nothing else.

use crate::hazards::Squashed;
use crate::patience::Patience;
use crate::scene::{MIB, Share, export, file_system, run};
use crate::site::{Agent, Site, says_enforced, until, volume};
use crate::tools::{USER, refusal, write};
use csi_nfs_store::quota::project_id::ProjectId;
use csi_nfs_store::share::token::Nonce;
use csi_proto::v1::Volume;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tonic::Code;

const ENFORCE: &[(&str, &str)] = &[("quota", "enforce")];
const NOBODY: u32 = 65534;

/// A share on which sizes are enforced, with the disk for this test alone, on either file system.
struct Held {
    agent: Agent,
    squashed: Squashed,
    /// The last field: all is as it was when another test gets the disk.
    site: Site,
}

impl Held {
    async fn new(name: &str) -> Self {
        let share = Share::alone(name);
        let squashed = Squashed::begin();
        chown(&share.folder, Some(NOBODY), Some(NOBODY)).unwrap();
        let mut site = Site::on(share).await;
        let agent = site.agent();
        Self {
            agent,
            squashed,
            site,
        }
    }

    /// The folder of the volume on the server.
    fn on_server(&self, volume: &Volume) -> PathBuf {
        self.site
            .share
            .folder
            .join(&volume.volume_context["subDir"])
    }

    fn compare(&self) {
        self.agent.compare(&self.site.share);
    }

    /// Waits until the volume is said to be enforced by the project that its folder has, looks whether it is, and that the same is
    /// said of it when it is full.
    async fn is_held_again(&self, volume: &Volume, mib: u64) {
        self.compare();
        let id = self.says_enforced(volume).await;
        let file = self.site.folder(volume).join("large");
        let refused = write(USER, &file, 8 * mib).unwrap_err();
        assert!(refused.contains(refusal(file_system())), "{refused}");
        let quota = self.site.share.quota(id);
        // ext4 counts the blocks that describe a file when it writes the file out, beyond the limit too.
        assert!(quota.used.bytes <= mib * MIB + (64 << 10), "{quota:?}");
        self.compare();
        assert_eq!(self.says_enforced(volume).await, id);
        // Who removes it on the server waits for what the client keeps of it.
        fs::remove_file(file).unwrap();
        self.site
            .share
            .wait_for_usage(id, |used| used.bytes < mib * MIB);
    }

    /// Waits until it is said: a comparison that mends something says first that it is not so.
    async fn says_enforced(&self, volume: &Volume) -> ProjectId {
        let mut patience = Patience::default();
        loop {
            let message = self.site.condition(volume).await.message;
            let id = self.site.id(volume).expect("a project");
            if says_enforced(&message, id) {
                return id;
            }
            assert!(patience.lasts(), "{message}");
            tokio::time::sleep(patience.pause()).await;
        }
    }

    /// Waits until the volume's condition and its entry in the list say so, and why: a comparison that has not yet
    /// looked at all of a folder says first that it does not know.
    async fn is_not_held(&self, volume: &Volume, why: &str) {
        let mut patience = Patience::default();
        loop {
            let listed = self.site.listed().await;
            let listed = listed.into_iter().find(|(id, _)| *id == volume.volume_id);
            let both = [self.site.condition(volume).await, listed.unwrap().1];
            if both.iter().all(|it| it.message.contains(why)) {
                for it in both {
                    assert!(it.abnormal, "{it:?}");
                    assert!(it.message.contains("its size is not enforced: "), "{it:?}");
                }
                return;
            }
            assert!(patience.lasts(), "{both:?}");
            tokio::time::sleep(patience.pause()).await;
        }
    }

    /// How many records of volumes there are.
    fn records(&self) -> usize {
        let records = fs::read_dir(self.site.share.folder.join(".csi-nfs/volumes"));
        records.unwrap().count()
    }

    /// What cannot be enforced is refused for good, and leaves nothing.
    async fn is_refused(&self, name: &str, why: &str) {
        let before = self.records();
        let refused = self
            .site
            .create(volume(name, 8, ENFORCE))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains(why), "{refused}");
        assert_eq!(self.records(), before);
    }
}

fn shell(script: &str, folder: &Path) {
    run(Command::new("sh").args(["-euc", script, "sh"]).arg(folder));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_was_restored_on_the_server_is_held_to_its_size_again() {
    let held = Held::new("truth-restored").await;
    let made = held.site.create(volume("v", 8, ENFORCE)).await.unwrap();
    let first = held.site.id(&made).unwrap();
    write(USER, &held.site.folder(&made).join("file"), 4).unwrap();
    held.is_held_again(&made, 8).await;
    let folder = held.on_server(&made);
    for restore in [
        r#"cp -a "$1" "$1.new"; rm -rf "$1"; mv "$1.new" "$1""#,
        r#"mkdir "$1.new"; chmod 777 "$1.new"; tar cf - -C "$1" . | tar xf - -C "$1.new"; rm -rf "$1"; mv "$1.new" "$1""#,
        // Taken out by hand.
        r#"chattr -p 0 "$1""#,
        r#"chattr -P "$1""#,
    ] {
        shell(restore, &folder);
        held.is_held_again(&made, 8).await;
    }
    assert_ne!(held.site.id(&made), Some(first));
    // A ledger that has lost the id gets it back.
    let id = held.site.id(&made).unwrap();
    fs::remove_file(held.site.share.records.join(id.to_string())).unwrap();
    held.is_held_again(&made, 8).await;
    assert_eq!(held.site.id(&made), Some(id));
    assert!(held.site.share.ledger.entry(id).unwrap().is_some());
    // It does not say so of what takes more than its size.
    shell(
        r#"cp -a "$1" "$1.new"; dd if=/dev/zero of="$1.new/beyond" bs=1M count=16 2>&1; rm -rf "$1"; mv "$1.new" "$1""#,
        &folder,
    );
    held.compare();
    held.is_not_held(&made, "it takes ").await;
    write(USER, &held.site.folder(&made).join("more"), 1).unwrap_err();
    fs::remove_file(folder.join("beyond")).unwrap();
    let id = held.site.id(&made).unwrap();
    held.site
        .share
        .wait_for_usage(id, |used| used.bytes < 8 * MIB);
    held.is_held_again(&made, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expansion_does_not_say_that_all_of_a_folder_is_in_its_project() {
    let held = Held::new("truth-expanded").await;
    let made = held.site.create(volume("v", 8, ENFORCE)).await.unwrap();
    write(USER, &held.site.folder(&made).join("file"), 1).unwrap();
    let folder = held.on_server(&made);
    shell(
        r#"cp -a "$1" "$1.new"; chattr -p 4343 "$1.new/file"; rm -rf "$1"; mv "$1.new" "$1""#,
        &folder,
    );
    let why = "in project 4343";
    held.compare();
    held.is_not_held(&made, why).await;
    // An expansion and a comparison meet.
    for mib in 9..=16 {
        held.agent.hang_up();
        held.site.expand(&made, mib).await.unwrap();
        let after = held.site.condition(&made).await;
        assert!(after.abnormal, "{after:?}");
    }
    held.compare();
    held.is_not_held(&made, why).await;
    shell(r#"chattr -p 0 "$1/file""#, &folder);
    held.is_held_again(&made, 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_in_the_project_of_another_is_told_and_left() {
    let held = Held::new("truth-other").await;
    let made = held.site.create(volume("v", 8, ENFORCE)).await.unwrap();
    let other = held.site.create(volume("o", 8, ENFORCE)).await.unwrap();
    let id = held.site.id(&other).unwrap();
    shell(&format!(r#"chattr -p {id} "$1""#), &held.on_server(&made));
    held.compare();
    held.is_not_held(&made, "somebody else's").await;
    assert_eq!(held.site.id(&made), Some(id));
    let volumes = held.site.listed().await;
    let abnormal = volumes.iter().filter(|(_, it)| it.abnormal);
    // Nor is the other one alone in its project any more.
    assert!(abnormal.count() >= 1);
}

/// Enforcement of projects, which is off until this is dropped.
struct Off;

impl Off {
    fn begin() -> Self {
        // Q_XQUOTAOFF.
        Self::turn("22530");
        Self
    }

    fn turn(how: &str) {
        // quotactl_fd(2), for projects (2), of FS_QUOTA_PDQ_ENFD. The tools have it for one file system each.
        let script = r#"open my $root, "<", $ARGV[1] or die $!; my $enforcement = pack "L", 32;
            syscall(443, fileno $root, $ARGV[0] << 8 | 2, 0, $enforcement) == 0 or die $!"#;
        run(Command::new("perl").args(["-e", script, how]).arg(export()));
    }
}

impl Drop for Off {
    fn drop(&mut self) {
        // Q_XQUOTAON.
        Self::turn("22529");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_that_are_switched_off_are_no_quotas() {
    let held = Held::new("truth-off").await;
    let made = held.site.create(volume("v", 8, ENFORCE)).await.unwrap();
    held.is_held_again(&made, 8).await;
    let off = Off::begin();
    let why = "does not enforce their limits";
    // Before anybody has compared, and after.
    held.is_refused("early", why).await;
    held.compare();
    held.is_not_held(&made, why).await;
    held.is_refused("late", why).await;
    let advisory = held.site.create(volume("a", 8, &[])).await.unwrap();
    let message = held.site.condition(&advisory).await.message;
    assert!(message.contains("its size is advisory: "), "{message}");
    drop(off);
    held.is_held_again(&made, 8).await;
    let again = held.site.create(volume("again", 8, ENFORCE)).await.unwrap();
    held.is_held_again(&again, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_that_lets_clients_be_root_is_seen_while_the_agent_runs_on_ext4() {
    let held = Held::new("truth-export").await;
    let made = held.site.create(volume("v", 8, ENFORCE)).await.unwrap();
    for (number, squash) in [
        "all_squash,anonuid=0",
        "root_squash,anonuid=0",
        "no_root_squash",
    ]
    .into_iter()
    .enumerate()
    {
        held.is_held_again(&made, 8).await;
        held.squashed.again(squash);
        let why = "ext4 does not limit root";
        held.is_refused(&format!("early-{number}"), why).await;
        held.compare();
        held.is_not_held(&made, why).await;
        held.is_refused(&format!("late-{number}"), why).await;
        held.squashed.again("root_squash");
    }
    held.is_held_again(&made, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_found_need_not_be_written_down_for_a_folder_to_be_mended() {
    let held = Held::new("truth-unwritten").await;
    let made = held.site.create(volume("v", 8, ENFORCE)).await.unwrap();
    held.compare();
    let report = held.site.share.folder.join(".csi-nfs/compared.json");
    fs::remove_file(&report).unwrap();
    fs::create_dir_all(report.join("in the way")).unwrap();
    shell(
        r#"cp -a "$1" "$1.new"; rm -rf "$1"; mv "$1.new" "$1""#,
        &held.on_server(&made),
    );
    assert_eq!(held.site.id(&made), None);
    held.agent.hang_up();
    until("a project", || held.site.id(&made).is_some());
    fs::remove_dir_all(&report).unwrap();
    held.is_held_again(&made, 8).await;
}

/// Something mounted, until this is dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_used_hides_nothing_else() {
    let held = Held::new("truth-odd").await;
    let made = held.site.create(volume("v", 8, ENFORCE)).await.unwrap();
    let folder = held.on_server(&made);
    let private = held.site.share.folder.join(".csi-nfs");
    // Names that keys, nonces and ids have.
    for part in ["volumes", "snapshots"] {
        let mounted = private.join(part).join("0000000000000003");
        fs::write(private.join(part).join("0000000000000001"), "").unwrap();
        symlink("/", private.join(part).join("0000000000000002")).unwrap();
        fs::create_dir(&mounted).unwrap();
    }
    let mounts = ["volumes", "snapshots"].map(|part| {
        let target = private.join(part).join("0000000000000003");
        run(Command::new("mount")
            .args(["-t", "tmpfs", "odd"])
            .arg(&target));
        Mounted(target)
    });
    fs::write(private.join("projects/junk"), "").unwrap();
    fs::create_dir(private.join("projects/77")).unwrap();
    symlink("/", private.join("projects/78")).unwrap();
    let [agent, link, folder_of_one] = [(); 3].map(|()| Nonce::random().unwrap());
    symlink("/", private.join(format!("agents/{agent}"))).unwrap();
    symlink("/", private.join(format!("requests/{link}.request"))).unwrap();
    fs::create_dir(private.join(format!("requests/{folder_of_one}.request"))).unwrap();
    shell(
        r#"cp -a "$1" "$1.new"; rm -rf "$1"; mv "$1.new" "$1""#,
        &folder,
    );
    held.is_held_again(&made, 8).await;
    assert_eq!(held.site.listed().await.len(), 2, "with the first");
    let parameters = [("quota", "enforce"), ("overcommit", "10")];
    let more = held
        .site
        .create(volume("more", 8, &parameters))
        .await
        .unwrap();
    held.is_held_again(&more, 8).await;
    held.site.delete(&more).await;
    drop(mounts);
    until("an empty trash", || {
        fs::read_dir(private.join("trash")).unwrap().count() == 0
    });
}
