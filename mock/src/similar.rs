//! The names that were most likely meant where one is not known. Knows none of them.

use strsim::jaro_winkler;

/// How similar a name must be to be suggested, from 0 to 1.
const SIMILAR: f64 = 0.8;

/// The names that are most like that one.
pub(crate) fn similar(name: &str, all: impl Iterator<Item = String>) -> Vec<String> {
    let likeness = |one: &str| jaro_winkler(&one.to_lowercase(), &name.to_lowercase());
    let mut found: Vec<_> = all
        .map(|one| (likeness(&one), one))
        .filter(|(how, _)| *how >= SIMILAR)
        .collect();
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.dedup_by(|(_, one), (_, other)| one == other);
    found.into_iter().take(2).map(|(_, name)| name).collect()
}

/// What an error says of such names, of which the flag has all.
pub(crate) fn suggested(like: &[String], flag: &str) -> String {
    match like {
        [] => format!("`csi mock {flag}` has their names"),
        _ => format!("did you mean {}?", like.join(" or ")),
    }
}
