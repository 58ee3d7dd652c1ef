//! The parameter `overcommit`: what may be promised of a share, whoever asks for it and in which order. Sizes are parts of the
//! file system below the test, which stays as large as it is whatever other tests write.

use super::calls::*;
use super::snapshots::{delete_snapshot, from_volume, snapshot};
use csi_nfs::calls::controller::Controller;
use csi_proto::v1::{CreateVolumeRequest, GetCapacityRequest};
use tonic::{Code, Request, Status};

/// How often the file system may be promised, and so many bytes that is.
const RATIO: &str = "1.5";

fn bound(host: &Host) -> i64 {
    let asked = rustix::fs::statvfs(host.folder.path()).unwrap();
    i64::try_from(asked.f_blocks * asked.f_frsize / 2 * 3).unwrap()
}

fn limited(name: &str, bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: map(&[("overcommit", RATIO)]),
        ..sized(name, bytes, 0)
    }
}

/// What GetCapacity says is available, and the largest size.
async fn room(
    controller: &Controller,
    parameters: &[(&str, &str)],
) -> Result<(i64, Option<i64>), Status> {
    let request = GetCapacityRequest {
        parameters: map(parameters),
        ..Default::default()
    };
    let answer = controller.get_capacity(Request::new(request)).await?;
    let answer = answer.into_inner();
    Ok((answer.available_capacity, answer.maximum_volume_size))
}

async fn left(controller: &Controller) -> i64 {
    let (available, largest) = room(controller, &[("overcommit", RATIO)]).await.unwrap();
    assert_eq!(largest, Some(available));
    available
}

#[tokio::test]
async fn no_more_is_promised_than_the_ratio_allows() {
    let host = Host::new();
    let controller = host.controller();
    let bound = bound(&host);
    assert_eq!(left(&controller).await, bound);
    // Asking changes nothing.
    assert_eq!(std::fs::read_dir(host.folder.path()).unwrap().count(), 0);
    let part = bound / 10 * 3;
    let mut volumes = Vec::new();
    for name in ["a", "b", "c"] {
        let volume = create(&controller, limited(name, part)).await.unwrap();
        volumes.push(volume);
        assert_eq!(left(&controller).await, bound - part * volumes.len() as i64);
    }
    let before = std::fs::read_dir(host.folder.path()).unwrap().count();
    let figures = [part, part * 3].map(|figure| figure.to_string());
    let figures = [&figures[0], &figures[1], "1.5 times", "overcommit"];
    let refusal = create(&controller, limited("d", part)).await;
    refused(refusal, Code::ResourceExhausted, &figures);
    let after = std::fs::read_dir(host.folder.path()).unwrap().count();
    assert_eq!((before, list(&controller).await.len()), (after, 3));
    // A restart, a repeat, and what is smaller.
    let controller = host.controller();
    assert_eq!(left(&controller).await, bound - part * 3);
    let again = create(&controller, limited("a", part)).await.unwrap();
    assert_eq!(again, volumes[0]);
    create(&controller, limited("d", part)).await.unwrap_err();
    let rest = left(&controller).await;
    create(&controller, limited("d", rest)).await.unwrap();
    assert_eq!(left(&controller).await, 0);
    create(&controller, limited("e", 1)).await.unwrap_err();
    // No size promises nothing, and without the parameter nothing is refused.
    create(&controller, limited("e", 0)).await.unwrap();
    create(&controller, sized("f", part, 0)).await.unwrap();
    assert_eq!(left(&controller).await, 0);
    let (free, largest) = room(&controller, &[]).await.unwrap();
    assert!(free > 0 && largest.is_none());
    let (twice, _) = room(&controller, &[("overcommit", "3")]).await.unwrap();
    let promised = part * 4 + rest;
    assert_eq!(twice, bound * 2 - promised);
    // What is deleted counts until it is purged.
    delete(&controller, &volumes[1].volume_id).await.unwrap();
    delete(&controller, &volumes[2].volume_id).await.unwrap();
    controller.settle().await;
    assert_eq!(left(&controller).await, part);
    create(&controller, limited("g", part)).await.unwrap();
}

#[tokio::test]
async fn the_ratio_is_a_part_of_the_request() {
    let host = Host::new();
    let controller = host.controller();
    create(&controller, limited("v", 10)).await.unwrap();
    for other in ["1.500", "01.5"] {
        let mut same = limited("v", 10);
        same.parameters = map(&[("overcommit", other)]);
        create(&controller, same).await.unwrap();
    }
    for (other, said) in [("2", "\"2\""), ("", "unset")] {
        let mut differs = limited("v", 10);
        differs.parameters = map(&[("overcommit", other)]);
        let refusal = create(&controller, differs).await;
        refused(
            refusal,
            Code::AlreadyExists,
            &["overcommit", "\"1.5\"", said],
        );
    }
    let mut wrong = limited("w", 10);
    wrong.parameters = map(&[("overcommit", "150%")]);
    let refusal = create(&controller, wrong).await;
    refused(refusal, Code::InvalidArgument, &["overcommit", "150%"]);
    let refusal = room(&controller, &[("overcommit", "0")]).await;
    refused(refusal, Code::InvalidArgument, &["overcommit"]);
}

#[tokio::test]
async fn a_limit_alone_is_what_is_promised() {
    let host = Host::new();
    let controller = host.controller();
    let none = create(&controller, request("none")).await.unwrap();
    let mut limit = limited("v", 0);
    limit.capacity_range = sized("v", 0, bound(&host)).capacity_range;
    // Also for a copy of a volume without a size.
    let copy = CreateVolumeRequest {
        volume_content_source: from_volume("v", &none.volume_id).volume_content_source,
        ..limit.clone()
    };
    let copy = create(&controller, copy).await.unwrap();
    assert_eq!(left(&controller).await, 0);
    delete(&controller, &copy.volume_id).await.unwrap();
    controller.settle().await;
    assert_eq!(left(&controller).await, bound(&host));
    create(&controller, limit).await.unwrap();
    assert_eq!(left(&controller).await, 0);
    let mut range = limited("w", 0);
    range.capacity_range = sized("w", 1, 2).capacity_range;
    let refusal = create(&controller, range).await;
    refused(
        refusal,
        Code::ResourceExhausted,
        &["1 bytes requested, 0 available"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn side_by_side_as_many_are_made_as_fit() {
    let host = Host::new();
    let controller = host.controller();
    let part = bound(&host) / 7;
    let storm = |kind: &str| {
        let calls: Vec<_> = (0..32)
            .map(|n| {
                let (controller, request) =
                    (controller.clone(), limited(&format!("{kind}{n}"), part));
                tokio::spawn(async move { create(&controller, request).await })
            })
            .collect();
        async move {
            let mut made = Vec::new();
            for call in calls {
                match call.await.unwrap() {
                    Ok(volume) => made.push(volume.volume_id),
                    Err(status) => assert_eq!(status.code(), Code::ResourceExhausted, "{status}"),
                }
            }
            made
        }
    };
    let first = storm("a").await;
    assert_eq!(first.len(), 7);
    assert!(storm("b").await.is_empty());
    for volume in &first[..3] {
        delete(&controller, volume).await.unwrap();
    }
    controller.settle().await;
    let second = storm("c").await;
    assert_eq!(second.len(), 3);
    // Expansions, of which each wants what is left.
    delete(&controller, &second[0]).await.unwrap();
    controller.settle().await;
    let calls: Vec<_> = first[3..]
        .iter()
        .map(|volume| {
            let (controller, volume) = (controller.clone(), volume.clone());
            tokio::spawn(async move { expand(&controller, &volume, part * 2, 0).await })
        })
        .collect();
    let mut expanded = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(bytes) => {
                assert_eq!(bytes, part * 2);
                expanded += 1;
            }
            Err(status) => assert_eq!(status.code(), Code::OutOfRange, "{status}"),
        }
    }
    assert_eq!(expanded, 1);
}

#[tokio::test]
async fn an_expansion_is_held_to_the_ratio_of_its_volume() {
    let host = Host::new();
    let controller = host.controller();
    let part = bound(&host) / 10;
    let small = create(&controller, limited("v", part)).await.unwrap();
    let free = create(&controller, sized("w", part, 0)).await.unwrap();
    create(&controller, limited("x", part * 5)).await.unwrap();
    let controller = host.controller();
    let refusal = expand(&controller, &small.volume_id, part * 5, 0).await;
    refused(refusal, Code::OutOfRange, &["overcommit", "1.5 times"]);
    let (kept, _) = get(&controller, &small.volume_id).await.unwrap();
    assert_eq!(kept.capacity_bytes, part);
    for _ in 0..2 {
        let answer = expand(&controller, &small.volume_id, part * 4, 0).await;
        assert_eq!(answer.unwrap(), part * 4);
    }
    assert!(left(&controller).await < part);
    // It was made without a ratio.
    expand(&controller, &free.volume_id, part * 9, 0)
        .await
        .unwrap();
    assert_eq!(left(&controller).await, 0);
    // What it has anyway is no expansion.
    expand(&controller, &small.volume_id, part, 0)
        .await
        .unwrap();
}

#[tokio::test]
async fn snapshots_and_copies_count() {
    let host = Host::new();
    let controller = host.controller();
    let part = bound(&host) / 10 * 3;
    let volume = create(&controller, limited("v", part)).await.unwrap();
    let first = snapshot(&controller, "s", &volume.volume_id).await.unwrap();
    let clone = |name: &str| CreateVolumeRequest {
        parameters: limited(name, part).parameters,
        ..from_volume(name, &volume.volume_id)
    };
    create(&controller, clone("c")).await.unwrap();
    let refusal = create(&controller, clone("d")).await;
    refused(refusal, Code::ResourceExhausted, &["overcommit"]);
    let refusal = snapshot(&controller, "t", &volume.volume_id).await;
    refused(refusal, Code::ResourceExhausted, &["overcommit"]);
    // Both are there.
    snapshot(&controller, "s", &volume.volume_id).await.unwrap();
    create(&controller, clone("c")).await.unwrap();
    delete_snapshot(&controller, &first.snapshot_id)
        .await
        .unwrap();
    controller.settle().await;
    snapshot(&controller, "t", &volume.volume_id).await.unwrap();
    create(&controller, clone("d")).await.unwrap_err();
}
