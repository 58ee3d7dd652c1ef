//! Sizes that the specification allows, and ids that nobody would write by hand.

use super::get_volume::{UNKNOWN, get};
use crate::vocabulary::*;
use std::collections::BTreeMap;

/// Lengths of ids at the specification's limit and beyond.
const LONG: [usize; 4] = [128, 129, 4096, 100_000];

/// The case about volumes that do not exist.
const VALIDATE_UNKNOWN: &str = "controller/validate/of-an-unknown-id";

pub fn cases(list: &mut Cases) {
    list.about("controller/delete-volume", "DeleteVolume");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("DeleteVolume with an id like a path, or with characters that mean something elsewhere, deletes nothing and does not fail");
    list.changes("with-a-hostile-id", |c| {
        let volume = c.volume()?;
        for id in hostile_ids(&volume.id()) {
            c.ok_or(c.delete_request(id), &[InvalidArgument])?;
        }
        c.ok(c.validate_request(&volume))
    });
    list.about("controller/validate", "ValidateVolumeCapabilities");
    list.needs(&[CONTROLLER_SERVICE]);
    list.error(
        "ValidateVolumeCapabilities with an id like a path answers NOT_FOUND or INVALID_ARGUMENT",
    );
    list.reads("with-a-hostile-id", |c| {
        c.demands_of(VALIDATE_UNKNOWN, || {
            each(hostile_ids("csi-sanity"), |id| {
                c.refused(c.validate_id(id)?, &[NotFound, InvalidArgument])
            })
        })
    });
    list.about("controller/get-volume", "ControllerGetVolume");
    list.needs(&[GET_VOLUME]);
    list.error("ControllerGetVolume with an id like a path answers NOT_FOUND or INVALID_ARGUMENT");
    list.reads("with-a-hostile-id", |c| {
        c.demands_of(UNKNOWN, || {
            each(hostile_ids("csi-sanity"), |id| {
                c.refused(get(id), &[NotFound, InvalidArgument])
            })
        })
    });
    list.about("node/unpublish", "NodeUnpublishVolume");
    list.needs(&[NODE_SERVICE]);
    list.error(
        "NodeUnpublishVolume with an id like a path answers OK, NOT_FOUND or INVALID_ARGUMENT",
    );
    list.changes("with-a-hostile-id", |c| {
        each(hostile_ids("csi-sanity"), |volume_id| {
            let target_path = c.target()?;
            let request = v1::NodeUnpublishVolumeRequest {
                volume_id,
                target_path,
            };
            c.demands_of("node/unpublish/is-idempotent", || {
                c.ok_or(request, &[NotFound, InvalidArgument])
            })
        })
    });
    list.about("node/publish", "NodePublishVolume");
    list.needs(&[NODE_SERVICE]);
    list.error("NodePublishVolume with an id like a path is refused, or should be where the plugin may make volumes as they are published");
    list.changes("with-a-hostile-id", |c| {
        each(hostile_ids("csi-sanity"), |volume_id| {
            let request = v1::NodePublishVolumeRequest {
                volume_id,
                target_path: c.target()?,
                volume_capability: Some(c.capability()?),
                secrets: c.secrets(),
                ..Default::default()
            };
            let codes = [NotFound, InvalidArgument, FailedPrecondition];
            // Who has published no volume does not know what else the driver needs for it; and one that makes its volumes here
            // may take any id.
            if !c.has(CREATE_DELETE_VOLUME) {
                return c.should_fail(request, "NodePublishVolume is refused");
            }
            c.demands_of("node/publish/of-a-deleted-volume", || {
                c.refused(request, &codes).map(drop)
            })
        })
    });
    list.about("controller/delete-volume", "Size Limits");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("DeleteVolume with an id of 128 bytes or more answers OK or INVALID_ARGUMENT");
    list.changes("with-a-long-id", |c| {
        each(LONG, |size| {
            let request = c.delete_request("x".repeat(size));
            c.ok_or(request, &[InvalidArgument])
        })
    });
    list.about("controller/validate", "Size Limits");
    list.needs(&[CONTROLLER_SERVICE]);
    list.rule("ValidateVolumeCapabilities with an id of 128 bytes or more answers NOT_FOUND or INVALID_ARGUMENT");
    list.reads("with-a-long-id", |c| {
        c.demands_of(VALIDATE_UNKNOWN, || {
            each(LONG, |size| {
                let request = c.validate_id("x".repeat(size))?;
                c.refused(request, &[NotFound, InvalidArgument])
            })
        })
    });
    list.about("controller/create-volume", "Size Limits");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("CreateVolume with a name of more than 128 bytes is refused, or makes a volume of its own for it");
    list.changes("with-a-name-that-is-too-long", |c| {
        let name = c.name();
        let mut ids = Vec::new();
        for end in ["1", "2"] {
            let name = format!("{name}{}{end}", "x".repeat(300));
            match c.send(c.create_request()?.named(name))? {
                Ok(reply) => ids.push(reply.volume.unwrap_or_default().volume_id),
                Err(status) => same_code(&status, &[InvalidArgument], "OK or INVALID_ARGUMENT")?,
            }
        }
        ids.dedup();
        let actual = list_text(&ids);
        ensure(ids.len() != 1, "two names are two volumes, or none", actual)
    });
    list.rule("CreateVolume with more than 4 KiB of parameters answers INVALID_ARGUMENT, or OK");
    list.changes("with-large-parameters", |c| {
        let mut request = c.create_request()?;
        request.parameters.extend(large());
        // A plugin may take more than the specification lets a caller send.
        c.ok_or(request, &[InvalidArgument])
    });
    list.about("controller/validate", "Size Limits");
    list.needs(&[CONTROLLER_SERVICE, ANY_VOLUME]);
    list.rule("ValidateVolumeCapabilities with more than 4 KiB of volume_context does not fail but by INVALID_ARGUMENT or NOT_FOUND");
    list.reads("with-a-large-context", |c| {
        let mut request = c.validate_id(c.any_volume()?.volume_id)?;
        request.volume_context = large();
        c.ok_or(request, &[InvalidArgument, NotFound])
    });
    list.about("node/publish", "NodePublishVolume");
    list.needs(&[NODE_SERVICE, CREATE_DELETE_VOLUME]);
    list.rule("NodePublishVolume takes a target path of 128 bytes, and should take one as long as the operating system allows");
    list.changes("with-a-path-of-128-bytes", |c| {
        let mut placed = c.staged()?;
        each([128, 300], |bytes: usize| {
            let folder = c.target()?;
            let fill = bytes.saturating_sub(folder.len() + "-/target".len());
            let folder = format!("{folder}-{}", "x".repeat(fill));
            c.folder(std::path::Path::new(&folder))?;
            placed.target = format!("{folder}/target");
            let (size, answer) = (placed.target.len(), c.send(placed.publish())?);
            let actual = answer_text(&answer);
            if answer.is_ok() {
                return c.ok(placed.unpublish()).map(drop);
            }
            let expected = format!("a target path of {size} bytes is taken");
            c.should(false, &*expected, &*actual);
            ensure(size > 128, expected, actual)
        })
    });
}

/// Ids that a driver must not take for paths, or for anything but ids of volumes that do not exist.
fn hostile_ids(id: &str) -> Vec<String> {
    let plain = ["/", "..", "../../../etc/passwd", "/etc"];
    let of_id = [
        format!("{id}/.."),
        format!("{id}/"),
        format!("./{id}"),
        format!("{id}/../{id}"),
        format!("{id}\0"),
        format!("{id}\n"),
    ];
    let special = [" ", "*", "$(id)", "'; --", "%s%n", "\u{202e}\u{feff}"];
    let plain = plain.map(str::to_owned).into_iter();
    plain
        .chain(of_id)
        .chain(special.map(str::to_owned))
        .collect()
}

fn large() -> BTreeMap<String, String> {
    let entries = (0..64).map(|number| (format!("csi-sanity-{number}"), "x".repeat(80)));
    entries.collect()
}
