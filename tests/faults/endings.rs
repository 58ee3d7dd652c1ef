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
    let met = (0..5).find_map(|number| {
        let name = format!("copy-{number}");
        let copy = CreateVolumeRequest {
            volume_content_source: calls::of_volume(&source.volume_id),
            ..calls::volume(&name, &calls::Map::new())
        };
        let calls = Calls::to(&driver.endpoint());
        let waiting = {
            let (calls, copy) = (calls.clone(), copy.clone());
            runtime.spawn(async move { calls.within(Some(HOUR)).create(copy).await })
        };
        let answer = runtime.block_on(async {
            while !waiting.is_finished() && !is_copying(&calls).await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            driver.process().signal(Signal::TERM);
            waiting.await.unwrap()
        });
        driver.wait_for_death();
        let log = driver.log();
        driver.restart();
        // One that had ended before shows nothing: somebody stood still meanwhile.
        let answer = answer.err()?;
        assert_eq!(answer.code(), Code::Aborted, "{answer}");
        // Nobody had to wait until the time was up that calls have to end.
        assert!(log.contains("how=drained"), "{log}");
        Some((name, copy))
    });
    let (name, copy) = met.expect("a copy that is under way");

    runtime
        .block_on(repeated(|| calls.create(copy.clone())))
        .unwrap();
    let copied = fs::read_dir(of_volume(&driver.share(), &name))
        .unwrap()
        .count();
    assert_eq!(copied, FILES);
}

async fn is_copying(calls: &Calls) -> bool {
    let listed = calls.volumes().await.unwrap();
    let mut troubles = listed.iter().filter_map(|(_, wrong)| wrong.as_deref());
    troubles.any(|wrong| wrong.contains("entries and"))
}
