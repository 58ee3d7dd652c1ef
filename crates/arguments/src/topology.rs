//! Topologies: `zone=a,region=b`, the segments of one topology.

use super::map::{self, MapError};
use csi_proto::v1::Topology;
use thiserror::Error;

/// Text that is not a topology.
#[derive(Debug, Error)]
pub enum TopologyError {
    /// The segments cannot be parsed.
    #[error("{0}")]
    Map(MapError),
    /// A segment without `=`.
    #[error(
        "segment {0:?} has no value: write {0}=VALUE, as in zone=a,region=b ({0}= for an empty one)"
    )]
    NoValue(String),
    /// A segment given twice, which a map cannot hold.
    #[error("segment {0:?} is given twice: a topology is one place; repeat the flag for another")]
    Twice(String),
}

/// The topology whose segments `text` lists. Quoting and `@file` are those of maps; empty text has no segments.
///
/// # Errors
/// When a segment has no value or stands twice.
pub fn parse(text: &str) -> Result<Topology, TopologyError> {
    let mut topology = Topology::default();
    for (key, value) in map::entries(text).map_err(TopologyError::Map)? {
        let Some(value) = value else {
            return Err(TopologyError::NoValue(key));
        };
        if topology.segments.insert(key.clone(), value).is_some() {
            return Err(TopologyError::Twice(key));
        }
    }
    Ok(topology)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_a_map() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("zone=a", &[("zone", "a")]),
            ("zone=a,region=b", &[("region", "b"), ("zone", "a")]),
            (
                "topology.example.com/rack=r 1",
                &[("topology.example.com/rack", "r 1")],
            ),
            ("zone=", &[("zone", "")]),
            ("\"zone=a,b\"", &[("zone", "a,b")]),
        ];
        for (text, expected) in cases {
            let topology = parse(text).expect(text);
            let found: Vec<_> = topology
                .segments
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect();
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        let cases = [
            (
                "zone",
                "segment \"zone\" has no value: write zone=VALUE, as in zone=a,region=b (zone= for an empty one)",
            ),
            (
                "zone=a,zone=b",
                "segment \"zone\" is given twice: a topology is one place; repeat the flag for another",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).expect_err(text).to_string(), message);
        }
    }
}
