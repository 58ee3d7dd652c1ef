//! Checks of requests and replies against the CSI specification, for `--with-spec-validation` and for csc's flags that
//! demand secrets or contexts.
//!
//! Owns what is checked when, and the list of what is wrong. What holds for every message is in `walk`, the rules of
//! single messages in `messages`, those of a single RPC beside its block. Rules that depend on what a driver says it can do
//! (its capabilities) are not checked: one message does not tell. Nothing is printed here.

pub mod exchange;
mod messages;
pub mod rule;
pub mod syntax;
mod view;
mod walk;

pub use view::Violations;

use super::facts::Given;
use csi_proto::Method;
use exchange::{Exchange, Stream};
use view::{Broken, MessageView};

/// The checks that a command line asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks {
    /// The rules of the specification.
    pub spec: bool,
    /// Requests that can carry secrets do.
    pub credentials: bool,
    /// Requests that can carry a volume context do, and so does the volume that CreateVolume answers with.
    pub volume_context: bool,
    /// Requests that can carry a publish context do, and so does the answer of ControllerPublishVolume.
    pub publish_context: bool,
}

/// Checks a request's `bytes`.
pub fn request(method: &'static Method, bytes: &[u8], checks: &Checks) -> Result<(), Violations> {
    let mut found = Broken::default();
    let message = method.request;
    if checks.spec {
        let rules = super::find(method).map_or(&[][..], |rpc| rpc.request_rules);
        walk::message(message, bytes, rules, &mut found);
    }
    let view = MessageView::new(message, bytes);
    let secrets = message.fields.iter().filter(|field| field.secret);
    let secrets = secrets.map(|field| (checks.credentials, field.name));
    let contexts = [
        (checks.volume_context, "volume_context"),
        (checks.publish_context, "publish_context"),
    ];
    for (check, name) in secrets.chain(contexts) {
        // A call whose message has no such field cannot be asked for it.
        if check && message.field(name).is_some() && !view.is_set(name) {
            found.push(name, "required by the checks that were asked for");
        }
    }
    found.into_result(message.short_name())
}

/// Checks the replies of one call; of a stream also what holds from one message to the next.
#[derive(Debug)]
pub struct Replies<'a> {
    method: &'static Method,
    request: &'a [u8],
    checks: Checks,
    stream: Stream,
}

impl<'a> Replies<'a> {
    /// For the replies to `request`.
    pub fn new(method: &'static Method, request: &'a [u8], checks: &Checks) -> Self {
        Self {
            method,
            request,
            checks: *checks,
            stream: Stream::default(),
        }
    }

    /// Checks the `bytes` of the next reply.
    pub fn check(&mut self, bytes: &[u8]) -> Result<(), Violations> {
        let mut found = Broken::default();
        let message = self.method.response;
        let rpc = super::find(self.method);
        let reply = MessageView::new(message, bytes);
        if self.checks.spec {
            let rules = rpc.map_or(&[][..], |rpc| rpc.reply_rules);
            walk::message(message, bytes, rules, &mut found);
            let mut exchange = Exchange {
                request: MessageView::new(self.method.request, self.request),
                reply,
                stream: &mut self.stream,
            };
            for agreement in rpc.map_or(&[][..], |rpc| rpc.agreements) {
                agreement.check(&mut exchange, &mut found);
            }
        }
        let path_of = |given| super::facts(self.method)?.path_of(given);
        let contexts = [
            (self.checks.volume_context, path_of(Given::VolumeContext)),
            (self.checks.publish_context, path_of(Given::PublishContext)),
        ];
        for (check, path) in contexts {
            if let (true, Some(path)) = (check, path)
                && !reply.is_set(path)
            {
                found.push(path, "required by the checks that were asked for");
            }
        }
        found.into_result(message.short_name())
    }
}

#[cfg(test)]
mod tests;
