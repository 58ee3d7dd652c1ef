//! Calls at the same time, and creation racing with deletion.

use crate::tools::sanity::answers::ok_or_aborted;
use crate::tools::sanity::case::{Case, case, ensure};
use crate::tools::sanity::need::needs::{CREATE_DELETE_VOLUME, EACH_ACCESS, NODE_SERVICE};
use crate::tools::sanity::verdict::status_text;
use std::collections::BTreeSet;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/create-volume/at-the-same-time",
        "CreateVolume answers equal calls at the same time with one volume, or some of them with ABORTED",
        "Concurrency",
        [CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            let request = c.create_request()?;
            let mut ids = BTreeSet::new();
            for reply in c.equal_calls(&request, 8)? {
                ids.insert(reply.volume.unwrap_or_default().volume_id);
            }
            let last = c
                .ok_in_the_end(request)?
                .volume
                .unwrap_or_default()
                .volume_id;
            ids.insert(last);
            ensure(ids.len() == 1, "one volume", format!("the volumes {ids:?}"))?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/different-ones-at-the-same-time",
        "CreateVolume of different volumes at the same time makes each of them",
        "Concurrency",
        [CREATE_DELETE_VOLUME],
        |c| {
            let mut requests = Vec::new();
            for _ in 0..8 {
                requests.push(c.create_request()?);
            }
            let mut ids = BTreeSet::new();
            for reply in c.all_ok(requests)? {
                ids.insert(reply.volume.unwrap_or_default().volume_id);
            }
            ensure(
                ids.len() == 8,
                "8 volumes",
                format!("{} different ids", ids.len()),
            )?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/different-sizes-at-the-same-time",
        "CreateVolume of one name with two sizes at the same time makes one volume of one of them",
        "Concurrency",
        [CREATE_DELETE_VOLUME],
        |c| {
            let size = c.settings().volume_size;
            let mut one = c.create_request()?;
            one.capacity_range = Some(super::create_volume::range(size, size));
            let mut other = one.clone();
            other.capacity_range = Some(super::create_volume::range(2 * size, 2 * size));
            let mut ids = BTreeSet::new();
            let requests = vec![one.clone(), other.clone(), one, other];
            for answer in c.together(requests)? {
                match answer {
                    Ok(reply) => drop(ids.insert(reply.volume.unwrap_or_default().volume_id)),
                    Err(status) => {
                        let codes = [Code::Aborted, Code::AlreadyExists, Code::OutOfRange];
                        let fits = codes.contains(&status.code());
                        ensure(fits, "OK, ALREADY_EXISTS or ABORTED", status_text(&status))?;
                    }
                }
            }
            ensure(ids.len() <= 1, "one volume", format!("the volumes {ids:?}"))?;
        }
    ),
    case!(
        Changes,
        "controller/delete-volume/at-the-same-time",
        "DeleteVolume answers equal calls at the same time with OK, or some of them with ABORTED",
        "Concurrency",
        [CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let request = c.delete_request(volume.id());
            c.equal_calls(&request, 8)?;
            c.ok_in_the_end(request)?;
        }
    ),
    case!(
        Changes,
        "controller/delete-volume/while-created-again",
        "CreateVolume and DeleteVolume of one volume at the same time end with a volume or without one, and nothing between",
        "Concurrency",
        [CREATE_DELETE_VOLUME],
        |c| {
            for _ in 0..4 {
                let volume = c.volume()?;
                let (created, deleted) = c.at_once(
                    || c.send(volume.request.clone()),
                    || c.send(c.delete_request(volume.id())),
                )?;
                ok_or_aborted(created?)?;
                ok_or_aborted(deleted?)?;
                // Whatever came first: the name leads to a volume that can be used, and that can be deleted.
                let now = c
                    .ok_in_the_end(volume.request.clone())?
                    .volume
                    .unwrap_or_default();
                let mut found = volume.clone();
                found.volume = now;
                c.ok(c.validate_request(&found))?;
                c.ok_in_the_end(c.delete_request(found.id()))?;
                c.ok_in_the_end(c.delete_request(volume.id()))?;
            }
        }
    ),
    case!(
        Changes,
        "lifecycle/many-at-the-same-time",
        "Volumes go their whole way, from create to delete, at the same time as others",
        "Volume Lifecycle",
        [CREATE_DELETE_VOLUME, NODE_SERVICE],
        |c| {
            let way = || {
                let placed = c.published()?;
                super::lifecycle::down(c, &placed)
            };
            for ended in c.often_at_once(6, way)? {
                ended?;
            }
        }
    ),
];
