//! ValidateVolumeCapabilities.

use crate::tools::sanity::case::{Case, case, ensure};
use crate::tools::sanity::need::needs::{CONTROLLER_SERVICE, CREATE_DELETE_VOLUME, EACH_ACCESS};
use csi_proto::v1;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Reads,
        "controller/validate/of-an-unknown-id",
        "ValidateVolumeCapabilities of a volume that does not exist answers NOT_FOUND",
        "ValidateVolumeCapabilities Errors",
        [CONTROLLER_SERVICE],
        |c| {
            let request = v1::ValidateVolumeCapabilitiesRequest {
                volume_id: c.name(),
                volume_capabilities: vec![c.capability()?],
                secrets: c.secrets(),
                ..Default::default()
            };
            c.refused(request, &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/validate/confirms-what-it-was-created-with",
        "ValidateVolumeCapabilities confirms the capabilities, context and parameters that the volume was created with",
        "ValidateVolumeCapabilities",
        [CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            let volume = c.volume()?;
            let reply = c.ok(c.validate_request(&volume))?;
            ensure(reply.confirmed.is_some(), "confirmed is set", reply.message)?;
        }
    ),
    case!(
        Changes,
        "controller/validate/does-not-confirm-what-is-not-supported",
        "ValidateVolumeCapabilities does not confirm an access mode that does not exist",
        "ValidateVolumeCapabilities",
        [CREATE_DELETE_VOLUME],
        |c| {
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
        }
    ),
    case!(
        Changes,
        "controller/validate/is-constant",
        "ValidateVolumeCapabilities answers the same to calls at the same time, or ABORTED to some of them",
        "ValidateVolumeCapabilities",
        [CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let request = c.validate_request(&volume);
            let mut replies = c.equal_calls(&request, 6)?;
            replies.push(c.ok_in_the_end(request)?);
            for reply in replies {
                ensure(reply.confirmed.is_some(), "confirmed is set", reply.message)?;
            }
        }
    ),
];
