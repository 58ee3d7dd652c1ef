//! `vars`: the variables, one a line.

use super::values::{Values, Variable};
use csi_proto::text::escaped;
use std::fmt::Write as _;

/// Every variable with what it holds.
pub fn variables(values: &Values) -> String {
    let mut text = String::new();
    for (name, value) in values.iter() {
        let _ = match value {
            Variable::Reply { message, bytes } => writeln!(
                text,
                "${name:15} {}, {} bytes",
                message.short_name(),
                bytes.len()
            ),
            Variable::Text(value) => writeln!(text, "${name:15} {}", escaped(value)),
        };
    }
    if text.is_empty() {
        text.push_str("there are no variables: `name = COMMAND` makes one\n");
    }
    text
}
