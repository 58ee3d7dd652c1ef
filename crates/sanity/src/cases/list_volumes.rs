//! ListVolumes: what is listed, and page by page.

use super::get_volume::{as_created, names_the_node};
use crate::vocabulary::*;
use csi_proto::v1::list_volumes_response::{Entry, VolumeStatus};
use std::cell::Cell;
use std::collections::BTreeSet;

pub fn cases(list: &mut Cases) {
    list.about("controller/list-volumes", "ListVolumes");
    list.needs(&[LIST_VOLUMES]);
    list.rule("ListVolumes without max_entries answers with the volumes");
    list.reads("lists", |c| c.ok(v1::ListVolumesRequest::default()));
    list.rule("ListVolumes takes any max_entries that is not negative");
    list.reads("with-max-entries", |c| {
        // That no page has more is a rule of the reply.
        each([1, 2, 1000], |most| c.ok(page(most, "")))
    });
    list.error("ListVolumes with a starting_token that it never gave answers ABORTED");
    list.reads("with-an-unknown-token", |c| {
        let tokens = ["csi-sanity-no-token", "-1", "999999999999999999999"];
        each(tokens, |token| c.refused(page(0, token), &[Aborted]))
    });
    list.rule(
        "ListVolumes with a negative max_entries is refused, for the field must not be negative",
    );
    list.reads("with-negative-max-entries", |c| {
        c.should_answer(page(-1, ""), &[InvalidArgument], "INVALID_ARGUMENT")
    });
    list.needs(&[LIST_VOLUMES, CREATE_DELETE_VOLUME]);
    list.rule("A volume is listed once as long as it exists, with what CreateVolume answered, and not before or after");
    list.alone("shows-every-volume-once", |c| {
        let volumes = [c.volume()?, c.volume()?, c.volume()?];
        let listed = all(c, 0)?;
        each(&volumes, |volume| {
            as_created(c, volume, find_once(&listed, &volume.id())?)
        })?;
        c.ok(c.delete_request(volumes[1].id()))?;
        let listed = all(c, 0)?;
        find_once(&listed, &volumes[0].id())?;
        find_once(&listed, &volumes[2].id())?;
        let still = listed.iter().any(|one| one.volume_id == volumes[1].id());
        c.demands_of("controller/delete-volume/deletes", || {
            ensure(!still, "a deleted volume is not listed", volumes[1].id())
        })
    });
    list.rule(
        "The pages of a list hold together every volume once, and the last has no next_token",
    );
    list.alone("page-by-page", |c| {
        let ids = (0..5).map(|_| Ok(c.volume()?.id()));
        let ids: Vec<_> = ids.collect::<Result<_, Stop>>()?;
        let others = |listed: &[v1::Volume]| -> BTreeSet<String> {
            let listed = listed.iter().map(|one| one.volume_id.clone());
            listed.filter(|id| !ids.contains(id)).collect()
        };
        // Of others' volumes nothing can be said: they may come and go meanwhile.
        each([1, 2, 4], |most| {
            let paged = all(c, most)?;
            c.answers_depend_on(EVERY_VOLUME);
            let whole = each(&ids, |id| find_once(&paged, id));
            if whole.is_err() {
                let reason = "other volumes come and go while the list is read";
                skip_unless(others(&paged) == others(&all(c, most)?), reason)?;
            }
            whole
        })
    });
    list.rule("A list that changes while it is read page by page comes to its end, or is ABORTED and begun again");
    list.alone("while-volumes-come-and-go", |c| {
        each(0..4, |_| c.volume())?;
        let goes = c.volume()?;
        let first = c.ok(page(2, ""))?.next_token;
        c.ok(c.delete_request(goes.id()))?;
        c.volume()?;
        if first.is_empty() {
            return Ok(());
        }
        // What such pages have is expressly left open: volumes may be there twice, or not at all.
        entries_from(c, first, 2).map(drop)
    });
    list.rule("ListVolumes shows the nodes that the controller has published a volume to");
    list.needs(&[LIST_VOLUMES, LIST_VOLUMES_PUBLISHED_NODES]);
    list.also(&[CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE_SERVICE]);
    list.changes("shows-published-nodes", |c| {
        let (volume, _) = c.attached()?;
        let nodes = |status: Option<VolumeStatus>| status.unwrap_or_default().published_node_ids;
        names_the_node(c, &nodes(entry_of(c, &volume.id())?.status))?;
        c.ok(c.detach_request(&volume))?;
        let nodes = nodes(entry_of(c, &volume.id())?.status);
        // The specification lets the field name nodes beyond those.
        let gone = !nodes.contains(&c.driver().node_info.node_id);
        c.should(gone, "no node once it is unpublished", list_text(nodes));
        Ok(())
    });
    list.needs(&[LIST_VOLUMES, VOLUME_CONDITION, CREATE_DELETE_VOLUME]);
    list.rule("ListVolumes of a plugin that advertises VOLUME_CONDITION shows the condition of every volume");
    list.changes("shows-conditions", |c| {
        let status = entry_of(c, &c.volume()?.id())?.status;
        let condition = status.and_then(|status| status.volume_condition);
        let has = condition.is_some();
        ensure(has, "the entry has a volume_condition", "it has none")
    });
}

/// How often a list is read that changes meanwhile.
const READ_AT_MOST: usize = 10;

/// The case about whether the list is whole, and the one about the form of replies.
const EVERY_VOLUME: &str = "controller/list-volumes/shows-every-volume-once";
const REPLIES: &str = "replies/list-volumes";

/// ListVolumes of one page.
fn page(max_entries: i32, starting_token: impl Into<String>) -> v1::ListVolumesRequest {
    v1::ListVolumesRequest {
        max_entries,
        starting_token: starting_token.into(),
    }
}

/// The entries from a token on, and on how many pages they were.
fn entries_from(c: &Context, token: String, max_entries: i32) -> Result<(Vec<Entry>, usize), Stop> {
    let pages = Cell::new(0);
    let entries = c.pages(REPLIES, token, |token, codes| {
        pages.set(pages.get() + 1);
        let reply = c.ok_or(page(max_entries, token), codes)?;
        Ok(reply.map(|reply| (reply.entries, reply.next_token)))
    })?;
    Ok((entries, pages.get()))
}

/// All volumes, by pages of that many.
fn all(c: &Context, max_entries: i32) -> Result<Vec<v1::Volume>, Stop> {
    let (entries, _) = entries_from(c, String::new(), max_entries)?;
    let entries = entries.into_iter();
    Ok(entries.filter_map(|entry| entry.volume).collect())
}

/// A volume that must be listed, and not twice.
fn find_once<'a>(listed: &'a [v1::Volume], id: &str) -> Result<&'a v1::Volume, Stop> {
    let mut found = listed.iter().filter(|volume| volume.volume_id == id);
    let expected = format!("the volume {id} is listed");
    let others = || format!("{} others are", listed.len());
    let only = found
        .next()
        .ok_or_else(|| Stop::failed(expected, others()))?;
    let once = found.next().is_none();
    let actual = format!("{id} is twice");
    ensure(once, "every volume is listed once", actual)?;
    Ok(only)
}

/// The entry of a volume that must be listed. Where the list has several pages, and cases beside this one change it meanwhile, the
/// volume may be on none of them: then the list is read anew.
pub fn entry_of(c: &Context, id: &str) -> Result<Entry, Stop> {
    let id_of = |entry: &Entry| entry.volume.as_ref().map(|one| one.volume_id.clone());
    let is_it = |entry: &Entry| id_of(entry).as_deref() == Some(id);
    for _ in 0..READ_AT_MOST {
        let (listed, pages) = entries_from(c, String::new(), 0)?;
        let found = listed.into_iter().find(is_it);
        if found.is_some() || pages == 1 {
            return c.demands_of(EVERY_VOLUME, || {
                let expected = format!("the volume {id} is listed");
                found.ok_or_else(|| Stop::failed(expected, "it is not"))
            });
        }
    }
    let reason = "the list has several pages, and changes while it is read";
    Err(Stop::skipped(reason))
}
