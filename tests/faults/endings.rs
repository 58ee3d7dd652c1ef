//! SIGTERM while a copy runs that would take longer than anybody wants to wait.

use crate::support::calls::{self, Calls, HOUR, repeated};
use crate::support::driver::Driver;
use crate::support::placed::of_volume;
use csi_proto::v1::CreateVolumeRequest;
use rustix::process::Signal;
use std::fs;
use std::time::Duration;
use tonic::Code;

const FILES: usize = 20_000;

#[test]
fn a_copy_ends_with_the_driver_and_is_taken_up_again() {
    let mut driver = Driver::with_local_share();
    let runtime = calls::runtime();
    let _within = runtime.enter();
    let calls = Calls::to(&driver.endpoint());
    let request = calls::volume("source", &calls::Map::new());
    let source = runtime.block_on(calls.create(request)).unwrap();
    let folder = of_volume(&driver.share(), "source");
    for number in 0..FILES {
        fs::write(folder.join(number.to_string()), "").unwrap();
    }
    let copy = CreateVolumeRequest {
        volume_content_source: calls::of_volume(&source.volume_id),
        ..calls::volume("copy", &calls::Map::new())
    };

    let waiting = {
        let (calls, copy) = (calls.clone(), copy.clone());
        runtime.spawn(async move { calls.within(Some(HOUR)).create(copy).await })
    };
    runtime.block_on(async {
        while !is_copying(&calls).await {
            assert!(!waiting.is_finished(), "the copy has ended too soon");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        driver.process().signal(Signal::TERM);
        let answer = waiting.await.unwrap().unwrap_err();
        assert_eq!(answer.code(), Code::Aborted, "{answer}");
    });
    driver.wait_for_death();
    // Nobody had to wait until the time was up that calls have to end.
    assert!(driver.log().contains("how=drained"), "{}", driver.log());

    driver.restart();
    runtime
        .block_on(repeated(|| calls.create(copy.clone())))
        .unwrap();
    let copied = fs::read_dir(of_volume(&driver.share(), "copy"))
        .unwrap()
        .count();
    assert_eq!(copied, FILES);
}

async fn is_copying(calls: &Calls) -> bool {
    let listed = calls.volumes().await.unwrap();
    let mut troubles = listed.iter().filter_map(|(_, wrong)| wrong.as_deref());
    troubles.any(|wrong| wrong.contains("entries and"))
}
