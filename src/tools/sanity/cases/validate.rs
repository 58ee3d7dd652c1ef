//! ValidateVolumeCapabilities.

use crate::tools::sanity::vocabulary::*;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/validate", "ValidateVolumeCapabilities");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.needs(&[CONTROLLER_SERVICE]);
    list.error_rule("ValidateVolumeCapabilities of a volume that does not exist answers NOT_FOUND");
    list.reads("of-an-unknown-id", |c| {
        let request = v1::ValidateVolumeCapabilitiesRequest {
            volume_id: c.name(),
            volume_capabilities: vec![c.capability()?],
            secrets: c.secrets(),
            ..Default::default()
        };
        c.refused(request, &[NotFound])
    });
    list.needs(&[CREATE_DELETE_VOLUME, EACH_ACCESS]);
    list.rule("ValidateVolumeCapabilities confirms the capabilities, context and parameters that the volume was created with");
    list.changes("confirms-what-it-was-created-with", |c| {
        let volume = c.volume()?;
        let reply = c.ok(c.validate_request(&volume))?;
        ensure(reply.confirmed.is_some(), "confirmed is set", reply.message)
    });
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("ValidateVolumeCapabilities does not confirm an access mode that does not exist");
    list.changes("does-not-confirm-what-is-not-supported", |c| {
        let volume = c.volume()?;
        let mut request = c.validate_request(&volume);
        for capability in &mut request.volume_capabilities {
            capability.access_mode = Some(v1::volume_capability::AccessMode { mode: 99 });
        }
        if let Ok(reply) = c.send(request)? {
            let actual = format!("{:?}", reply.confirmed);
            ensure(reply.confirmed.is_none(), "confirmed is not set", actual)?;
            c.should(
                !reply.message.is_empty(),
                "the message says why not",
                "it is empty",
            );
        }
        Ok(())
    });
    list.rule("ValidateVolumeCapabilities answers the same to calls at the same time, or ABORTED to some of them");
    list.changes("is-constant", |c| {
        let volume = c.volume()?;
        let request = c.validate_request(&volume);
        let mut replies = c.equal_calls(&request, 6)?;
        replies.push(c.ok_in_the_end(request)?);
        for reply in replies {
            ensure(reply.confirmed.is_some(), "confirmed is set", reply.message)?;
        }
        Ok(())
    });
}
