//! CreateVolume without a source: what it requires, the size it gives, and that a name stands for one volume.

use super::get_volume::same_size;
use crate::vocabulary::*;

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
    list.also(EACH_ACCESS).changes("without-capacity", |c| {
        let mut request = c.create_request()?;
        request.capacity_range = None;
        c.ok(request)
    });
    list.rule("The volume has at least required_bytes, or a size that is not known");
    list.also(EACH_ACCESS);
    list.changes("has-required-bytes", |c| {
        // That the size lies in the range is a rule of the message.
        let size = c.volume()?.volume.capacity_bytes;
        let expected = "capacity_bytes is not negative";
        ensure(size >= 0, expected, size.to_string())
    });
    list.rule("The volume of a range of one size has that size, or the range is refused with OUT_OF_RANGE");
    list.changes("has-exactly-the-size", |c| {
        let size = c.size();
        c.ok_or(c.create_sized(size, size)?, &[OutOfRange])
    });
    list.rule("The volume is not larger than limit_bytes, also when nothing is required");
    list.changes("keeps-limit-bytes", |c| {
        let limit = c.size();
        c.ok_or(c.create_sized(0, limit)?, &[OutOfRange])
    });
    list.rule("The volume of a size that is no multiple of anything is not smaller than that, and not larger where that is the limit");
    list.changes("of-an-odd-size", |c| {
        let odd = c.size() + 1 + i64::try_from(c.random(4095)).unwrap_or(0);
        each([0, odd], |limit| {
            c.ok_or(c.create_sized(odd, limit)?, &[OutOfRange])
        })
    });
    list.error("CreateVolume of a size that no storage has answers OUT_OF_RANGE, unless the plugin knows no limit");
    list.changes("of-an-impossible-size", |c| {
        // Thin storage has no size; storage that is full says so.
        let codes = [OutOfRange, ResourceExhausted, InvalidArgument];
        c.ok_or(c.create_sized(i64::MAX - (1 << 20), 0)?, &codes)
    });
    list.error("CreateVolume with limit_bytes below required_bytes is refused");
    list.changes("of-a-reversed-range", |c| {
        let size = c.size();
        let reversed = c.create_sized(2 * size, size)?;
        c.refused(reversed, &[InvalidArgument, OutOfRange])
    });
    // What a caller must not send, a driver should refuse.
    list.error(
        "CreateVolume with a negative size should be refused, for the field must not be negative",
    );
    list.changes("of-a-negative-size", |c| {
        each([(-1, 0), (0, -1)], |(required, limit)| {
            let negative = c.create_sized(required, limit)?;
            let expected = "INVALID_ARGUMENT or OUT_OF_RANGE";
            c.should_refuse(negative, &[InvalidArgument, OutOfRange], expected)
        })
    });
    list.rule(
        "CreateVolume with the name and arguments of a volume that exists answers with that volume",
    );
    list.also(EACH_ACCESS).changes("is-idempotent", |c| {
        let volume = c.volume()?;
        each(0..2, |_| {
            let again = c.made(&volume.request)?;
            same_id("volume", &volume.id(), &again.volume_id)?;
            same_size(volume.volume.capacity_bytes, again.capacity_bytes)
        })
    });
    list.error("CreateVolume with the name of a volume whose size is not in the new range answers ALREADY_EXISTS");
    list.changes("with-another-size", |c| {
        let size = c.size();
        let mut request = c.create_sized(size, size)?;
        let reason = "the driver has no volume of exactly that size";
        let volume = c.volume_or_skip(request.clone(), &[OutOfRange], reason)?;
        // A size that is not known lies in any range.
        let told = volume.volume.capacity_bytes != 0;
        skip_unless(told, "the driver does not tell sizes")?;
        request.capacity_range = range(2 * size, 2 * size);
        c.refused(request.clone(), &[AlreadyExists])?;
        let less = volume.volume.capacity_bytes / 2;
        skip_unless(less > 0, "there is no smaller size")?;
        request.capacity_range = range(0, less);
        // No volume may be that small.
        c.refused(request, &[AlreadyExists, OutOfRange]).map(drop)
    });
    list.rule("CreateVolume with the name of a volume whose size lies in the new range answers with that volume");
    list.changes("with-a-range-that-fits", |c| {
        let volume = c.volume()?;
        let size = volume.volume.capacity_bytes.max(c.size());
        let mut request = volume.request.clone();
        request.capacity_range = range(1, size);
        let Some(again) = c.volume_or(request, &[AlreadyExists])? else {
            // The size of a volume that the driver does not tell may lie beyond.
            let fits = volume.volume.capacity_bytes != 0;
            skip_unless(fits, "the driver does not tell sizes")?;
            let expected = "a volume that is compatible with the request is answered again";
            return Err(Stop::failed(expected, "it answered ALREADY_EXISTS"));
        };
        same_id("volume", &volume.id(), &again.id())
    });
    list.rule(
        "A volume that is created with several capabilities can be used in each of those ways",
    );
    list.changes("with-two-capabilities", |c| {
        let mut request = c.create_request()?;
        let mut second = c.capability()?;
        let mode = Mode::SingleNodeReaderOnly.into();
        second.access_mode = Some(AccessMode { mode });
        request.volume_capabilities.push(second);
        let reason = "the driver does not support these two together";
        let volume = c.volume_or_skip(request, &[InvalidArgument], reason)?;
        let reply = c.ok(c.validate_request(&volume))?;
        let confirmed = reply.confirmed.is_some();
        c.demands_of(
            "controller/validate/confirms-what-it-was-created-with",
            || ensure(confirmed, "both capabilities are confirmed", reply.message),
        )
    });
    list.error("CreateVolume with an access mode that does not exist is refused");
    list.changes("with-an-unknown-access-mode", |c| {
        c.refused(c.create_for_mode(99)?, &[InvalidArgument])
    });
    list.rule("The volume context is the same in every answer about a volume");
    list.changes("context-is-constant", |c| {
        let volume = c.volume()?;
        let context = pairs_text(&volume.volume.volume_context);
        let again = pairs_text(&c.made(&volume.request)?.volume_context);
        same("the volume context of the first answer,", &context, &again)
    });
    list.rule("Only a plugin that advertises VOLUME_ACCESSIBILITY_CONSTRAINTS answers with an accessible_topology");
    list.changes("topology-is-advertised", |c| {
        let volume = c.volume()?.volume;
        let has = !volume.accessible_topology.is_empty();
        let kept = !has || c.has(TOPOLOGY);
        ensure(kept, "no accessible_topology", "the volume has one")
    });
    list.rule("A volume whose requisite topology is that of the node can be reached from there");
    list.under("TopologyRequirement").also(&[TOPOLOGY]);
    list.changes("in-the-place-of-the-node", |c| {
        // That one of the volume's places is a requisite one is a rule of the message.
        let found = c.volume()?.volume.accessible_topology;
        let node = c.node_topology().segments;
        let reaches = |one: &v1::Topology| {
            let mut segments = one.segments.iter();
            segments.all(|(key, value)| node.get(key).is_none_or(|other| other == value))
        };
        let reached = found.is_empty() || found.iter().any(reaches);
        let places: Vec<_> = found.iter().map(|one| pairs_text(&one.segments)).collect();
        let (places, node) = (places.join(" or "), pairs_text(&node));
        let actual = format!("it is in {places}, and the node in {node}");
        c.demands_of("replies/create-volume", || {
            ensure(reached, "a place that the node is in", actual)
        })
    });
    list.error("CreateVolume that requires a topology which the plugin does not have is refused");
    list.also(&[TOPOLOGY]);
    list.changes("in-a-place-that-does-not-exist", |c| {
        let mut place = c.node_topology();
        let has_place = !place.segments.is_empty();
        skip_unless(has_place, "the node has no accessible_topology")?;
        for value in place.segments.values_mut() {
            "csi-sanity-nowhere".clone_into(value);
        }
        let mut request = c.create_request()?;
        request.accessibility_requirements = Some(v1::TopologyRequirement {
            requisite: vec![place],
            preferred: Vec::new(),
        });
        c.refused(request, &[ResourceExhausted, InvalidArgument])
    });
    list.error("CreateVolume with a volume_content_source that names neither a snapshot nor a volume is refused");
    list.changes("with-a-source-of-no-type", |c| {
        let mut request = c.create_request()?;
        request.volume_content_source = Some(v1::VolumeContentSource { r#type: None });
        c.refused(request, &[InvalidArgument])
    });
    list.error("CreateVolume from a kind of source that the plugin does not advertise should be refused, and makes no volume without the source");
    list.changes("from-a-source-that-is-not-advertised", |c| {
        let volume = c.volume()?;
        let mut none = v1::Snapshot::default();
        "csi-sanity-no-snapshot".clone_into(&mut none.snapshot_id);
        let codes = [InvalidArgument, NotFound, Unimplemented];
        let (restores, clones) = (c.has(CREATE_DELETE_SNAPSHOT), c.has(CLONE_VOLUME));
        let both = restores && clones;
        skip_unless(!both, "both kinds of sources are advertised")?;
        if !restores {
            c.refused(c.restore(&none)?, &codes)?;
        }
        let clone = c.clone_of(&volume)?;
        let source = clone.volume_content_source.clone();
        if !clones && let Some(reply) = c.ok_or(clone, &codes)? {
            // Where nothing says that it is a clone, it may be empty.
            let told = reply.volume.unwrap_or_default().content_source == source;
            let refused = "CreateVolume is refused";
            let named = format!("{refused}, or names the source");
            ensure(told, named, "it answered OK without that content_source")?;
            c.should(false, refused, "it made a clone");
        }
        Ok(())
    });
}

/// Demands that the CreateVolume of a volume that has changed since still leads to it, or says that this is another one.
pub fn keeps_the_name(c: &Context, volume: &Volume) -> Verdict {
    match c.volume_or(volume.request.clone(), &[AlreadyExists])? {
        Some(again) => same_id("volume", &volume.id(), &again.id()),
        None => Ok(()),
    }
}
