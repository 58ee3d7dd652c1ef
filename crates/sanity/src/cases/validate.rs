//! ValidateVolumeCapabilities.

use crate::vocabulary::*;

pub fn cases(list: &mut Cases) {
    list.about("controller/validate", "ValidateVolumeCapabilities");
    list.needs(&[CONTROLLER_SERVICE]);
    list.error("ValidateVolumeCapabilities of a volume that does not exist answers NOT_FOUND");
    list.reads("of-an-unknown-id", |c| {
        c.best_not_found(c.validate_id(c.name())?)
    });
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("ValidateVolumeCapabilities confirms the capabilities, context and parameters that the volume was created with");
    list.also(EACH_ACCESS);
    list.changes("confirms-what-it-was-created-with", |c| {
        let reply = c.ok(c.validate_request(&c.volume()?))?;
        ensure(reply.confirmed.is_some(), "confirmed is set", reply.message)
    });
    list.rule("ValidateVolumeCapabilities does not confirm an access mode that does not exist");
    list.changes("does-not-confirm-what-is-not-supported", |c| {
        let mut request = c.validate_request(&c.volume()?);
        request.volume_capabilities = c.create_for_mode(99)?.volume_capabilities;
        if let Ok(reply) = c.send(request)? {
            let refuses = reply.confirmed.is_none();
            ensure(
                refuses,
                "confirmed is not set",
                "the capability is confirmed",
            )?;
            let explained = !reply.message.is_empty();
            c.should(explained, "the message says why not", "it is empty");
        }
        Ok(())
    });
    list.rule("ValidateVolumeCapabilities answers the same to calls at the same time, or ABORTED to some of them");
    list.changes("is-constant", |c| {
        let request = c.validate_request(&c.volume()?);
        let replies = c.equal_calls(request, 6)?;
        c.demands_of(
            "controller/validate/confirms-what-it-was-created-with",
            || {
                each(replies, |reply| {
                    ensure(reply.confirmed.is_some(), "confirmed is set", reply.message)
                })
            },
        )
    });
}
