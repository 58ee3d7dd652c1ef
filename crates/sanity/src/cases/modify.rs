//! ControllerModifyVolume.

use super::create_volume::keeps_the_name;
use crate::vocabulary::*;
use std::collections::BTreeMap;

pub fn cases(list: &mut Cases) {
    list.about("controller/modify", "ControllerModifyVolume");
    list.needs(&[MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE_PARAMETERS]);
    list.error("ControllerModifyVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.deleted_volume()?;
        c.refused(modify(c, &gone.id(), mutable(c)), &[NotFound])
    });
    list.needs(&[MODIFY_VOLUME, CREATE_DELETE_VOLUME]);
    // A driver may take any parameter: which ones it supports is its own business.
    list.error("ControllerModifyVolume with a parameter that the plugin does not support answers INVALID_ARGUMENT");
    list.changes("with-an-unknown-parameter", |c| {
        let unknown = [("csi-sanity-no-such-parameter".to_owned(), "1".to_owned())];
        let request = modify(c, &c.volume()?.id(), unknown.into());
        let expected = "INVALID_ARGUMENT for a parameter that nobody knows";
        c.should_refuse(request, &[InvalidArgument], expected)
    });
    list.needs(&[MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE_PARAMETERS]);
    list.rule("ControllerModifyVolume answers OK, and OK again with the same parameters");
    list.changes("is-idempotent", |c| {
        let volume = c.volume()?;
        each(0..2, |_| c.ok(modify(c, &volume.id(), mutable(c))))
    });
    list.rule("CreateVolume takes the mutable parameters, and answers with the same volume again");
    list.under("CreateVolume").changes("when-created", |c| {
        let mut request = c.create_request()?;
        request.mutable_parameters = mutable(c);
        c.is_made_again(&c.volume_of(request)?)
    });
    list.rule(
        "After a modification the CreateVolume that made the volume does not make another one",
    );
    list.under("CreateVolume").changes("keeps-the-name", |c| {
        let volume = c.volume()?;
        c.ok(modify(c, &volume.id(), mutable(c)))?;
        keeps_the_name(c, &volume)
    });
    list.rule(
        "ControllerModifyVolume answers equal calls at the same time with OK, or some with ABORTED",
    );
    list.under("Concurrency").changes("at-the-same-time", |c| {
        c.equal_calls(modify(c, &c.volume()?.id(), mutable(c)), 6)
    });
}

/// ControllerModifyVolume.
pub fn modify(
    c: &Context,
    id: &str,
    parameters: BTreeMap<String, String>,
) -> v1::ControllerModifyVolumeRequest {
    v1::ControllerModifyVolumeRequest {
        volume_id: id.to_owned(),
        secrets: c.secrets(),
        mutable_parameters: parameters,
    }
}

/// The mutable parameters of the settings, or one that no driver knows.
pub fn mutable(c: &Context) -> BTreeMap<String, String> {
    let given = c.settings().mutable_parameters.clone();
    match given.is_empty() {
        false => given,
        true => [("csi-sanity".to_owned(), "1".to_owned())].into(),
    }
}
