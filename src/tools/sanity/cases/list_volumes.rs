//! ListVolumes: what is listed, and page by page.

use crate::tools::sanity::vocabulary::*;
use csi_proto::v1::list_volumes_response::Entry;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/list-volumes", "ListVolumes");
    list.needs(&[LIST_VOLUMES]);
    list.rule("ListVolumes answers with volumes that have ids");
    list.reads("lists", |c| c.ok(v1::ListVolumesRequest::default()));
    list.rule("ListVolumes answers with no more entries than max_entries");
    list.reads("keeps-max-entries", |c| {
        // That is a rule of the message.
        for max_entries in [1, 2, 1000] {
            c.ok(v1::ListVolumesRequest {
                max_entries,
                ..Default::default()
            })?;
        }
        Ok(())
    });
    list.error_rule("ListVolumes with a starting_token that it never gave answers ABORTED");
    list.reads("with-an-unknown-token", |c| {
        for token in ["csi-sanity-no-token", "-1", "999999999999999999999"] {
            let request = v1::ListVolumesRequest {
                starting_token: token.to_owned(),
                ..Default::default()
            };
            c.refused(request, &[Aborted])?;
        }
        Ok(())
    });
    list.rule(
        "ListVolumes with a negative max_entries is refused, for the field must not be negative",
    );
    list.reads("with-negative-max-entries", |c| {
        let request = v1::ListVolumesRequest {
            max_entries: -1,
            ..Default::default()
        };
        let answer = c.send(request)?;
        let refused = answer
            .as_ref()
            .is_err_and(|status| status.code() == InvalidArgument);
        let actual = answer_text(&answer);
        c.should(refused, "INVALID_ARGUMENT", actual);
        Ok(())
    });
    list.rule("A volume is listed once as long as it exists, with what CreateVolume answered, and not before or after");
    list.also(&[CREATE_DELETE_VOLUME])
        .alone("shows-every-volume-once", |c| {
            let mut volumes = Vec::new();
            for _ in 0..3 {
                volumes.push(c.volume()?);
            }
            let listed = all(c, 0)?;
            for volume in &volumes {
                let entry = find_once(&listed, &volume.id())?;
                let actual = format!("{:?}", entry.volume_context);
                let expected = format!("the volume context {:?}", volume.volume.volume_context);
                // A list may leave the context out, but not invent another one.
                let same = entry.volume_context.is_empty()
                    || entry.volume_context == volume.volume.volume_context;
                ensure(same, &expected, actual)?;
                let size = entry.capacity_bytes;
                let same = size == 0 || size == volume.volume.capacity_bytes;
                let expected = format!("the size {}", volume.volume.capacity_bytes);
                ensure(same, &expected, size.to_string())?;
            }
            c.ok(c.delete_request(volumes[1].id()))?;
            let listed = all(c, 0)?;
            find_once(&listed, &volumes[0].id())?;
            find_once(&listed, &volumes[2].id())?;
            let still = listed.iter().any(|one| one.volume_id == volumes[1].id());
            ensure(!still, "a deleted volume is not listed", volumes[1].id())
        });
    list.rule(
        "The pages of a list hold together every volume once, and the last has no next_token",
    );
    list.also(&[CREATE_DELETE_VOLUME])
        .alone("page-by-page", |c| {
            let mut ids = Vec::new();
            for _ in 0..5 {
                ids.push(c.volume()?.id());
            }
            // Of others' volumes nothing can be said: they may come and go meanwhile.
            for max_entries in [1, 2, 4] {
                let paged = all(c, max_entries)?;
                for id in &ids {
                    find_once(&paged, id)?;
                }
            }
            Ok(())
        });
    list.rule("A list that changes while it is read page by page comes to its end, or is ABORTED");
    list.also(&[CREATE_DELETE_VOLUME])
        .alone("while-volumes-come-and-go", |c| {
            for _ in 0..4 {
                c.volume()?;
            }
            let goes = c.volume()?;
            let mut token = page(c, 2, String::new())?.next_token;
            c.ok(c.delete_request(goes.id()))?;
            c.volume()?;
            // What such pages have is expressly left open: volumes may be there twice, or not at all.
            let mut pages = 0;
            while !token.is_empty() {
                let request = v1::ListVolumesRequest {
                    max_entries: 2,
                    starting_token: token,
                };
                // ABORTED: it has become another list.
                let reply = c.ok_or(request, &[Aborted])?;
                token = reply.map(|reply| reply.next_token).unwrap_or_default();
                pages += 1;
                if pages > PAGES_AT_MOST {
                    return Err(endless());
                }
            }
            Ok(())
        });
    list.rule("ListVolumes shows the nodes that the controller has published a volume to");
    list.also(&[
        LIST_VOLUMES_PUBLISHED_NODES,
        CREATE_DELETE_VOLUME,
        PUBLISH_UNPUBLISH_VOLUME,
        NODE_SERVICE,
    ])
    .changes("shows-published-nodes", |c| {
        let volume = c.volume()?;
        c.ok(c.attach_request(&volume))?;
        let node = c.driver().node_info.node_id.clone();
        let nodes = nodes_of(c, &volume.id())?;
        ensure(
            nodes.contains(&node),
            &format!("the node {node}"),
            format!("{nodes:?}"),
        )?;
        c.ok(c.detach_request(&volume))?;
        let nodes = nodes_of(c, &volume.id())?;
        // The specification lets the field name nodes beyond those.
        c.should(
            !nodes.contains(&node),
            "no node once it is unpublished",
            format!("{nodes:?}"),
        );
        Ok(())
    });
    list.rule("ListVolumes of a plugin that advertises VOLUME_CONDITION shows the condition of every volume");
    list.also(&[VOLUME_CONDITION, CREATE_DELETE_VOLUME])
        .changes("shows-conditions", |c| {
            let volume = c.volume()?;
            let entry = entry_of(c, &volume.id())?;
            let has = entry
                .status
                .as_ref()
                .is_some_and(|status| status.volume_condition.is_some());
            ensure(
                has,
                "the entry has a volume_condition",
                format!("{:?}", entry.status),
            )
        });
}

fn page(
    c: &Context,
    max_entries: i32,
    starting_token: String,
) -> Result<v1::ListVolumesResponse, Stop> {
    let request = v1::ListVolumesRequest {
        max_entries,
        starting_token,
    };
    c.ok(request)
}

/// How many pages a list may have before it is taken to be endless.
const PAGES_AT_MOST: usize = 10_000;

fn entries(c: &Context, max_entries: i32) -> Result<Vec<Entry>, Stop> {
    c.one_step(|| pages(c, max_entries))?
}

fn pages(c: &Context, max_entries: i32) -> Result<Vec<Entry>, Stop> {
    let mut found = Vec::new();
    let mut token = String::new();
    for _ in 0..PAGES_AT_MOST {
        let reply = page(c, max_entries, token)?;
        found.extend(reply.entries);
        token = reply.next_token;
        if token.is_empty() {
            return Ok(found);
        }
    }
    Err(endless())
}

fn endless() -> Stop {
    let actual = format!("{PAGES_AT_MOST} pages and one more token");
    Stop::failed("the list has an end", actual)
}

/// All volumes, by pages of that many.
fn all(c: &Context, max_entries: i32) -> Result<Vec<v1::Volume>, Stop> {
    let entries = entries(c, max_entries)?.into_iter();
    Ok(entries.filter_map(|entry| entry.volume).collect())
}

/// A volume that must be listed, and not twice.
fn find_once<'a>(listed: &'a [v1::Volume], id: &str) -> Result<&'a v1::Volume, Stop> {
    let mut found = listed.iter().filter(|volume| volume.volume_id == id);
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(Stop::failed(
            "every volume is listed once",
            format!("{id} is twice"),
        )),
        (None, _) => Err(Stop::failed(
            format!("the volume {id} is listed"),
            format!("{} others are", listed.len()),
        )),
    }
}

fn entry_of(c: &Context, id: &str) -> Result<Entry, Stop> {
    let listed = entries(c, 0)?;
    let is_it = |entry: &Entry| {
        entry
            .volume
            .as_ref()
            .is_some_and(|volume| volume.volume_id == id)
    };
    let found = listed.into_iter().find(is_it);
    found.ok_or_else(|| Stop::failed(format!("the volume {id} is listed"), "it is not"))
}

fn nodes_of(c: &Context, id: &str) -> Result<Vec<String>, Stop> {
    let status = entry_of(c, id)?.status;
    Ok(status.unwrap_or_default().published_node_ids)
}
