//! Secrets: accepted wherever the specification allows them, and never shown.

use crate::tools::sanity::run::locked;
use crate::tools::sanity::vocabulary::*;
use std::collections::BTreeMap;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("secrets", "Secrets Requirements");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("A call that is refused does not repeat its secrets");
    list.changes("are-not-in-errors", |c| {
        let (secrets, value) = made_up(c);
        // Refused for what is missing.
        let mut request = c.create_request()?;
        request.secrets.clone_from(&secrets);
        request.name.clear();
        hides(&value, c.send(request)?.err().as_ref())?;
        let mut request = c.create_request()?;
        request.secrets.clone_from(&secrets);
        request.capacity_range = Some(super::create_volume::range(2, 1));
        hides(&value, c.send(request)?.err().as_ref())?;
        let request = v1::DeleteVolumeRequest {
            volume_id: String::new(),
            secrets: secrets.clone(),
        };
        hides(&value, c.send(request)?.err().as_ref())?;
        let request = v1::ValidateVolumeCapabilitiesRequest {
            volume_id: c.name(),
            volume_capabilities: vec![c.capability()?],
            secrets,
            ..Default::default()
        };
        hides(&value, c.send(request)?.err().as_ref())
    });
    list.needs(&[NODE_SERVICE]);
    list.rule("A call to the node that is refused does not repeat its secrets");
    list.changes("are-not-in-errors-of-the-node", |c| {
        let (secrets, value) = made_up(c);
        let request = v1::NodePublishVolumeRequest {
            volume_id: c.name(),
            target_path: c.target()?,
            volume_capability: Some(c.capability()?),
            secrets: secrets.clone(),
            ..Default::default()
        };
        hides(&value, c.send(request)?.err().as_ref())?;
        let request = v1::NodeStageVolumeRequest {
            volume_id: c.name(),
            staging_target_path: c.staging()?,
            volume_capability: Some(c.capability()?),
            secrets,
            ..Default::default()
        };
        hides(&value, c.send(request)?.err().as_ref())
    });
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule(
        "The volume that CreateVolume answers with does not hold the secrets it was created with",
    );
    list.changes("are-not-in-the-volume", |c| {
        let (mut secrets, value) = made_up(c);
        let mut request = c.create_request()?;
        secrets.append(&mut request.secrets);
        request.secrets = secrets;
        match c.send(request)? {
            Ok(reply) => {
                let text = format!("{reply:?}");
                ensure(
                    !text.contains(&value),
                    "the answer holds no secret",
                    "it holds one that was sent",
                )?;
            }
            // A driver may know which secrets it takes.
            Err(status) => {
                hides(&value, Some(&status))?;
                let known = [InvalidArgument, Unauthenticated, PermissionDenied];
                ensure(
                    known.contains(&status.code()),
                    "OK or INVALID_ARGUMENT",
                    status_text(&status),
                )?;
            }
        }
        Ok(())
    });
    list.rule(
        "A driver that needs secrets refuses CreateVolume without them, with a code that says so",
    );
    list.changes("are-demanded", |c| {
        if c.secrets().is_empty() {
            return Err(Stop::Skipped("--secrets-file is not given".to_owned()));
        }
        let mut request = c.create_request()?;
        request.secrets.clear();
        match c.send(request)? {
            Ok(_) => {
                return Err(Stop::Skipped(
                    "the driver needs no secrets to create a volume".to_owned(),
                ));
            }
            Err(status) => {
                let known = [
                    InvalidArgument,
                    Unauthenticated,
                    PermissionDenied,
                    FailedPrecondition,
                ];
                let actual = status_text(&status);
                ensure(
                    known.contains(&status.code()),
                    "UNAUTHENTICATED, PERMISSION_DENIED or INVALID_ARGUMENT",
                    actual,
                )?;
            }
        }
        Ok(())
    });
    list.needs(&[]);
    list.rule("No answer to any call of this run held the value of a secret");
    list.last("were-in-no-answer", |c| {
        let seen = locked(&c.run.seen);
        let found: Vec<_> = seen.secrets.iter().cloned().collect();
        ensure(
            found.is_empty(),
            "no secret in any answer",
            found.join(", "),
        )
    });
    list.about("errors", "Error Scheme");
    list.needs(&[]);
    list.rule("Every error of this run had a message that a person can read");
    list.last("have-messages", |c| {
        let seen = locked(&c.run.seen);
        if seen.refusals == 0 {
            return Err(Stop::Skipped("no call was refused".to_owned()));
        }
        let found: Vec<_> = seen.silent.iter().cloned().collect();
        ensure(
            found.is_empty(),
            "every status other than OK has a message",
            found.join(", "),
        )
    });
}

/// Secrets that nobody has, and the value to look for.
fn made_up(c: &Context) -> (BTreeMap<String, String>, String) {
    let value = format!("made-up-secret-{:016x}", c.random(u64::MAX));
    locked(&c.run.seen).made_up.push(value.clone());
    (
        [("csi-sanity-secret".to_owned(), value.clone())].into(),
        value,
    )
}

fn hides(value: &str, refused: Option<&tonic::Status>) -> Result<(), Stop> {
    let shown = refused.is_some_and(|status| status.message().contains(value));
    ensure(
        !shown,
        "the error holds no secret",
        "it holds one that was sent",
    )
}
