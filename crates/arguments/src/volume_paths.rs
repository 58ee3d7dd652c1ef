//! csc's `ID:PATH[:STAGING]`: a volume with its path on a node, and its staging path.

use thiserror::Error;

/// An argument that has no path.
#[derive(Debug, Error)]
#[error("{0:?} has no path: give ID:PATH, or the path with --volume-path")]
pub struct NoPath(String);

/// The id, the path and the staging path. Ids may contain colons: paths are taken to begin with a slash where one does.
pub fn parse(argument: &str) -> Result<(&str, &str, &str), NoPath> {
    let separator = if argument.contains(":/") { ":/" } else { ":" };
    // The slash belongs to the path.
    let split = |text: &'_ str| text.find(separator);
    let at = split(argument).ok_or_else(|| NoPath(argument.to_owned()))?;
    let (id, paths) = (&argument[..at], &argument[at + 1..]);
    Ok(match split(paths) {
        Some(at) => (id, &paths[..at], &paths[at + 1..]),
        None => (id, paths, ""),
    })
}
