//! The columns that `set columns` chooses for the tables of a session: which names there are.
//!
//! A name is wanted where a reply has it, and passed over where it has not: one choice stands for the tables of all RPCs.
//! One that no table has is a mistake.

use csi_output::layout::Layout;
use csi_rpc::Rpc;

/// The columns of a text such as `volume-id,capacity`.
///
/// # Errors
/// When one of them is no table's; what may have been meant.
pub fn parse(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    for name in &names {
        if name.is_empty() {
            return Err("write heads or paths, such as volume-id,capacity".to_owned());
        }
        if !csi_rpc::all().any(|rpc| has(rpc, name)) {
            return Err(unknown(name));
        }
    }
    Ok(names)
}

fn has(rpc: &Rpc, name: &str) -> bool {
    Layout::of(rpc.method, rpc.view).is_ok_and(|layout| layout.column(name).is_ok())
}

fn unknown(name: &str) -> String {
    let typed = name.to_lowercase();
    let like: Vec<String> = csi_rpc::heads(csi_rpc::all())
        .into_iter()
        .filter(|known| known.split('-').any(|word| typed.contains(word)))
        .collect();
    match like.is_empty() {
        true => format!("no table has a column {name:?}; Tab behind `set columns` lists them"),
        false => format!(
            "no table has a column {name:?}; there is {}",
            like.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_paths_of_any_table_are_columns() {
        for (text, expected) in [
            ("volume-id,capacity", vec!["volume-id", "capacity"]),
            ("VOLUME ID, snapshot_id", vec!["VOLUME ID", "snapshot_id"]),
            ("volume.volume_context", vec!["volume.volume_context"]),
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
        for (text, part) in [
            ("", "such as volume-id,capacity"),
            ("volume-id,", "such as volume-id,capacity"),
            ("volume-id,colour", "no table has a column \"colour\"; Tab"),
            ("id", "snapshot-id, "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_name_that_is_offered_is_taken() {
        let names: Vec<String> = csi_rpc::heads(csi_rpc::all()).into_iter().collect();
        assert!(names.contains(&"volume-id".to_owned()), "{names:?}");
        assert_eq!(parse(&names.join(",")).unwrap(), names);
    }
}
