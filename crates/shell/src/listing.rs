//! `vars`: lists the variables, one a line.

use super::values::{Values, Variable};
use csi_output::columns::{Columns, aligned};
use csi_proto::text::escaped;

/// Every variable with what it holds.
pub fn variables(values: &Values) -> String {
    let cells: Vec<String> = values
        .iter()
        .flat_map(|(name, value)| {
            let value = match value {
                Variable::Reply(reply) if reply.part.is_empty() => {
                    let size = reply.bytes.len();
                    format!("{}, {size} bytes", reply.message.short_name())
                }
                Variable::Reply(reply) => {
                    let part = escaped(&reply.part);
                    format!("{}{part}", reply.message.short_name())
                }
                Variable::Text(value) => escaped(value).into_owned(),
            };
            [format!("${name}"), value]
        })
        .collect();
    if cells.is_empty() {
        return "there are no variables: `name = COMMAND` makes one\n".to_owned();
    }
    aligned(Columns::new(2, 2), &cells)
}
