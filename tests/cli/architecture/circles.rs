//! Circles of arrows: sets of nodes each of which reaches every other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Every set of two or more nodes that reach each other.
pub fn circles<'a>(edges: &BTreeSet<(&'a str, &'a str)>) -> Vec<BTreeSet<&'a str>> {
    let forth = neighbours(edges.iter().copied());
    let back = neighbours(edges.iter().map(|(from, to)| (*to, *from)));
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for node in forth.keys() {
        if !found.iter().any(|circle| circle.contains(node)) {
            let reached = reach(&forth, node);
            let circle: BTreeSet<&str> =
                reached.intersection(&reach(&back, node)).copied().collect();
            found.extend((circle.len() > 1).then_some(circle));
        }
    }
    found
}

/// The shortest way round in a circle, as the arrows in their order.
pub fn shortest<'a>(
    edges: &BTreeSet<(&'a str, &'a str)>,
    circle: &BTreeSet<&'a str>,
) -> Vec<(&'a str, &'a str)> {
    let next = neighbours(edges.iter().copied());
    let ways = circle.iter().filter_map(|node| way_back(&next, node));
    ways.min_by_key(Vec::len).unwrap_or_default()
}

/// The shortest way from a node back to it.
fn way_back<'a>(next: &Neighbours<'a>, node: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut left = VecDeque::from([node]);
    while !came_from.contains_key(node) {
        let from = left.pop_front()?;
        for to in next.get(from).into_iter().flatten() {
            if !came_from.contains_key(to) {
                came_from.insert(to, from);
                left.push_back(to);
            }
        }
    }
    let mut way = Vec::new();
    let mut at = node;
    while way.is_empty() || at != node {
        let from = came_from[at];
        way.push((from, at));
        at = from;
    }
    way.reverse();
    Some(way)
}

/// Whether a way leads from one node to another.
pub fn reaches(edges: &BTreeSet<(&str, &str)>, from: &str, to: &str) -> bool {
    reach(&neighbours(edges.iter().copied()), from).contains(to)
}

type Neighbours<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn neighbours<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> Neighbours<'a> {
    let mut next = Neighbours::new();
    for (from, to) in edges {
        next.entry(from).or_default().push(to);
    }
    next
}

/// The nodes to which ways lead from this one.
fn reach<'a>(next: &Neighbours<'a>, start: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut left = vec![start];
    while let Some(node) = left.pop() {
        for to in next.get(node).into_iter().flatten() {
            if seen.insert(*to) {
                left.push(to);
            }
        }
    }
    seen
}

#[test]
fn circles_are_found_and_what_leads_to_them_is_none() {
    let edges = [
        ("a", "b"),
        ("b", "c"),
        ("c", "b"),
        ("c", "d"),
        ("e", "e"),
        ("f", "g"),
        ("g", "h"),
        ("h", "f"),
    ];
    let edges = BTreeSet::from(edges);
    let circle = |names: &[&'static str]| names.iter().copied().collect::<BTreeSet<&str>>();
    assert_eq!(
        circles(&edges),
        [circle(&["b", "c"]), circle(&["f", "g", "h"])]
    );
    let three = circle(&["f", "g", "h"]);
    assert_eq!(
        shortest(&edges, &three),
        [("f", "g"), ("g", "h"), ("h", "f")]
    );
    let shortcut: BTreeSet<_> = edges.into_iter().chain([("h", "g")]).collect();
    assert_eq!(shortest(&shortcut, &three), [("g", "h"), ("h", "g")]);
    let edges = shortcut;
    assert!(reaches(&edges, "a", "d") && !reaches(&edges, "d", "a"));
}
