//! Lists of volumes: order, pages, and several shares.

use super::calls::*;
use csi_nfs::calls::controller::{Controller, ControllerConfig, NamedShare};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use std::collections::BTreeSet;
use std::sync::Arc;
use tonic::Code;

#[tokio::test]
async fn pages_stay_in_step_while_volumes_come_and_go() {
    let host = Host::new();
    let controller = host.controller();
    refused(
        page(&controller, -1, "").await,
        Code::InvalidArgument,
        &["max_entries"],
    );
    for token in ["x", "0", &"y".repeat(300)] {
        let answer = page(&controller, 1, token).await;
        refused(answer, Code::Aborted, &["again from the beginning"]);
    }
    assert!(list(&controller).await.is_empty());
    let mut made = BTreeSet::new();
    for n in 0..25 {
        let volume = create(&controller, request(&format!("v{n}")))
            .await
            .unwrap();
        made.insert(volume.volume_id);
    }
    let all = list(&controller).await;
    assert_eq!(all.iter().cloned().collect::<BTreeSet<_>>(), made);
    assert!(all.is_sorted());
    let (mut seen, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = page(&controller, 4, &token).await.unwrap();
        assert!(page.entries.len() <= 4);
        seen.extend(ids(&page));
        token = page.next_token;
        pages += 1;
        if token.is_empty() {
            break;
        }
        // The volume that the token stands for goes, and so does one that was not listed yet; another one comes.
        if pages == 2 {
            delete(&controller, &seen[7]).await.unwrap();
            delete(&controller, &all[10]).await.unwrap();
            create(&controller, request("late")).await.unwrap();
        }
    }
    assert!(seen.is_sorted());
    let distinct: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(distinct.len(), seen.len());
    for (index, id) in all.iter().enumerate() {
        assert_eq!(distinct.contains(id), index != 10, "{id}");
    }
    let all = i32::try_from(list(&controller).await.len()).unwrap();
    assert_eq!(page(&controller, all, "").await.unwrap().next_token, "");
    assert_ne!(page(&controller, all - 1, "").await.unwrap().next_token, "");
}

fn two_shares(fast: &Host, slow: &Host) -> ControllerConfig {
    let export = |share: &str| Export::parse("10.0.0.4", share).unwrap();
    let roots = LocalRoots::new([
        (export("/fast"), fast.folder.path().to_owned()),
        (export("/slow"), slow.folder.path().to_owned()),
    ]);
    let mut config = ControllerConfig::new(Arc::new(roots));
    let named = ["fast", "slow"].map(|name| NamedShare {
        name: name.to_owned(),
        export: export(name),
        mount_options: Vec::new(),
        uuid: None,
    });
    config.named_shares = named.to_vec();
    config
}

#[tokio::test]
async fn several_shares_are_one_list() {
    let (fast, slow) = (Host::new(), Host::new());
    let mut config = two_shares(&fast, &slow);
    let controller = Controller::new(config.clone());
    let answer = create(&controller, request("v")).await;
    refused(
        answer,
        Code::InvalidArgument,
        &["server and share", "fast, slow"],
    );
    let mut made = Vec::new();
    for share in ["fast", "slow", "fast", "slow", "fast"] {
        let wanted = with_parameters(&format!("v{}", made.len()), &[("share", share)]);
        let volume = create(&controller, wanted).await.unwrap();
        assert!(volume.volume_id.starts_with(&format!("{share}#")));
        assert_eq!(volume.volume_context["share"], format!("/{share}"));
        made.push(volume.volume_id);
    }
    // A restarted controller lists all, page by page over the border between the shares.
    let controller = Controller::new(config.clone());
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = page(&controller, 1, &token).await.unwrap();
        seen.extend(ids(&page));
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert!(seen.is_sorted());
    made.sort();
    assert_eq!(seen, made);
    // Without its flag a name means nothing, but the volume may well exist.
    config.named_shares.remove(0);
    let controller = Controller::new(config);
    let answer = delete(&controller, &made[0]).await;
    refused(answer, Code::FailedPrecondition, &["fast", "--share"]);
}

#[tokio::test]
async fn a_share_that_cannot_be_listed_fails_the_list() {
    let host = Host::new();
    let mut config = host.config();
    config
        .other_exports
        .push(Export::parse("10.0.0.5", "/away").unwrap());
    let answer = page(&Controller::new(config), 0, "").await;
    refused(answer, Code::FailedPrecondition, &["10.0.0.5:/away"]);
}

#[tokio::test]
async fn a_share_with_two_addresses_is_listed_once() {
    let host = Host::new();
    let exports = ["nas", "nas.example.org"].map(|server| Export::parse(server, "/x").unwrap());
    let folders = exports
        .clone()
        .map(|export| (export, host.folder.path().to_owned()));
    let mut config = ControllerConfig::new(Arc::new(LocalRoots::new(folders)));
    config.other_exports = exports.to_vec();
    let both = Controller::new(config.clone());
    let mut made = Vec::new();
    for name in ["u", "v", "w"] {
        let wanted = with_parameters(name, &[("server", "nas"), ("share", "/x")]);
        made.push(create(&both, wanted).await.unwrap().volume_id);
    }
    made.sort();
    // The first list after a start, in one page and in three.
    let mut whole = list(&Controller::new(config.clone())).await;
    whole.sort();
    assert_eq!(whole, made);
    let controller = Controller::new(config);
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = page(&controller, 1, &token).await.unwrap();
        seen.extend(ids(&page));
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    seen.sort();
    assert_eq!(seen, made);
}
