//! `--watch`: a command that only reads is called again and again, and what has changed since the last time is printed.
//!
//! Owns what counts as a change. How an event is printed is said in `output/printer.rs`; the watching ends with Ctrl-C, with
//! a failed call, or with the reader of its output.

use super::rpc_command::Command;
use csi_call::Connection;
use csi_error::{Error, ErrorKind};
use csi_output::colour;
use csi_output::layout::{Layout, OwnedRow};
use csi_output::printer::{Event, Printer};
use csi_output::{OutputError, ShownReply, stdout};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;
use tonic::Code;

/// Prints what there is, and every `pause` what has changed.
///
/// # Errors
/// The first failed call, which ends it unless it is to go on after one; but what is not there any more, after it was, has changed.
pub async fn watch(
    command: &Command,
    driver: &Connection,
    pause: Duration,
    out: impl Write,
) -> Result<(), Error> {
    let rpc = command.rpc;
    let layout = Layout::of(rpc.method, rpc.view)?;
    let mut printer = Printer::of_events(rpc.method, rpc.view, &command.output, out)?;
    let requests = &command.calls.requests;
    // Nothing for what was never there.
    let mut known: Vec<Option<Vec<Seen>>> = requests.iter().map(|_| None).collect();
    // Of each request the failure that was told last: one that stays is told once.
    let mut told = vec![String::new(); requests.len()];
    let mut first = None;
    let ended = |first: Option<Error>| first.map_or(Ok(()), |error| Err(error.reported()));
    loop {
        for ((request, before), told) in requests.iter().zip(&mut known).zip(&mut told) {
            let mut rows = Rows::of(&layout);
            let mut add = |reply: &ShownReply<'_>| rows.add(reply);
            let asked = command.ask(driver, request, &mut add).await;
            let now = match asked {
                Err(error) if is_gone(&error) && before.is_some() => Vec::new(),
                Err(error) if command.keep_going => {
                    let text = error.in_one_line();
                    if *told != text {
                        colour::report(&error, command.style);
                        *told = text;
                    }
                    first.get_or_insert(error);
                    continue;
                }
                Err(error) => {
                    // What has arrived is shown before the error.
                    let _ = printer.flush();
                    return Err(error);
                }
                Ok(()) => rows.seen,
            };
            told.clear();
            for (event, seen) in changes(before.as_deref().unwrap_or_default(), &now) {
                match printer.event(event, seen.row.row()) {
                    Err(error) if error.is_broken_pipe() => return ended(first),
                    printed => printed?,
                }
            }
            *before = Some(now);
        }
        match printer.flush() {
            Err(error) if error.is_broken_pipe() => return ended(first),
            flushed => flushed?,
        }
        // Where nothing changes, nothing is written that would find the reader gone.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stdout::reader_leaves() => return ended(first),
        }
    }
}

fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::Rpc(Code::NotFound)
}

/// A row as it was seen.
struct Seen {
    /// What tells it from other rows: its name, and how many of that name came before.
    key: (String, usize),
    /// Its value. Maps come in any order on the wire; here their order is none.
    value: Json,
    row: OwnedRow,
}

/// The rows of the replies to one request.
struct Rows<'a> {
    layout: &'a Layout,
    seen: Vec<Seen>,
    names: HashMap<String, usize>,
}

impl<'a> Rows<'a> {
    fn of(layout: &'a Layout) -> Self {
        Self {
            layout,
            seen: Vec::new(),
            names: HashMap::new(),
        }
    }

    fn add(&mut self, reply: &ShownReply<'_>) -> Result<(), OutputError> {
        for row in self.layout.owned_rows(reply)? {
            let name = self.layout.name_of(row.row())?;
            let count = self.names.entry(name.clone()).or_default();
            self.seen.push(Seen {
                key: (name, *count),
                value: self.layout.json_of(row.row())?,
                row,
            });
            *count += 1;
        }
        Ok(())
    }
}

/// What has changed: the rows of `now` that are new or other, in order, then those that are gone.
fn changes<'a>(before: &'a [Seen], now: &'a [Seen]) -> Vec<(Event, &'a Seen)> {
    let by_key = |rows: &'a [Seen]| -> HashMap<&'a (String, usize), &'a Seen> {
        rows.iter().map(|seen| (&seen.key, seen)).collect()
    };
    let (known, there) = (by_key(before), by_key(now));
    let changed = now.iter().filter_map(|seen| match known.get(&seen.key) {
        None => Some((Event::Added, seen)),
        Some(before) if before.value != seen.value => Some((Event::Modified, seen)),
        Some(_) => None,
    });
    let gone = before
        .iter()
        .filter(|seen| !there.contains_key(&seen.key))
        .map(|seen| (Event::Deleted, seen));
    changed.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(name: &str, value: Json) -> Seen {
        Seen {
            key: (name.to_owned(), 0),
            value,
            row: OwnedRow::default(),
        }
    }

    #[test]
    fn what_is_new_other_or_gone_has_changed() {
        let before = [
            seen("a", json!({"n": 1, "m": {"k": "v", "l": "w"}})),
            seen("b", json!(1)),
            seen("c", json!(1)),
        ];
        let now = [
            seen("d", json!(1)),
            seen("b", json!(2)),
            seen("a", json!({"n": 1, "m": {"l": "w", "k": "v"}})),
        ];
        let found = changes(&before, &now).into_iter();
        let found: Vec<_> = found.map(|(event, seen)| (event, &*seen.key.0)).collect();
        let expected = [
            (Event::Added, "d"),
            (Event::Modified, "b"),
            (Event::Deleted, "c"),
        ];
        assert_eq!(found, expected);
        assert!(changes(&now, &now).is_empty());
    }
}
