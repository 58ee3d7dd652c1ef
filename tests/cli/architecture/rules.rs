//! What an arrow may not do. Each function returns what breaks its rule, as sentences that say what to do.

use super::arrows::{Arrow, Target};
use super::circles::{circles, reaches, shortest};
use super::graph::{Graph, Names, arrow, below, describe, is_in};
use std::collections::BTreeSet;

/// Names from outside a package that these files alone may take.
pub struct Only {
    /// Paths, with all below them; `.name` is a method.
    pub names: &'static [&'static str],
    pub files: &'static [&'static str],
    pub why: &'static str,
}

/// Files that never take these names.
pub struct Never {
    pub files: &'static [&'static str],
    /// Paths into other packages, with all below them, or files of this package.
    pub names: &'static [&'static str],
    /// What they may take of these nevertheless.
    pub except: &'static [&'static str],
    pub why: &'static str,
}

/// Arrows that run up the list of rooms, and rooms that the list and the sources do not share.
pub fn upward(graph: &Graph, rooms: &[&str]) -> Vec<String> {
    let mut broken = Vec::new();
    let present: BTreeSet<&str> = graph.files.iter().map(|file| graph.room(file)).collect();
    for room in present.iter().filter(|room| !rooms.contains(room)) {
        broken.push(format!(
            "the list of rooms has no {room}: put the file into a room, or the room into the list"
        ));
    }
    for room in rooms.iter().filter(|room| !present.contains(*room)) {
        broken.push(format!(
            "the room {room} does not exist: remove it from the list"
        ));
    }
    let place = |file: &str| rooms.iter().position(|room| *room == graph.room(file));
    for ((from, to), names) in graph.pairs() {
        if let (Some(above), Some(below)) = (place(from), place(to))
            && above > below
        {
            broken.push(format!(
                "{}: an arrow up, for {} lies below {}: move what both need down, or hand it over as an argument",
                text(from, to, &names),
                rooms[above],
                rooms[below],
            ));
        }
    }
    broken
}

/// Arrows from one tool to another, but for those in `left`: from a file or folder right below `folder` to the next.
pub fn between_tools(graph: &Graph, folder: &str, left: &[&str]) -> Vec<String> {
    let left = pairs_of(left);
    let tool = |file| below(folder, file).filter(|tool| *tool != "mod");
    let mut broken = Vec::new();
    let pairs = graph.pairs();
    for ((from, to), names) in &pairs {
        if let (Some(one), Some(other)) = (tool(from), tool(to))
            && one != other
            && !left.contains(&(from, to))
        {
            broken.push(format!(
                "{}: no tool knows another, here {one} knows {other}: move what both need into a room below {folder}",
                text(from, to, names),
            ));
        }
    }
    for (from, to) in left.iter().filter(|pair| !pairs.contains_key(*pair)) {
        broken.push(format!(
            "{from} -> {to} is no arrow any more: remove it from the list"
        ));
    }
    broken
}

/// Circles of files that stay when the arrows in `left` are cut, and entries of `left` without need.
pub fn circular(graph: &Graph, left: &[&str]) -> Vec<String> {
    let left = pairs_of(left);
    let mut broken = Vec::new();
    let pairs = graph.pairs();
    let uncut = pairs.keys().filter(|pair| !left.contains(pair));
    let edges: BTreeSet<(&str, &str)> = uncut.copied().collect();
    for circle in circles(&edges) {
        let way = shortest(&edges, &circle);
        let files: Vec<&str> = way.iter().map(|(from, _)| *from).collect();
        let arrows = way.iter().map(|pair| arrow(pair, &pairs[pair]));
        broken.push(format!(
            "{} import each other in a circle (of {} files in all); cut an arrow: move what both need into a file of its \
             own, or hand it over as an argument\n{}",
            files.join(" and "),
            circle.len(),
            arrows.collect::<String>(),
        ));
    }
    for entry in &left {
        let (from, to) = entry;
        if !pairs.contains_key(entry) {
            broken.push(format!(
                "{from} -> {to} is no arrow any more: remove it from the list"
            ));
        } else if !reaches(&edges, to, from) {
            broken.push(format!(
                "{from} -> {to} closes no circle any more: remove it from the list"
            ));
        }
    }
    broken
}

/// The arrows of a list, which are written as they are printed: `FROM -> TO`.
fn pairs_of<'a>(left: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let pair = |entry: &&'a str| entry.split_once(" -> ").unwrap_or((entry, "nowhere"));
    left.iter().map(pair).collect()
}

/// Names from outside in files that may not take them.
pub fn only(graph: &Graph, rules: &[Only]) -> Vec<String> {
    let mut broken = Vec::new();
    for rule in rules {
        broken.extend(unknown(graph, rule.files));
        for arrow in &graph.arrows {
            let from = &graph.files[arrow.from];
            let taken = rule.names.iter().find(|name| takes(graph, arrow, name));
            if let Some(name) = taken
                && !rule.files.iter().any(|file| is_in(from, file))
            {
                let allowed = match rule.files {
                    [] => "nobody".to_owned(),
                    files => files.join(", "),
                };
                broken.push(format!(
                    "{from}:{} takes {name}: {} (allowed: {allowed})",
                    arrow.line, rule.why
                ));
            }
        }
    }
    broken
}

/// Names in files that never take them.
pub fn never(graph: &Graph, rules: &[Never]) -> Vec<String> {
    let mut broken = Vec::new();
    for rule in rules {
        broken.extend(unknown(graph, rule.files));
        for arrow in &graph.arrows {
            let from = &graph.files[arrow.from];
            let taken = rule.names.iter().find(|name| takes(graph, arrow, name));
            if let Some(name) = taken
                && rule.files.iter().any(|file| is_in(from, file))
                && !rule.except.iter().any(|name| is_below(arrow, name))
            {
                broken.push(format!("{from}:{} takes {name}: {}", arrow.line, rule.why));
            }
        }
    }
    broken
}

/// A rule about files that do not exist holds nothing.
fn unknown(graph: &Graph, files: &[&str]) -> Vec<String> {
    let missing = files
        .iter()
        .filter(|file| !graph.files.iter().any(|path| is_in(path, file)));
    missing
        .map(|file| format!("{file} does not exist: correct the rule that names it"))
        .collect()
}

fn takes(graph: &Graph, arrow: &Arrow, name: &str) -> bool {
    match &arrow.to {
        Target::Outside(path) => match path.strip_suffix("::*") {
            // Everything of a module: what lies in it too, by whatever name.
            Some(module) => inside(module, name) || inside(name, module),
            None => inside(path, name),
        },
        Target::Method(method) => name.strip_prefix('.') == Some(method),
        Target::File(file) => name.contains('/') && is_in(&graph.files[*file], name),
    }
}

/// Whether all that the arrow takes lies below a name.
fn is_below(arrow: &Arrow, name: &str) -> bool {
    match &arrow.to {
        Target::Outside(path) => inside(path.trim_end_matches("::*"), name),
        Target::File(_) | Target::Method(_) => false,
    }
}

fn inside(path: &str, name: &str) -> bool {
    let rest = path.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn text(from: &str, to: &str, names: &Names) -> String {
    let lines = names.values().flatten();
    let line = lines.min().copied().unwrap_or_default();
    format!("{from}:{line} takes {} from {to}", describe(names))
}
