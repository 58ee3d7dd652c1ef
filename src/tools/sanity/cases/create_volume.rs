//! CreateVolume without a source: what it requires, the size it gives, and that a name stands for one volume.

use crate::tools::sanity::vocabulary::*;
use csi_proto::v1::CapacityRange;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/create-volume", "CreateVolume");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("CreateVolume with a capability that has no access type answers INVALID_ARGUMENT");
    list.changes("without-access-type", |c| {
        let mut request = c.create_request()?;
        for capability in &mut request.volume_capabilities {
            capability.access_type = None;
        }
        c.refused(request, &[InvalidArgument])
    });
    list.rule("CreateVolume with a capability that has no access mode answers INVALID_ARGUMENT");
    list.changes("without-access-mode", |c| {
        let mut request = c.create_request()?;
        for capability in &mut request.volume_capabilities {
            capability.access_mode = None;
        }
        c.refused(request, &[InvalidArgument])
    });
    list.rule("CreateVolume without a capacity_range answers with a volume of a size that the plugin chooses");
    list.also(&[EACH_ACCESS]).changes("without-capacity", |c| {
        let mut request = c.create_request()?;
        request.capacity_range = None;
        c.volume_of(request)
    });
    list.rule("The volume has at least required_bytes, or a size that is not known");
    list.also(&[EACH_ACCESS])
        .changes("has-required-bytes", |c| {
            // That the size lies in the range is a rule of the message.
            let volume = c.volume()?;
            let size = volume.volume.capacity_bytes;
            ensure(
                size >= 0,
                "capacity_bytes is not negative",
                size.to_string(),
            )
        });
    list.rule("The volume of a range of one size has that size, or the range is refused with OUT_OF_RANGE");
    list.changes("has-exactly-the-size", |c| {
        let size = c.settings().volume_size;
        let mut request = c.create_request()?;
        request.capacity_range = Some(range(size, size));
        accepted_or(c, request, &[OutOfRange])
    });
    list.rule("The volume is not larger than limit_bytes, also when nothing is required");
    list.changes("keeps-limit-bytes", |c| {
        let mut request = c.create_request()?;
        request.capacity_range = Some(range(0, c.settings().volume_size));
        accepted_or(c, request, &[OutOfRange])
    });
    list.rule("The volume of a size that is no multiple of anything is not smaller than that");
    list.changes("of-an-odd-size", |c| {
        let odd = c.settings().volume_size + 1 + i64::try_from(c.random(4095)).unwrap_or(0);
        let mut request = c.create_request()?;
        request.capacity_range = Some(range(odd, 0));
        accepted_or(c, request, &[OutOfRange])
    });
    list.error_rule("CreateVolume of a size that no storage has answers OUT_OF_RANGE, unless the plugin knows no limit");
    list.changes("of-an-impossible-size", |c| {
        let mut request = c.create_request()?;
        request.capacity_range = Some(range(i64::MAX - (1 << 20), 0));
        // Thin storage has no size; storage that is full says so.
        let codes = [OutOfRange, ResourceExhausted, InvalidArgument];
        accepted_or(c, request, &codes)
    });
    list.error_rule("CreateVolume with limit_bytes below required_bytes is refused");
    list.changes("of-a-reversed-range", |c| {
        let size = c.settings().volume_size;
        let mut request = c.create_request()?;
        request.capacity_range = Some(range(2 * size, size));
        c.refused(request, &[InvalidArgument, OutOfRange])
    });
    list.error_rule(
        "CreateVolume with a negative size is refused, for the field must not be negative",
    );
    list.changes("of-a-negative-size", |c| {
        for (required, limit) in [(-1, 0), (0, -1)] {
            let mut request = c.create_request()?;
            request.capacity_range = Some(range(required, limit));
            c.refused(request, &[InvalidArgument, OutOfRange])?;
        }
        Ok(())
    });
    list.rule(
        "CreateVolume with the name and arguments of a volume that exists answers with that volume",
    );
    list.also(&[EACH_ACCESS]).changes("is-idempotent", |c| {
        let volume = c.volume()?;
        for _ in 0..2 {
            let again = c.ok(volume.request.clone())?.volume.unwrap_or_default();
            same_volume(&volume.volume, &again)?;
        }
        Ok(())
    });
    list.error_rule("CreateVolume with the name of a volume whose size is not in the new range answers ALREADY_EXISTS");
    list.changes("with-another-size", |c| {
        let mut request = c.create_request()?;
        let size = c.settings().volume_size;
        request.capacity_range = Some(range(size, size));
        let Some(volume) = accepted_or(c, request.clone(), &[OutOfRange])? else {
            return Err(Stop::Skipped(
                "the driver has no volume of exactly that size".to_owned(),
            ));
        };
        // A size that is not known lies in any range.
        if volume.capacity_bytes == 0 {
            return Err(Stop::Skipped("the driver does not tell sizes".to_owned()));
        }
        request.capacity_range = Some(range(2 * size, 2 * size));
        c.refused(request, &[AlreadyExists])
    });
    list.rule("CreateVolume with the name of a volume whose size lies in the new range does not make another one");
    list.changes("with-a-range-that-fits", |c| {
        let volume = c.volume()?;
        let size = volume.volume.capacity_bytes.max(c.settings().volume_size);
        let mut request = volume.request.clone();
        request.capacity_range = Some(range(1, size));
        let codes = [AlreadyExists];
        if let Some(again) = accepted_or(c, request, &codes)? {
            same_id("volume", &volume.id(), &again.volume_id)?;
        } else {
            let expected = "a volume that is compatible with the request is answered again";
            c.should(false, expected, "it answered ALREADY_EXISTS");
        }
        Ok(())
    });
    list.rule(
        "A volume that is created with several capabilities can be used in each of those ways",
    );
    list.changes("with-two-capabilities", |c| {
        use v1::volume_capability::access_mode::Mode;
        let mut request = c.create_request()?;
        let mut second = c.capability()?;
        second.access_mode = Some(v1::volume_capability::AccessMode {
            mode: Mode::SingleNodeReaderOnly.into(),
        });
        request.volume_capabilities.push(second);
        let Some(volume) = accepted_or(c, request.clone(), &[InvalidArgument])? else {
            return Err(Stop::Skipped(
                "the driver does not support these two together".to_owned(),
            ));
        };
        let asked = v1::ValidateVolumeCapabilitiesRequest {
            volume_id: volume.volume_id,
            volume_context: volume.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: c.settings().parameters.clone(),
            secrets: c.secrets(),
            ..Default::default()
        };
        let confirmed = c.ok(asked)?;
        ensure(
            confirmed.confirmed.is_some(),
            "both capabilities are confirmed",
            confirmed.message,
        )
    });
    list.error_rule("CreateVolume with an access mode that does not exist is refused");
    list.changes("with-an-unknown-access-mode", |c| {
        let mut request = c.create_request()?;
        for capability in &mut request.volume_capabilities {
            capability.access_mode = Some(v1::volume_capability::AccessMode { mode: 99 });
        }
        c.refused(request, &[InvalidArgument])
    });
    list.rule("The volume context is the same in every answer about a volume");
    list.changes("context-is-constant", |c| {
        let volume = c.volume()?;
        let again = c.ok(volume.request.clone())?.volume.unwrap_or_default();
        let actual = format!("{:?}", again.volume_context);
        let expected = format!(
            "the volume context of the first answer, {:?}",
            volume.volume.volume_context
        );
        ensure(
            again.volume_context == volume.volume.volume_context,
            &expected,
            actual,
        )
    });
    list.rule("Only a plugin that advertises VOLUME_ACCESSIBILITY_CONSTRAINTS answers with an accessible_topology");
    list.changes("topology-is-advertised", |c| {
        let volume = c.volume()?.volume;
        let has = !volume.accessible_topology.is_empty();
        let actual = format!("{:?}", volume.accessible_topology);
        ensure(!has || c.has(TOPOLOGY), "no accessible_topology", actual)
    });
    list.rule("A volume whose requisite topology is that of the node can be reached from there");
    list.under("TopologyRequirement")
        .also(&[TOPOLOGY])
        .changes("in-the-place-of-the-node", |c| {
            // That one of the volume's places is a requisite one is a rule of the message.
            let volume = c.volume()?.volume;
            let place = c
                .driver()
                .node_info
                .accessible_topology
                .clone()
                .unwrap_or_default();
            let reaches = volume.accessible_topology.iter().any(|one| {
                one.segments
                    .iter()
                    .all(|(key, value)| place.segments.get(key).is_none_or(|other| other == value))
            });
            let actual = format!(
                "{:?}, and the node is in {:?}",
                volume.accessible_topology, place.segments
            );
            ensure(
                reaches || volume.accessible_topology.is_empty(),
                "a place that the node is in",
                actual,
            )
        });
    list.error_rule(
        "CreateVolume that requires a topology which the plugin does not have is refused",
    );
    list.also(&[TOPOLOGY])
        .changes("in-a-place-that-does-not-exist", |c| {
            let mut request = c.create_request()?;
            let mut place = c
                .driver()
                .node_info
                .accessible_topology
                .clone()
                .unwrap_or_default();
            if place.segments.is_empty() {
                return Err(Stop::Skipped(
                    "the node has no accessible_topology".to_owned(),
                ));
            }
            for value in place.segments.values_mut() {
                "csi-sanity-nowhere".clone_into(value);
            }
            request.accessibility_requirements = Some(v1::TopologyRequirement {
                requisite: vec![place],
                preferred: Vec::new(),
            });
            c.refused(request, &[ResourceExhausted, InvalidArgument])
        });
    list.error_rule("CreateVolume with a volume_content_source that names neither a snapshot nor a volume is refused");
    list.changes("with-a-source-of-no-type", |c| {
        let mut request = c.create_request()?;
        request.volume_content_source = Some(v1::VolumeContentSource { r#type: None });
        c.refused(request, &[InvalidArgument])
    });
    list.error_rule(
        "CreateVolume from a kind of source that the plugin does not advertise is refused",
    );
    list.changes("from-a-source-that-is-not-advertised", |c| {
        let volume = c.volume()?;
        let sources = [
            (
                CREATE_DELETE_SNAPSHOT,
                of_snapshot("csi-sanity-no-snapshot"),
            ),
            (CLONE_VOLUME, of_volume(&volume.id())),
        ];
        let mut tried = false;
        for (_, source) in sources.into_iter().filter(|(need, _)| !c.has(*need)) {
            tried = true;
            let mut request = c.create_request()?;
            request.volume_content_source = Some(source);
            let codes = [InvalidArgument, NotFound, Unimplemented];
            c.refused(request, &codes)?;
        }
        if !tried {
            return Err(Stop::Skipped(
                "both kinds of sources are advertised".to_owned(),
            ));
        }
        Ok(())
    });
}

/// A range of sizes in bytes.
pub fn range(required: i64, limit: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: required,
        limit_bytes: limit,
    }
}

/// The volume of a request that may also be refused with one of these codes.
pub fn accepted_or(
    c: &Context,
    request: v1::CreateVolumeRequest,
    codes: &[Code],
) -> Result<Option<v1::Volume>, Stop> {
    let reply = c.ok_or(request, codes)?;
    Ok(reply.map(|reply| reply.volume.unwrap_or_default()))
}

/// Demands that the CreateVolume of a volume that has changed since still leads to it, or says that this is another one.
pub fn keeps_the_name(c: &Context, volume: &Volume) -> Verdict {
    match accepted_or(c, volume.request.clone(), &[AlreadyExists])? {
        Some(again) => same_id("volume", &volume.id(), &again.volume_id),
        None => Ok(()),
    }
}

fn same_volume(first: &v1::Volume, again: &v1::Volume) -> Result<(), Stop> {
    let actual = |volume: &v1::Volume| {
        format!(
            "the volume {} of {} bytes",
            volume.volume_id, volume.capacity_bytes
        )
    };
    let same = first.volume_id == again.volume_id && first.capacity_bytes == again.capacity_bytes;
    ensure(same, &actual(first), actual(again))
}

/// A snapshot as a source.
fn of_snapshot(id: &str) -> v1::VolumeContentSource {
    v1::VolumeContentSource {
        r#type: Some(Type::Snapshot(SnapshotSource {
            snapshot_id: id.to_owned(),
        })),
    }
}

/// A volume as a source.
fn of_volume(id: &str) -> v1::VolumeContentSource {
    v1::VolumeContentSource {
        r#type: Some(Type::Volume(VolumeSource {
            volume_id: id.to_owned(),
        })),
    }
}
