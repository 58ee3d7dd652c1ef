//! Collects the rules for messages that replies break, for the cases that judge them at the end of a run: each rule once,
//! with the first reply that broke it. The case that got the reply goes on. Where that case fails, its own report
//! covers these replies, and they are not judged again.
//!
//! The rules themselves are in `rpc::validation`.

use super::broken_rules::BrokenRule;
use super::context::Context;
use super::verdict::{Stop, Verdict};
use crate::rpc::validation::{self, Checks, Replies, Violation, Violations};
use bytes::Bytes;
use csi_proto::lock::lock;
use csi_proto::path::contents;
use csi_proto::schema::Method;

/// The case that judges the replies of an RPC.
fn case_of(method: &Method) -> &'static str {
    let is_it = |name: &str| name.strip_prefix("replies/") == Some(method.kebab_name);
    let found = super::cases().find(|case| is_it(&case.name));
    found.map_or("", |case| &case.name)
}

/// The rules of the specification, and no more.
const SPEC: Checks = Checks {
    spec: true,
    credentials: false,
    volume_context: false,
    publish_context: false,
};

/// The source of a volume in the reply of CreateVolume.
const SOURCE: &str = "volume.content_source";

/// What a caller such as Kubernetes does not expect of the source in a reply. No sentence forbids it: the field is optional, and
/// a repetition may leave the source out.
fn unexpected_source(method: &Method, request: &[u8], reply: &[u8]) -> Option<&'static str> {
    let is_asked = !contents(method.request, request, "volume_content_source").is_empty();
    let is_told = !contents(method.response, reply, SOURCE).is_empty();
    match (is_asked, is_told) {
        (true, false) => Some("is not set, though the request has a volume_content_source"),
        (false, true) => Some("is set, though the request has no volume_content_source"),
        _ => None,
    }
}

impl Context {
    /// Checks the replies to a request. One that is wrong itself may be answered with anything.
    pub(super) fn check_replies(
        &self,
        method: &'static Method,
        request: &Bytes,
        replies: &[Bytes],
    ) {
        if validation::request(method, request, &SPEC).is_err() {
            return;
        }
        let mut rules = Replies::new(method, request, &SPEC);
        let found: Vec<_> = replies
            .iter()
            .filter_map(|reply| rules.check(reply).err())
            .collect();
        let mut broken = lock(&self.broken_rules);
        broken.checked(method);
        let evidence = |at: &str, rule: String, may_be_right| BrokenRule {
            at: at.to_owned(),
            rule,
            may_be_right,
            case: self.case.clone(),
            steps: lock(&self.steps).all().len(),
            commands: Vec::new(),
        };
        for Violation {
            at,
            rule,
            is_default,
        } in found.iter().flat_map(Violations::iter)
        {
            broken.note(method, at, || evidence(at, rule.clone(), *is_default));
        }
        let told = replies
            .iter()
            .filter_map(|reply| unexpected_source(method, request, reply));
        for rule in told {
            broken.note(method, SOURCE, || evidence(SOURCE, rule.to_owned(), true));
        }
    }

    /// Demands that no reply of an RPC broke a rule.
    ///
    /// # Errors
    /// When one did.
    pub fn keeps_reply_rules(&self, method: &Method) -> Verdict {
        let broken = lock(&self.run.broken_rules).of(method);
        let none = format!("no call of {} was answered with a reply", method.name);
        let broken = broken.ok_or_else(|| Stop::skipped(none))?;
        let expected = format!(
            "every {} keeps the specification's rules",
            method.response.short_name()
        );
        let mut wrong = Vec::new();
        let mut before = Vec::new();
        for rule in broken {
            before.push(lock(&self.run.broken_rules).broken_before(method, &rule));
            let said = format!("{} (in {})", rule.words(), rule.case);
            rule.commands.into_iter().for_each(|line| self.did(line));
            match rule.may_be_right {
                true => self.should(false, &expected, said),
                false => wrong.push(said),
            }
        }
        // Where the replies of another RPC broke all of them, its own case says so.
        if let Some(all) = before.into_iter().collect::<Option<Vec<_>>>() {
            all.into_iter().for_each(|one| self.rests_on(case_of(one)));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Stop::failed(expected, wrong.join("; "))),
        }
    }
}
