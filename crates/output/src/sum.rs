//! The sum of the rows of one call, as an RPC declares it.

use super::cell::Reader;
use super::figure::counted;
use super::layout::Layout;
use super::reply::{OutputError, ShownReply};
use super::view::Sum;
use csi_arguments::size::human;
use csi_proto::value::Value;

/// What has been added up so far.
#[derive(Debug, Default)]
pub(crate) struct Summing {
    rows: u64,
    parts: i64,
    whole: i64,
}

impl Summing {
    /// Adds the rows of a reply.
    ///
    /// # Errors
    /// When the bytes are not the reply's message.
    pub fn add(
        &mut self,
        sum: &Sum,
        layout: &Layout,
        reply: &ShownReply<'_>,
    ) -> Result<(), OutputError> {
        let part = Reader::typed(sum.part, layout.types)?;
        let whole = Reader::typed(sum.whole, layout.types)?;
        for row in layout.rows(reply.bytes)? {
            let row = reply.row(row);
            self.rows += 1;
            self.parts = self.parts.saturating_add(number(&part.value(row)?));
            // Only the first message of a stream may say it.
            self.whole = self.whole.max(number(&whole.value(row)?));
        }
        Ok(())
    }

    /// The sum in words, such as `192Ki of 8Mi in 3 ranges`.
    pub fn text(&self, sum: &Sum) -> String {
        let whole = match self.whole {
            0 => String::new(),
            whole => format!(" of {}", human(whole)),
        };
        format!(
            "{}{whole} in {}",
            human(self.parts),
            counted(self.rows, sum.noun)
        )
    }
}

fn number(value: &Value<'_>) -> i64 {
    match value {
        Value::Int64(number) => *number,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_says_what_it_adds_up() {
        let sum = Sum {
            part: "size_bytes",
            whole: "/volume_capacity_bytes",
            noun: "range",
        };
        for (rows, parts, whole, text) in [
            (0, 0, 0, "0 in 0 ranges"),
            (1, 4096, 0, "4Ki in 1 range"),
            (3, 192 << 10, 8 << 20, "192Ki of 8Mi in 3 ranges"),
        ] {
            assert_eq!(Summing { rows, parts, whole }.text(&sum), text);
        }
    }
}
