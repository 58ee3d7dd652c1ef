//! The kinds of rules that one message must satisfy, and how each is checked; the rules beside an RPC's block, and those that several
//! RPCs share.

use super::exchange::{self, Agreement};
use super::syntax;
use super::view::{Broken, MessageView, inside, is_specified, quoted};
use csi_proto::value::Value;

/// A rule about one message.
#[derive(Clone, Copy)]
pub enum Rule {
    /// The field is specified; a list or map has an element, a list of ids no empty id, a number is not 0.
    Required(&'static str),
    /// The field's text, when it is not empty, satisfies the function; the last text describes the violation.
    Text(&'static str, fn(&str) -> bool, &'static str),
    /// Whatever concerns several fields. The function gets the message, its path, and where to put violations.
    Check(fn(&MessageView<'_>, &str, &mut Broken)),
}

/// Spec, "Size Limits": a map. `mount_flags` as a whole has the same limit.
pub(crate) const MAP_LIMIT: usize = 4096;

impl Rule {
    /// Notes in `found` what the message at the path `at` breaks.
    pub fn check(self, view: &MessageView<'_>, at: &str, found: &mut Broken) {
        match self {
            Self::Required(name) => match view.read(name) {
                Value::Int32(0) | Value::Int64(0) => {
                    found.push_default(inside(at, name), "required, greater than 0");
                }
                Value::List(list) => {
                    if list.is_empty() {
                        found.push(inside(at, name), "required, at least one");
                    }
                    for (index, value) in list.iter().enumerate() {
                        if !is_specified(value) {
                            found.push(format!("{}[{index}]", inside(at, name)), "is empty");
                        }
                    }
                }
                value if is_specified(&value) => {}
                // Ids and names must not be empty. Of other scalars the specification says that they have a default.
                Value::Text(_) | Value::Enum(..) if name != "name" && !name.ends_with("_id") => {
                    found.push_default(inside(at, name), "required");
                }
                _ => found.push(inside(at, name), "required"),
            },
            Self::Text(name, is_valid, rule) => {
                let text = view.text(name);
                if !text.is_empty() && !is_valid(&text) {
                    found.push(inside(at, name), format!("{} {rule}", quoted(&text)));
                }
            }
            Self::Check(check) => check(view, at, found),
        }
    }
}

/// Checks that `mount_flags`, a list with a limit on its total, keeps to it. The flags may be confidential.
pub(crate) fn mount_flags_size(view: &MessageView<'_>, at: &str, found: &mut Broken) {
    let size: usize = view
        .texts("mount_flags")
        .iter()
        .map(|flag| flag.len())
        .sum();
    if size > MAP_LIMIT {
        let rule = format!("have {size} bytes, at most {MAP_LIMIT} are allowed");
        found.push(inside(at, "mount_flags"), rule);
    }
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
