//! Secrets: accepted wherever the specification allows them, and never shown.

use crate::broken_rules::{ERRORS, SECRETS};
use crate::vocabulary::*;
use csi_proto::lock::lock;
use std::collections::BTreeMap;

pub fn cases(list: &mut Cases) {
    list.about("secrets", "Secrets Requirements");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("A call that is refused does not repeat its secrets");
    list.changes("are-not-in-errors", |c| {
        let (secrets, value) = made_up(c);
        // Refused for what is missing.
        let mut request = c.create_request()?.named(String::new());
        request.secrets.clone_from(&secrets);
        hides(&value, c.send(request)?)?;
        let mut request = c.create_sized(2, 1)?;
        request.secrets.clone_from(&secrets);
        hides(&value, c.send(request)?)?;
        let mut request = c.delete_request("");
        request.secrets.clone_from(&secrets);
        hides(&value, c.send(request)?)?;
        let mut request = c.validate_id(c.name())?;
        request.secrets = secrets;
        hides(&value, c.send(request)?)
    });
    list.needs(&[NODE_SERVICE]);
    list.rule("A call to the node that is refused does not repeat its secrets");
    list.changes("are-not-in-errors-of-the-node", |c| {
        // One place may word the errors of all calls.
        c.depends_on("secrets/are-not-in-errors");
        let (secrets, value) = made_up(c);
        let request = v1::NodePublishVolumeRequest {
            volume_id: c.name(),
            target_path: c.target()?,
            volume_capability: Some(c.capability()?),
            secrets: secrets.clone(),
            ..Default::default()
        };
        hides(&value, c.send(request)?)?;
        let request = v1::NodeStageVolumeRequest {
            volume_id: c.name(),
            staging_target_path: c.staging()?,
            volume_capability: Some(c.capability()?),
            secrets,
            ..Default::default()
        };
        hides(&value, c.send(request)?)
    });
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule(
        "The volume that CreateVolume answers with should not hold the secrets it was created with",
    );
    list.changes("are-not-in-the-volume", |c| {
        let (mut secrets, value) = made_up(c);
        let mut request = c.create_request()?;
        secrets.append(&mut request.secrets);
        request.secrets = secrets;
        match c.send(request)? {
            Ok(reply) => {
                let shown = format!("{reply:?}").contains(&value);
                // The specification says SHOULD NOT.
                c.should(!shown, "the answer holds no secret", SENT);
                Ok(())
            }
            // A driver may know which secrets it takes. The code is another case's rule.
            Err(status) => hides::<()>(&value, Err(status)),
        }
    });
    list.rule(
        "A driver that needs secrets refuses CreateVolume without them, with a code that says so",
    );
    list.changes("are-demanded", |c| {
        let given = !c.secrets().is_empty();
        skip_unless(given, "--secrets-file is not given")?;
        let mut request = c.create_request()?;
        request.secrets.clear();
        let reason = "the driver needs no secrets to create a volume";
        let Err(status) = c.send(request)? else {
            return Err(Stop::skipped(reason));
        };
        let codes = [
            InvalidArgument,
            Unauthenticated,
            PermissionDenied,
            FailedPrecondition,
        ];
        let expected = "UNAUTHENTICATED, PERMISSION_DENIED or INVALID_ARGUMENT";
        same_code(&status, &codes, expected)
    });
    list.needs(&[]);
    list.rule("No error of this run held the value of a secret, and no reply, as is recommended");
    list.last("were-in-no-answer", |c| {
        c.depends_on("secrets/are-not-in-errors");
        c.depends_on("secrets/are-not-in-errors-of-the-node");
        c.depends_on("secrets/are-not-in-the-volume");
        c.no_answer_broke(SECRETS, "no secret in any answer")
    });
    list.about("errors", "Error Scheme");
    list.rule("Every error of this run had a message that a person can read, and no details");
    list.last("have-messages", |c| {
        let refusals = lock(&c.run.seen).refusals;
        skip_unless(refusals > 0, "no call was refused")?;
        c.no_answer_broke(
            ERRORS,
            "every status other than OK has a message and no details",
        )
    });
}

/// The failure of an answer that repeats a secret.
const SENT: &str = "it holds one that was sent";

/// Secrets that nobody has, and the value to look for.
fn made_up(c: &Context) -> (BTreeMap<String, String>, String) {
    let value = format!("made-up-secret-{:016x}", c.random(u64::MAX));
    lock(&c.run.seen).made_up.push(value.clone());
    let secrets = [("csi-sanity-secret".to_owned(), value.clone())];
    (secrets.into(), value)
}

/// Demands that an error does not hold the value of a secret.
fn hides<R>(value: &str, answer: Result<R, tonic::Status>) -> Verdict {
    let shown = answer.is_err_and(|status| status.message().contains(value));
    ensure(!shown, "the error holds no secret", SENT)
}
