//! Copies that are left to an agent where there is little room for them: on the disk, or within the copy's own size.

use crate::hazards::fill;
use crate::patience::Patience;
use crate::scene::MIB;
use crate::site::{Site, until, volume};
use crate::tools::{USER, write};
use csi_nfs_store::metrics::METRICS;
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::v1::*;
use std::fs::{self, File};
use tonic::{Code, Request, Status};

/// More than fits into [`LEFT`]: on XFS, where the content is shared, the files' inodes alone.
const FILES: usize = 1500;
/// The room that is left: enough for the records of a snapshot. XFS gives back at once what a file is cut by, unlike a file that goes.
const LEFT: u64 = MIB / 4;

impl Site {
    async fn snapshot(&self, source: &Volume, name: &str) -> Result<Snapshot, Status> {
        let request = CreateSnapshotRequest {
            source_volume_id: source.volume_id.clone(),
            name: name.to_owned(),
            ..Default::default()
        };
        let answer = self.controller.create_snapshot(Request::new(request));
        Ok(answer.await?.into_inner().snapshot.unwrap())
    }

    /// What refuses a snapshot where so much room is left, and the file that takes the rest. Of what other tests have deleted room may
    /// come back late: then again.
    async fn refused(&self, source: &Volume, name: &str, left: u64) -> (File, Status) {
        let mut patience = Patience::default();
        loop {
            let filler = File::options().write(true).open(fill(&self.share.folder));
            let filler = filler.unwrap();
            let size = filler.metadata().unwrap().len();
            filler.set_len(size - left).unwrap();
            let made = match self.snapshot(source, name).await {
                Err(refused) => return (filler, refused),
                Ok(made) => made,
            };
            assert!(patience.lasts(), "there is room without end");
            let request = DeleteSnapshotRequest {
                snapshot_id: made.snapshot_id,
                ..Default::default()
            };
            let answer = self.controller.delete_snapshot(Request::new(request));
            answer.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_by_an_agent_on_a_full_disk_says_so_and_leaves_nothing() {
    let mut site = Site::alone("copy-full").await;
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = site.command();
    command.stderr(log.reopen().unwrap());
    let mut agent = site.start(command);
    let said = || fs::read_to_string(log.path()).unwrap();
    let source = site.create(volume("source", 0, &[])).await.unwrap();
    let folder = site.share.folder.join(&source.volume_context["subDir"]);
    for number in 0..FILES {
        fs::write(folder.join(number.to_string()), [7; 4096]).unwrap();
    }
    rustix::fs::syncfs(File::open(&folder).unwrap()).unwrap();

    let (_, refused) = site.refused(&source, "s", LEFT).await;
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    // Lines are written behind the answers, one after the other.
    let is_about_it = |line: &str| line.contains("not copied") && line.contains("No space");
    until("the agent's word", || said().lines().any(is_about_it));
    let is_empty = |part: &str| {
        let mut entries = fs::read_dir(site.share.folder.join(".csi-nfs").join(part)).unwrap();
        entries.next().is_none()
    };
    until("nothing of the snapshot", || {
        is_empty("snapshots") && is_empty("trash") && is_empty("drafts")
    });
    // With no room at all not even the record can be made.
    let (filler, refused) = site.refused(&source, "t", 0).await;
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");

    // The agent goes on: the next copy is its own.
    filler.set_len(0).unwrap();
    let before = METRICS.copied_files.get();
    let made = site.snapshot(&source, "s").await.unwrap();
    assert!(made.ready_to_use && agent.0.try_wait().unwrap().is_none());
    assert_eq!(METRICS.copied_files.get(), before, "by this process");
    until("the agent's word", || said().contains(": copied "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_volume_is_copied_at_its_own_size_on_xfs() {
    let mut site = Site::new("copy-of-full").await;
    let _agent = site.agent();
    let enforce = [("quota", "enforce")];
    let source = site.create(volume("source", 5, &enforce)).await.unwrap();
    write(USER, &site.folder(&source).join("file"), 8).unwrap_err();
    let on_disk = |made: &Volume| {
        let folder = site.share.folder.join(&made.volume_context["subDir"]);
        fs::read(folder.join("file")).unwrap()
    };
    let content = on_disk(&source);
    assert!(content.len() as u64 > 4 * MIB, "{}", content.len());
    let from = |name: &str, mib, from| CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource { r#type: Some(from) }),
        ..volume(name, mib, &enforce)
    };

    let volume_id = source.volume_id.clone();
    let clone = Type::Volume(VolumeSource { volume_id });
    let cloned = site.create(from("clone", 5, clone)).await.unwrap();
    assert!(on_disk(&cloned) == content);
    let snapshot_id = site.snapshot(&source, "s").await.unwrap().snapshot_id;
    let snapshot = Type::Snapshot(SnapshotSource { snapshot_id });
    let restored = site.create(from("restored", 5, snapshot)).await.unwrap();
    assert!(on_disk(&restored) == content);
    for made in [&cloned, &restored] {
        let quota = site.share.quota(site.id(made).unwrap());
        assert_eq!(quota.limits.bytes, 5 * MIB);
    }
}
