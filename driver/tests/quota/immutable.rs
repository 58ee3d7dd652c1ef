//! Folders that somebody on the server has made immutable, as these file systems let them.

use crate::scene::run;
use crate::site::{Site, volume};
use csi_proto::v1::DeleteVolumeRequest;
use csi_proto::v1::controller_server::Controller as _;
use std::path::PathBuf;
use std::process::Command;
use tonic::{Code, Request};

/// A folder, until it may be changed again.
struct Immutable(PathBuf);

fn chattr(how: &str, folder: &PathBuf) {
    run(Command::new("chattr").arg(how).arg(folder));
}

impl Immutable {
    fn new(folder: PathBuf) -> Self {
        chattr("+i", &folder);
        Self(folder)
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        chattr("-i", &self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_immutable_is_named_and_done_once_it_is_not() {
    let site = Site::new("immutable").await;
    for parameters in [&[][..], &[("subDir", "team/v")]] {
        let made = site.create(volume("v", 0, parameters)).await.unwrap();
        let path = &made.volume_context["subDir"];
        let immutable = Immutable::new(site.share.folder.join(path));
        let request = Request::new(DeleteVolumeRequest {
            volume_id: made.volume_id.clone(),
            ..Default::default()
        });
        let refused = site.controller.delete_volume(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        let text = refused.message();
        assert!(text.contains(path) && text.contains("chattr -i"), "{text}");
        drop(immutable);
        site.delete(&made).await;
    }

    let immutable = Immutable::new(site.share.folder.clone());
    let refused = site.create(volume("v", 0, &[])).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let text = refused.message();
    let is_said = text.contains("not permitted") && text.ends_with("once that is put right");
    assert!(is_said, "{text}");
    drop(immutable);
    site.create(volume("v", 0, &[])).await.unwrap();
}
