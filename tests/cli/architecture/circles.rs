//! Circles of arrows: sets of nodes each of which reaches every other.

use std::collections::{BTreeMap, BTreeSet};

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
    assert!(reaches(&edges, "a", "d") && !reaches(&edges, "d", "a"));
}
