//! Calls at the same time, and creation racing with deletion.

use crate::tools::sanity::vocabulary::*;
use std::collections::BTreeSet;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/create-volume", "Concurrency");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("CreateVolume answers equal calls at the same time with one volume, or some of them with ABORTED");
    list.also(&[EACH_ACCESS]).changes("at-the-same-time", |c| {
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
        ensure(ids.len() == 1, "one volume", format!("the volumes {ids:?}"))
    });
    list.rule("CreateVolume of different volumes at the same time makes each of them");
    list.changes("different-ones-at-the-same-time", |c| {
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
        )
    });
    list.rule(
        "CreateVolume of one name with two sizes at the same time makes one volume of one of them",
    );
    list.changes("different-sizes-at-the-same-time", |c| {
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
                    let codes = [Aborted, AlreadyExists, OutOfRange];
                    let fits = codes.contains(&status.code());
                    ensure(fits, "OK, ALREADY_EXISTS or ABORTED", status_text(&status))?;
                }
            }
        }
        ensure(ids.len() <= 1, "one volume", format!("the volumes {ids:?}"))
    });
    list.about("controller/delete-volume", "Concurrency");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule(
        "DeleteVolume answers equal calls at the same time with OK, or some of them with ABORTED",
    );
    list.changes("at-the-same-time", |c| {
        let volume = c.volume()?;
        let request = c.delete_request(volume.id());
        c.equal_calls(&request, 8)?;
        c.ok_in_the_end(request)
    });
    list.rule("CreateVolume and DeleteVolume of one volume at the same time end with a volume or without one, and nothing between");
    list.changes("while-created-again", |c| {
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
        Ok(())
    });
    list.about("lifecycle", "Volume Lifecycle");
    list.needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE]);
    list.rule("Volumes go their whole way, from create to delete, at the same time as others");
    list.changes("many-at-the-same-time", |c| {
        let way = || {
            let placed = c.published()?;
            super::lifecycle::down(c, &placed)
        };
        for ended in c.often_at_once(6, way)? {
            ended?;
        }
        Ok(())
    });
}
