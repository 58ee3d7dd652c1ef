//! Calls at the same time, and creation racing with deletion.

use crate::vocabulary::*;
use std::collections::BTreeSet;

pub fn cases(list: &mut Cases) {
    list.about("controller/create-volume", "Concurrency");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("CreateVolume answers equal calls at the same time with one volume, or some of them with ABORTED");
    list.also(EACH_ACCESS).changes("at-the-same-time", |c| {
        let replies = c.equal_calls(c.create_request()?, 8)?;
        let ids = ids_of(c, replies)?;
        let actual = format!("the volumes {}", list_text(&ids));
        ensure(ids.len() == 1, "one volume", actual)
    });
    list.rule("CreateVolume of different volumes at the same time makes each of them");
    list.changes("different-ones-at-the-same-time", |c| {
        let requests = (0..8).map(|_| c.create_request());
        let ids = ids_of(c, c.all_ok(requests.collect::<Result<_, _>>()?)?)?;
        let count = ids.len();
        let actual = format!("{count} different ids");
        c.demands_of("replies/volume-ids", || {
            ensure(count == 8, "8 volumes", actual)
        })
    });
    list.rule(
        "CreateVolume of one name with two sizes at the same time makes one volume of one of them",
    );
    list.changes("different-sizes-at-the-same-time", |c| {
        let size = c.size();
        let one = c.create_sized(size, size)?;
        let other = c.create_sized(2 * size, 2 * size)?.named(one.name.clone());
        let mut replies = Vec::new();
        let answers = c.together(vec![one.clone(), other.clone(), one, other])?;
        let others = [2 * size, size].into_iter().cycle();
        for (answer, others) in answers.into_iter().zip(others) {
            match answer {
                Ok(reply) => {
                    let found = reply.volume.as_ref().map(|one| one.capacity_bytes);
                    let expected = format!("ALREADY_EXISTS, or another size than {others}");
                    c.demands_of("controller/create-volume/with-another-size", || {
                        ensure(found != Some(others), expected, "it answered with that")
                    })?;
                    replies.push(reply);
                }
                Err(status) => {
                    let codes = [Aborted, AlreadyExists, OutOfRange];
                    same_code(&status, &codes, "OK, ALREADY_EXISTS or ABORTED")?;
                }
            }
        }
        let ids = ids_of(c, replies)?;
        let actual = format!("the volumes {}", list_text(&ids));
        c.demands_of("controller/create-volume/at-the-same-time", || {
            ensure(ids.len() <= 1, "one volume", actual)
        })
    });
    list.about("controller/delete-volume", "Concurrency");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule(
        "DeleteVolume answers equal calls at the same time with OK, or some of them with ABORTED",
    );
    list.changes("at-the-same-time", |c| {
        c.equal_calls(c.delete_request(c.volume()?.id()), 8)
    });
    list.rule("CreateVolume and DeleteVolume of one volume at the same time end with a volume or without one, and nothing between");
    list.changes("while-created-again", |c| {
        each(0..4, |_| {
            let volume = c.volume()?;
            let (created, deleted) = c.at_once(
                || c.send(volume.request.clone()),
                || c.send(c.delete_request(volume.id())),
            )?;
            ok_or_aborted(created?)?;
            ok_or_aborted(deleted?)?;
            // Whatever came first: the name leads to a volume that can be used, and that can be deleted.
            let mut found = volume.clone();
            found.volume = c.made(&volume.request)?;
            c.ok(c.validate_request(&found))?;
            c.ok(c.delete_request(found.id()))?;
            c.ok(c.delete_request(volume.id()))
        })
    });
    list.about("lifecycle", "Volume Lifecycle");
    list.needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE]);
    list.rule("Volumes go their whole way, from create to delete, at the same time as others");
    list.changes("many-at-the-same-time", |c| {
        let ways = c.often_at_once(6, || super::lifecycle::down(c, &c.published()?))?;
        each(ways, |ended| ended)
    });
}

/// The different ids of volumes in replies.
fn ids_of(c: &Context, replies: Vec<v1::CreateVolumeResponse>) -> Result<BTreeSet<String>, Stop> {
    let replies = replies.into_iter();
    let volumes = replies.map(|reply| c.identified::<v1::CreateVolumeRequest>(reply));
    volumes.map(|volume| Ok(volume?.volume_id)).collect()
}
