//! Collects the rules for messages that replies break, for the cases that judge them at the end of a run: each rule once,
//! with the first reply that broke it. The case that got the reply goes on. Where that case fails, its own report
//! covers these replies, and they are not judged again.
//!
//! The rules themselves are in `rpc::validation`.

use super::broken_rules::BrokenRule;
use super::context::Context;
use super::dependencies::Subject;
use super::verdict::{Stop, Verdict, ensure, unjudged_unless};
use bytes::Bytes;
use csi_proto::lock::lock;
use csi_proto::path::contents;
use csi_proto::schema::Method;
use csi_rpc::validation::{self, Checks, Replies};
use std::time::Instant;

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
    method.request.field("volume_content_source")?;
    let is_asked = !contents(method.request, request, "volume_content_source").is_empty();
    let is_told = !contents(method.response, reply, SOURCE).is_empty();
    match (is_asked, is_told) {
        (true, false) => Some("is not set, though the request has a volume_content_source"),
        (false, true) => Some("is set, though the request has no volume_content_source"),
        _ => None,
    }
}

/// Whether a case judges the replies of all cases to an RPC.
fn is_about_replies(one: &Subject) -> bool {
    one.name.starts_with("replies/")
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
        lock(&self.broken_rules).checked(method);
        for reply in replies {
            if let Err(found) = rules.check(reply) {
                for one in found.iter() {
                    self.breaks(
                        method.name,
                        one.at.clone(),
                        one.rule.clone(),
                        one.is_default,
                    );
                }
            }
            if let Some(rule) = unexpected_source(method, request, reply) {
                self.breaks(method.name, SOURCE.to_owned(), rule.to_owned(), true);
            }
        }
    }

    /// Notes a rule that the last answer broke.
    pub(super) fn breaks(&self, about: &'static str, at: String, rule: String, may_be_right: bool) {
        let broken = BrokenRule {
            at,
            rule,
            may_be_right,
            case: self.case.clone(),
            found: Instant::now(),
            steps: lock(&self.steps).all().len(),
            commands: Vec::new(),
        };
        lock(&self.broken_rules).note(about, broken);
    }

    /// Demands that no answer of the run broke a rule about all of them.
    pub fn no_answer_broke(&self, about: &str, expected: &str) -> Verdict {
        self.none_broken(lock(&self.run.broken_rules).about(about), expected)
    }

    /// Demands that no two things of the run had one id, while the driver was there.
    pub fn no_id_was_given_twice(&self, about: &str) -> Verdict {
        let mut broken = lock(&self.run.broken_rules).about(about);
        let ids = lock(&self.run.given_ids);
        broken.retain(|one| ids.holds(one.found));
        drop(ids);
        self.none_broken(broken, "an id of its own for each name")
    }

    fn none_broken(&self, broken: Vec<BrokenRule>, expected: &str) -> Verdict {
        let (unwanted, wrong): (Vec<_>, Vec<_>) = broken.iter().partition(|one| one.may_be_right);
        let words = |rules: &[&BrokenRule]| {
            let words = rules.iter().map(|one| one.words());
            Vec::from_iter(words).join(", ")
        };
        let (unwanted, wrong) = (words(&unwanted), words(&wrong));
        let commands = broken.into_iter().flat_map(|one| one.commands);
        commands.for_each(|line| self.did(line));
        self.should(unwanted.is_empty(), expected, unwanted);
        ensure(wrong.is_empty(), expected, wrong)
    }

    /// Skips the case where nothing can be said of the replies of an RPC.
    pub fn has_replied(&self, method: &Method) -> Verdict {
        let none = format!("no call of {} was answered with a reply", method.name);
        // Those of cases that fail are left to them.
        let all = self.run.subjects.iter();
        let about = all.filter(|one| one.section == method.name && !is_about_replies(one));
        let were_checked = lock(&self.run.broken_rules).were_checked(method);
        unjudged_unless(were_checked, about.map(|one| one.name), &none)
    }

    /// The case that judges the replies of an RPC.
    fn judge_of(&self, method: &Method) -> Option<&'static str> {
        let mut all = self.run.subjects.iter().filter(|one| is_about_replies(one));
        let judge = all.find(|one| one.section == method.name)?;
        Some(judge.name)
    }

    /// What keeps a case from going on with a reply, where the case about the replies of the RPC judges that.
    pub(super) fn cannot_use(
        &self,
        method: &Method,
        expected: &str,
        actual: impl ToString,
    ) -> Stop {
        if let Some(judge) = self.judge_of(method) {
            self.depends_on(judge);
        }
        Stop::failed(expected, actual.to_string())
    }

    /// Demands that no reply of an RPC broke a rule.
    pub fn keeps_reply_rules(&self, method: &Method) -> Verdict {
        self.has_replied(method)?;
        let all = lock(&self.run.broken_rules);
        let expected = format!(
            "every {} keeps the specification's rules",
            method.response.short_name()
        );
        let mut wrong = Vec::new();
        let mut before = Vec::new();
        for rule in all.about(method.name) {
            before.push(all.broken_before(method, &rule));
            let said = format!("{} (in {})", rule.words(), rule.case);
            rule.commands.into_iter().for_each(|line| self.did(line));
            match rule.may_be_right {
                true => self.should(false, &expected, said),
                false => wrong.push(said),
            }
        }
        // Where the replies of another RPC broke all of them, its own case says so.
        if let Some(all) = before.into_iter().collect::<Option<Vec<_>>>() {
            let judges = all.into_iter().filter_map(|one| self.judge_of(one));
            judges.for_each(|one| self.depends_on(one));
        }
        ensure(wrong.is_empty(), expected, wrong.join("; "))
    }
}
