//! Drivers that do what few drivers do and the specification allows: `csi sanity` accuses none of them.

use super::{is_clean, sanity};
use crate::lifecycle::driver_with;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1;
use csi_proto::v1::volume_capability::AccessType;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_content_source::Type as Source;
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tonic::Code;

/// The ids of the volumes that a driver has, which are their names.
#[derive(Clone, Default)]
struct Volumes(Arc<Mutex<BTreeSet<String>>>);

impl Volumes {
    fn list(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap()
    }

    fn make(&self, name: &str) -> Reply {
        self.list().insert(name.to_owned());
        Reply::json(json!({"volume": volume(name)}))
    }

    /// The driver deletes those that there are.
    fn deleted_by(&self, driver: &ScriptedDriver) {
        let volumes = self.clone();
        driver.answer("DeleteVolume", move |request| {
            let request: v1::DeleteVolumeRequest = request.decode();
            volumes.list().remove(&request.volume_id);
            Reply::json("{}")
        });
    }
}

fn volume(id: &str) -> Json {
    json!({"volumeId": id, "capacityBytes": 1 << 20})
}

/// The arguments of a run of some cases.
fn cases(mode: Mode, filter: &str) -> String {
    let mode = mode.as_str_name();
    format!("--cap {mode},mount --volume-size 1Mi --filter {filter}")
}

#[test]
fn modes_that_a_driver_does_not_have_are_not_demanded() {
    let driver = driver_with("CREATE_DELETE_VOLUME PUBLISH_UNPUBLISH_VOLUME", "");
    let own = Mode::MultiNodeReaderOnly;
    driver.answer("CreateVolume", move |request| {
        let request: v1::CreateVolumeRequest = request.decode();
        let modes = request.volume_capabilities.iter();
        let mut modes = modes.map(|one| one.access_mode.unwrap_or_default().mode());
        match modes.all(|mode| mode == own) {
            true => Volumes::default().make(&request.name),
            false => Reply::error(Code::InvalidArgument, "there is only one mode"),
        }
    });
    let csi = Csi::at(driver.endpoint());
    let line = cases(own, "two-nodes --filter two-paths --other-node-id node-2");
    let run = sanity(&csi, &line).succeeds();
    let told = "skipped: the driver has no volumes for SINGLE_NODE_WRITER";
    assert!(run.stdout.contains(told), "{run}");
    is_clean(&csi);
}

#[test]
fn volumes_that_are_made_as_they_are_published_may_have_any_id() {
    let driver = driver_with("", "");
    let csi = Csi::at(driver.endpoint());
    let run = sanity(&csi, "--filter node/publish/with-a-hostile-id").succeeds();
    let told = "recommended: NodePublishVolume is refused\n";
    assert!(run.stdout.contains(told), "{run}");
    is_clean(&csi);
}

#[test]
fn readonly_is_not_judged_of_volumes_that_nobody_may_write() {
    let driver = driver_with("CREATE_DELETE_VOLUME", "");
    let csi = Csi::at(driver.endpoint());
    let line = cases(Mode::MultiNodeReaderOnly, "publish/with-another-readonly");
    let run = sanity(&csi, &line).succeeds();
    let told = "skipped: its access mode allows no writes: --cap names another one";
    assert!(run.stdout.contains(told), "{run}");
    is_clean(&csi);
}

#[test]
fn a_full_pool_may_have_no_largest_size() {
    let driver = driver_with("GET_CAPACITY", "");
    let full = r#"{"availableCapacity": 0, "maximumVolumeSize": 0, "minimumVolumeSize": 1048576}"#;
    driver.on("GetCapacity", full);
    let csi = Csi::at(driver.endpoint());
    let run = sanity(&csi, "--filter get-capacity/answers").succeeds();
    assert!(run.stdout.contains("\n1 passed "), "{run}");
}

#[test]
fn a_process_without_the_controller_tells_that_the_plugin_has_one() {
    let driver = driver_with("", "");
    for rpc in ["ControllerGetCapabilities", "ValidateVolumeCapabilities"] {
        driver.on(rpc, Reply::error(Code::Unimplemented, "it is elsewhere"));
    }
    let csi = Csi::at(driver.endpoint());
    let filter = "--filter controller/ --filter services-are-there";
    let run = sanity(&csi, filter).succeeds();
    let told = "skipped: this process serves no Controller: --controller-endpoint";
    assert!(run.stdout.contains(told), "{run}");
    is_clean(&csi);
}

#[test]
fn a_driver_of_block_volumes_alone_is_asked_for_those() {
    let driver = driver_with("CREATE_DELETE_VOLUME", "");
    driver.answer("CreateVolume", |request| {
        let request = request.decode::<v1::CreateVolumeRequest>();
        match request.volume_capabilities[0].access_type {
            Some(AccessType::Block(_)) => Volumes::default().make(&request.name),
            _ => Reply::error(Code::InvalidArgument, "volumes are devices"),
        }
    });
    let csi = Csi::at(driver.endpoint());
    for size in ["", "--volume-size 1Mi"] {
        let line = format!("{size} --filter lifecycle/make-and-remove");
        let run = sanity(&csi, &line).succeeds();
        assert!(run.stdout.contains("\n1 passed "), "{run}");
    }
    is_clean(&csi);
}

#[test]
fn a_list_is_begun_again_whose_token_has_become_invalid() {
    let driver = driver_with("CREATE_DELETE_VOLUME LIST_VOLUMES", "");
    let volumes = Volumes::default();
    let made = volumes.clone();
    driver.answer("CreateVolume", move |request| {
        made.make(&request.decode::<v1::CreateVolumeRequest>().name)
    });
    volumes.deleted_by(&driver);
    // Each list has tokens of its own, and those of every other one are not valid any more.
    let mut lists = 0;
    driver.answer("ListVolumes", move |request| {
        let request: v1::ListVolumesRequest = request.decode();
        let (list, after) = match request.starting_token.split_once(' ') {
            None => {
                lists += 1;
                (lists, String::new())
            }
            Some((list, after)) => (list.parse().unwrap(), after.to_owned()),
        };
        if !after.is_empty() && list % 2 == 1 {
            return Reply::error(Code::Aborted, "starting_token is not valid any more");
        }
        let most = match request.max_entries {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap(),
        };
        let rest: Vec<_> = volumes
            .list()
            .iter()
            .filter(|id| **id > after)
            .cloned()
            .collect();
        let page = &rest[..most.min(rest.len())];
        let next_token = match page.last() {
            Some(last) if page.len() < rest.len() => format!("{list} {last}"),
            _ => String::new(),
        };
        Reply::volumes(page, next_token)
    });
    let csi = Csi::at(driver.endpoint());
    let filter = "list-volumes/page-by-page --filter list-volumes/while";
    let run = sanity(&csi, &cases(Mode::SingleNodeWriter, filter)).succeeds();
    assert!(run.stdout.contains("\n2 passed "), "{run}");
    is_clean(&csi);
}

/// A page of a list: these volumes, each with a condition, and the next token.
fn page(ids: &[&str], next_token: &str) -> Reply {
    let entry = |id: &&str| json!({"volume": volume(id), "status": {"volumeCondition": {}}});
    let entries: Vec<_> = ids.iter().map(entry).collect();
    Reply::json(json!({"entries": entries, "nextToken": next_token}))
}

#[test]
fn a_list_that_changes_while_it_is_read_may_leave_volumes_out() {
    let driver = driver_with("CREATE_DELETE_VOLUME LIST_VOLUMES VOLUME_CONDITION", "");
    // By offset: a volume before it went between the first two pages.
    let mut lists = 0;
    driver.answer("ListVolumes", move |request| {
        let request: v1::ListVolumesRequest = request.decode();
        match request.starting_token.as_str() {
            "" => {
                lists += 1;
                page(&["other"], "1")
            }
            _ if lists == 1 => page(&[], ""),
            _ => page(&["vol-7"], ""),
        }
    });
    let csi = Csi::at(driver.endpoint());
    let filter = "list-volumes/shows-conditions";
    let run = sanity(&csi, &cases(Mode::SingleNodeWriter, filter)).succeeds();
    assert!(run.stdout.contains("\n1 passed "), "{run}");
    // And by somebody else, where no case runs beside this one.
    let mut lists = 0;
    driver.answer("ListVolumes", move |_| {
        lists += 1;
        page(&[&format!("other-{lists}")], "")
    });
    let filter = "list-volumes/page-by-page";
    let run = sanity(&csi, &cases(Mode::SingleNodeWriter, filter)).succeeds();
    let told = "skipped: other volumes come and go while the list is read";
    assert!(run.stdout.contains(told), "{run}");
    is_clean(&csi);
}

#[test]
fn a_size_that_is_told_later_is_no_other_one() {
    let driver = driver_with("CREATE_DELETE_VOLUME GET_VOLUME", "");
    let volumes = Volumes::default();
    let made = volumes.clone();
    driver.answer("CreateVolume", move |request| {
        let request: v1::CreateVolumeRequest = request.decode();
        let mut volume = volume(&request.name);
        if made.list().insert(request.name) {
            volume["capacityBytes"] = json!(0);
        }
        json!({ "volume": volume })
    });
    volumes.deleted_by(&driver);
    driver.answer("ControllerGetVolume", |request| {
        let request: v1::ControllerGetVolumeRequest = request.decode();
        json!({"volume": volume(&request.volume_id), "status": {}})
    });
    let csi = Csi::at(driver.endpoint());
    let filter = "create-volume/is-idempotent --filter get-volume/answers";
    let run = sanity(&csi, &cases(Mode::SingleNodeWriter, filter)).succeeds();
    assert!(run.stdout.contains("\n2 passed "), "{run}");
    is_clean(&csi);
}

#[test]
fn a_clone_that_is_not_advertised_is_a_failure_where_it_may_be_empty() {
    for (names_source, counts) in [
        (true, "\n1 passed (1 with a warning), 0 failed"),
        (false, "\n0 passed (0 with warnings), 1 failed"),
    ] {
        let driver = driver_with("CREATE_DELETE_VOLUME", "");
        driver.answer("CreateVolume", move |request| {
            let request: v1::CreateVolumeRequest = request.decode();
            let source = request.volume_content_source;
            let kind = source.as_ref().and_then(|source| source.r#type.as_ref());
            if matches!(kind, Some(Source::Snapshot(_))) {
                return Reply::error(Code::InvalidArgument, "there are no snapshots");
            }
            let mut volume = volume(&request.name);
            if names_source && let Some(Source::Volume(source)) = kind {
                volume["contentSource"] = json!({"volume": {"volumeId": source.volume_id}});
            }
            Reply::json(json!({ "volume": volume }))
        });
        let csi = Csi::at(driver.endpoint());
        let filter = "from-a-source-that-is-not-advertised";
        let run = sanity(&csi, &cases(Mode::SingleNodeWriter, filter));
        assert!(run.stdout.contains(counts), "{run}");
        is_clean(&csi);
    }
}

#[test]
fn more_may_be_used_and_available_than_the_size() {
    let driver = driver_with("CREATE_DELETE_VOLUME", "GET_VOLUME_STATS");
    driver.answer("CreateVolume", |request| {
        Volumes::default().make(&request.decode::<v1::CreateVolumeRequest>().name)
    });
    let usage =
        json!({"unit": "BYTES", "total": 1 << 20, "used": 2 << 20, "available": 1_i64 << 40});
    driver.on("NodeGetVolumeStats", json!({"usage": [usage]}));
    let csi = Csi::at(driver.endpoint());
    let filter = "node/stats/are-of-the-volume --paths=false";
    let run = sanity(&csi, &cases(Mode::SingleNodeWriter, filter)).succeeds();
    assert!(run.stdout.contains("\n1 passed (0 with warnings)"), "{run}");
    is_clean(&csi);
}

#[test]
fn a_node_that_expands_alone_gives_more_or_refuses() {
    let size = 1 << 20;
    let same = Reply::json(json!({"capacityBytes": size}));
    let none = Reply::error(Code::OutOfRange, "there is no more");
    for (more, code) in [(same.clone(), 3), (none, 0)] {
        let driver = driver_with("CREATE_DELETE_VOLUME", "EXPAND_VOLUME");
        driver.answer("CreateVolume", |request| {
            Volumes::default().make(&request.decode::<v1::CreateVolumeRequest>().name)
        });
        let same = same.clone();
        driver.answer("NodeExpandVolume", move |request| {
            let request: v1::NodeExpandVolumeRequest = request.decode();
            let asked = request.capacity_range.unwrap_or_default().required_bytes;
            match asked > size {
                true => more.clone(),
                false => same.clone(),
            }
        });
        let csi = Csi::at(driver.endpoint());
        let filter = "node/expand/expands --filter replies/node-expand --paths=false";
        sanity(&csi, &cases(Mode::SingleNodeWriter, filter)).exits(code);
        is_clean(&csi);
    }
}

#[test]
fn a_limit_of_calls_in_a_time_is_no_failure() {
    let driver = driver_with("CREATE_DELETE_VOLUME", "");
    let volumes = Volumes::default();
    let made = volumes.clone();
    driver.answer("CreateVolume", move |request| {
        made.make(&request.decode::<v1::CreateVolumeRequest>().name)
    });
    let mut count = 0;
    driver.answer("DeleteVolume", move |request| {
        count += 1;
        // After what is tried before this case.
        if count == 3 {
            return Reply::error(Code::ResourceExhausted, "too many calls");
        }
        let request: v1::DeleteVolumeRequest = request.decode();
        volumes.list().remove(&request.volume_id);
        Reply::json("{}")
    });
    let csi = Csi::at(driver.endpoint());
    let line = cases(Mode::SingleNodeWriter, "delete-volume/is-idempotent");
    let run = sanity(&csi, &line).succeeds();
    let told = "\nok controller/delete-volume/is-idempotent ";
    assert!(run.stdout.contains(told), "{run}");
    // It may be met in the first call of all.
    let too_many = || Reply::error(Code::ResourceExhausted, "too many calls");
    let ready = Reply::json("{}");
    driver.on_each("Probe", [too_many(), ready]);
    let run = sanity(&csi, "--filter probe/answers-ready --jobs 1").succeeds();
    let told = "\nok identity/probe/answers-ready ";
    assert!(run.stdout.contains(told), "{run}");
    // And by an RPC that has worked before the cases.
    let named = Reply::json(r#"{"name": "scripted.csi.example", "vendorVersion": "1"}"#);
    driver.on_each("GetPluginInfo", [named, too_many()]);
    let run = sanity(&csi, "--filter identity/plugin-info");
    let told = "not served now: GetPluginInfo: it answered RESOURCE_EXHAUSTED";
    assert!(run.stdout.contains(told), "{run}");
    assert!(!run.stdout.contains("never worked"), "{run}");
    is_clean(&csi);
}

#[test]
fn one_case_of_all_runs_again_for_an_rpc_that_is_never_served() {
    for jobs in [1, 8] {
        let driver = driver_with("CREATE_DELETE_VOLUME", "");
        let refusal = Reply::error(Code::ResourceExhausted, "too many calls");
        driver.on("ValidateVolumeCapabilities", refusal);
        let csi = Csi::at(driver.endpoint());
        let filter = "validate/without --filter validate/with-a-long-id --filter validate/of-an";
        let more = cases(Mode::SingleNodeWriter, filter);
        let run = sanity(&csi, &format!("{more} --jobs {jobs}")).exits(4);
        let told = "\nnever worked, so that nothing is known of it: ValidateVolumeCapabilities: ";
        assert!(run.stdout.contains(told), "{run}");
        let calls = driver.calls().into_iter();
        let calls = calls.filter(|rpc| rpc == "ValidateVolumeCapabilities");
        assert_eq!(calls.count(), 5, "{run}");
        is_clean(&csi);
    }
}

#[test]
fn what_a_call_makes_that_was_given_up_goes_when_it_comes_late() {
    let driver = driver_with("CREATE_DELETE_VOLUME", "");
    let (volumes, late) = (Volumes::default(), Volumes::default());
    let (made, mut begun, under_way) = (volumes.clone(), HashSet::new(), late.clone());
    driver.answer("CreateVolume", move |request| {
        let name = request.decode::<v1::CreateVolumeRequest>().name;
        // Cases before this one make one volume each.
        if name.ends_with("-0") || !begun.insert(name.clone()) {
            return made.make(&name);
        }
        // One that was given up before it was sent is made again by a caller who waits longer.
        under_way.make(&name).after(Duration::from_secs(30))
    });
    // The call has its effect when all that its case has made was deleted.
    let here = volumes.clone();
    driver.answer("DeleteVolume", move |request| {
        let id = request.decode::<v1::DeleteVolumeRequest>().volume_id;
        here.list().remove(&id);
        here.list().extend(late.list().take(&id));
        Reply::json("{}")
    });
    let csi = Csi::at(driver.endpoint());
    let line = cases(Mode::SingleNodeWriter, "create-volume/given-up");
    let run = sanity(&csi, &line).succeeds();
    let left = volumes.list().clone();
    assert_eq!(left, BTreeSet::new(), "{run}");
    is_clean(&csi);
}

#[test]
fn a_driver_that_goes_away_once_while_block_is_tried_is_not_taken_to_have_that() {
    let driver = crate::lifecycle::thorough_driver();
    let mut is_first = true;
    driver.answer("CreateVolume", move |request| {
        let request = request.decode::<v1::CreateVolumeRequest>();
        match &request.volume_capabilities[0].access_type {
            Some(AccessType::Block(_)) if std::mem::take(&mut is_first) => Reply::disconnect(),
            Some(AccessType::Block(_)) => {
                Reply::error(Code::InvalidArgument, "volumes are folders")
            }
            _ => Reply::json(r#"{"volume": {"volumeId": "vol-1"}}"#),
        }
    });
    let csi = Csi::at(driver.endpoint());
    let run = sanity(&csi, "--volume-size 1Gi --filter lifecycle/make-and-remove");
    assert!(!run.stdout.contains("volumes are folders"), "{run}");
}
