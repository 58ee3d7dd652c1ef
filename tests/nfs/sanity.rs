//! `csi sanity` against the driver over real NFS, in this test's own process.

use crate::scene::{Scene, Version};
use csi_cli::sanity::{Settings, run};

#[test]
fn the_driver_keeps_the_contract() {
    let scene = Scene::new("sanity", Version::V4_2);
    let mut settings = Settings::of(scene.driver.endpoint());
    settings.parameters = scene.share.parameters().into_iter().collect();
    settings.mutable_parameters = [("mountPermissions".to_owned(), "0700".to_owned())].into();
    // Mounts there are undone in the end, also when this fails.
    settings.mount_parent = scene.driver.target("x").parent().map(Into::into);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let report = runtime.block_on(run(settings)).unwrap();
    assert!(report.is_success(), "{report}");
    assert!(report.counts().passed > 150, "{report}");
    scene.has_no_mounts();
    scene.share.wait_until_empty("csi-sanity-data");
    assert_eq!(scene.list(), [""; 0]);
}
