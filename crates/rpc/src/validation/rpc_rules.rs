//! The type of the rules beside an RPC's block, and the rules that several RPCs share.

use super::exchange::{self, Agreement};
use super::rule::Rule;
use super::syntax;

/// The rules of an RPC beyond those of all messages and their required fields.
#[derive(Clone, Copy)]
pub struct RpcRules {
    /// The rules of its request.
    pub request: &'static [Rule],
    /// The rules of its reply.
    pub reply: &'static [Rule],
    /// The rules between the two.
    pub exchange: &'static [Agreement],
}

impl RpcRules {
    /// No rules.
    pub const NONE: Self = Self {
        request: &[],
        reply: &[],
        exchange: &[],
    };
}

/// A name that the caller chooses and the driver may use.
pub const SUGGESTED_NAME: Rule = Rule::Text(
    "name",
    syntax::is_suggested_name,
    "has a control character that is not a tab, line feed or carriage return",
);

/// The name of a driver.
pub const PLUGIN_NAME: Rule = Rule::Text(
    "name",
    syntax::is_plugin_name,
    "is not a domain name of at most 63 letters, digits, '-' and '.'",
);

/// A page has no more entries than were asked for.
pub const PAGE: Agreement = Agreement::AtMost("entries", "max_entries");

/// The rules of the ranges of a stream of snapshot metadata.
pub const RANGES: &[Agreement] = &[
    Agreement::AtMost("block_metadata", "max_results"),
    Agreement::Check(exchange::block_metadata),
];
