//! Circles of arrows: sets of files each of which reaches every other.

use std::collections::{BTreeMap, BTreeSet};

/// Every set of two or more nodes that reach each other, sorted.
pub fn circles<T: Ord + Clone>(edges: &BTreeSet<(T, T)>) -> Vec<BTreeSet<T>> {
    let mut next: BTreeMap<&T, Vec<&T>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().push(to);
    }
    let reach = |start: &T| {
        let mut seen = BTreeSet::new();
        let mut left = vec![start];
        while let Some(node) = left.pop() {
            for to in next.get(node).into_iter().flatten() {
                if seen.insert((*to).clone()) {
                    left.push(to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&T, BTreeSet<T>> = next.keys().map(|node| (*node, reach(node))).collect();
    let mut found: Vec<BTreeSet<T>> = Vec::new();
    for (node, seen) in &reached {
        if found.iter().any(|circle| circle.contains(node)) {
            continue;
        }
        let circle: BTreeSet<T> = seen
            .iter()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(node)))
            .cloned()
            .collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}
