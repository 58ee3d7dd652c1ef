//! Lists of volumes: order, pages, and several shares.

use super::calls::*;
use super::hazards::{slow, stopped};
use csi_nfs::calls::controller::{Controller, ControllerConfig, NamedShare};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tonic::{Code, Request};

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

#[tokio::test]
async fn a_list_that_hangs_holds_no_later_one() {
    let host = Host::new();
    let volume = create(&host.controller(), request("v")).await.unwrap();
    let (slow, controller) = stopped(&host).await;
    let before = slow.opened.load(Ordering::SeqCst);
    let mut look = Request::new(csi_proto::v1::ListVolumesRequest::default());
    look.metadata_mut()
        .insert("grpc-timeout", "60m".parse().unwrap());
    let answer = controller.list_volumes(look).await;
    refused(answer, Code::Unavailable, &["no answer after"]);
    let later = tokio::spawn(async move { list(&controller).await });
    // The first one hangs still.
    while slow.opened.load(Ordering::SeqCst) < before + 2 {
        tokio::task::yield_now().await;
    }
    slow.gate.add_permits(100);
    assert_eq!(later.await.unwrap(), [volume.volume_id]);
}

#[tokio::test]
async fn a_list_ends_in_the_time_of_no_other_caller() {
    let host = Host::new();
    let volume = create(&host.controller(), request("v")).await.unwrap();
    let (slow, controller) = slow(&host);
    let look = |timeout: &'static str| {
        let mut look = Request::new(csi_proto::v1::ListVolumesRequest::default());
        look.metadata_mut()
            .insert("grpc-timeout", timeout.parse().unwrap());
        let controller = controller.clone();
        tokio::spawn(async move { controller.list_volumes(look).await })
    };
    let first = look("100m");
    while slow.opened.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let patient = look("10M");
    // One of these begins the walk that the patient one joins next.
    let mut impatient: Vec<_> = (0..20).map(|_| look("200m")).collect();
    impatient.push(first);
    for caller in impatient {
        assert_eq!(caller.await.unwrap().unwrap_err().code(), Code::Unavailable);
    }
    slow.gate.add_permits(100);
    let listed = patient.await.unwrap().unwrap().into_inner().entries;
    let listed = listed.into_iter().map(|it| it.volume.unwrap().volume_id);
    assert_eq!(listed.collect::<Vec<_>>(), [volume.volume_id]);
}

/// The controller of a share on which somebody has found that the size of a volume is not enforced, for a reason of so many bytes.
async fn with_reason_of(host: &Host, bytes: usize) -> Controller {
    let controller = host.controller();
    for n in 0..4 {
        let wanted = request(&format!("v{n}"));
        create(&controller, wanted).await.unwrap();
    }
    let all = list(&controller).await;
    let mut parts = all[1].rsplit('.');
    let (nonce, key) = (parts.next().unwrap(), parts.next().unwrap());
    let records = host.at(".csi-nfs");
    let record = records.join(format!("volumes/{key}/{nonce}.2"));
    let text = std::fs::read_to_string(&record).unwrap();
    let size = r#""size": {"enforced": {"project": 7}}, "capacity_bytes""#;
    std::fs::write(&record, text.replace(r#""capacity_bytes""#, size)).unwrap();
    let why = "é".repeat(bytes / 2);
    let found =
        format!(r#"{{"format": 2, "at": 1, "not_held": 1, "volumes": {{"{nonce}": "x{why}"}}}}"#);
    std::fs::write(records.join("compared.json"), found).unwrap();
    host.controller()
}

#[tokio::test]
async fn a_reason_on_the_share_that_is_endless_ends_no_list() {
    let host = Host::new();
    let controller = with_reason_of(&host, 3 << 20).await;
    let all = page(&controller, 0, "").await.unwrap();
    assert_eq!((all.entries.len(), all.next_token.as_str()), (4, ""));
    let listed = all.entries[1].status.clone().unwrap();
    let listed = listed.volume_condition.unwrap();
    let id = &all.entries[1].volume.as_ref().unwrap().volume_id;
    let (_, got) = get(&controller, id).await.unwrap();
    for condition in [listed, got] {
        let message = condition.message;
        assert!(condition.abnormal && message.starts_with("its size is not enforced: xéé"));
        assert!((4000..5000).contains(&message.len()), "{}", message.len());
    }
}
