//! What a mistyped name may mean. Pure.

use strsim::{jaro_winkler, osa_distance};

/// How like a word must be to be meant, as clap judges it.
const LIKE: f64 = 0.8;

/// The things that a word may mean, the likeliest first. Each comes with all of its names.
pub fn likest<'a, T>(word: &str, things: impl Iterator<Item = (Vec<&'a str>, T)>) -> Vec<T> {
    let judged = things.map(|(names, thing)| {
        let likeness = names.into_iter().map(|name| likeness(word, name));
        (likeness.fold(0.0, f64::max), thing)
    });
    let mut like: Vec<(f64, T)> = judged.filter(|(likeness, _)| *likeness > LIKE).collect();
    like.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    like.into_iter().map(|(_, thing)| thing).collect()
}

/// How like two names are. In short ones one slip, such as two letters in the wrong order, leaves little; in the shortest a slip
/// makes any of any.
fn likeness(one: &str, other: &str) -> f64 {
    match osa_distance(one, other) {
        0 | 1 if one.len().min(other.len()) > 2 => 1.0,
        _ => jaro_winkler(one, other),
    }
}
