//! The layers of the programs, and what holds them: arrows run down one list, and no files import each other in a circle.
//!
//! `CSI_LAYERS=print cargo test -p csi-cli --test cli layers -- --nocapture` prints every circle and every arrow that
//! breaks a rule, with the names that each file takes.

use super::arrows::{Arrow, Target, arrows};
use super::circles::circles;
use super::modules::{Package, Sources};
use super::sources;
use std::collections::{BTreeMap, BTreeSet};

/// The rooms of `src/`, from the top down: a room may import those below it.
const ROOMS: [&str; 12] = [
    "main",
    "lib",
    "cli",
    "tools",
    "undo",
    "invocation",
    "recording",
    "rpc",
    "call",
    "output",
    "arguments",
    "error",
];

/// Who imports whom in one package.
struct Graph {
    /// The name of the package's folder of sources.
    folder: String,
    files: Vec<String>,
    arrows: Vec<Arrow>,
}

impl Graph {
    fn read(name: &str, folder: &str, roots: &[&str], sources: &Sources) -> Self {
        let mut package = Package::read(name, roots, sources);
        let arrows = arrows(&mut package);
        Self {
            folder: folder.to_owned(),
            files: package.files.into_iter().map(|file| file.path).collect(),
            arrows,
        }
    }

    /// The arrows between files of this package: from, to, arrow.
    fn inner(&self) -> impl Iterator<Item = (&str, &str, &Arrow)> {
        self.arrows.iter().filter_map(|arrow| match arrow.to {
            Target::File(to) => Some((&*self.files[arrow.from], &*self.files[to], arrow)),
            _ => None,
        })
    }

    /// The first folder or file below the sources.
    fn room<'a>(&self, file: &'a str) -> &'a str {
        let below = file[self.folder.len()..].trim_start_matches('/');
        let room = below.split('/').next().unwrap_or(below);
        room.trim_end_matches(".rs")
    }

    fn circles_of_files(&self) -> Vec<BTreeSet<String>> {
        let edges = self.inner();
        circles(
            &edges
                .map(|(from, to, _)| (from.to_owned(), to.to_owned()))
                .collect(),
        )
    }

    fn circles_of_rooms(&self) -> Vec<BTreeSet<String>> {
        let edges = self
            .inner()
            .map(|(from, to, _)| (self.room(from), self.room(to)));
        let edges = edges.filter(|(from, to)| from != to);
        circles(
            &edges
                .map(|(from, to)| (from.to_owned(), to.to_owned()))
                .collect(),
        )
    }

    /// The arrows that `keep` keeps, one line for each pair of files, with the names and their lines.
    fn describe(&self, keep: impl Fn(&str, &str) -> bool) -> String {
        let mut pairs: BTreeMap<(&str, &str), BTreeMap<&str, BTreeSet<usize>>> = BTreeMap::new();
        for (from, to, arrow) in self.inner().filter(|(from, to, _)| keep(from, to)) {
            let names = pairs.entry((from, to)).or_default();
            names.entry(&arrow.path).or_default().insert(arrow.line);
        }
        let mut text = String::new();
        for ((from, to), names) in pairs {
            let names: Vec<String> = names
                .iter()
                .map(|(name, lines)| {
                    let mut shown: Vec<String> =
                        lines.iter().take(4).map(usize::to_string).collect();
                    if lines.len() > shown.len() {
                        shown.push("...".to_owned());
                    }
                    format!("{name} ({})", shown.join(" "))
                })
                .collect();
            text += &format!("  {from} -> {to}: {}\n", names.join(", "));
        }
        text
    }

    fn print(&self) {
        println!(
            "== {}: {} files, {} arrows",
            self.folder,
            self.files.len(),
            self.inner().count()
        );
        for circle in self.circles_of_files() {
            let files: Vec<&str> = circle.iter().map(String::as_str).collect();
            println!("circle of {} files: {}", files.len(), files.join(" "));
            print!(
                "{}",
                self.describe(|from, to| circle.contains(from) && circle.contains(to))
            );
        }
        for circle in self.circles_of_rooms() {
            let rooms: Vec<&str> = circle.iter().map(String::as_str).collect();
            println!("circle of {} rooms: {}", rooms.len(), rooms.join(" "));
        }
    }
}

fn client() -> Graph {
    Graph::read(
        "csi_cli",
        "src",
        &["src/lib.rs", "src/main.rs"],
        &sources("src"),
    )
}

fn driver() -> Graph {
    let roots = ["driver/src/lib.rs", "driver/src/main.rs"];
    Graph::read("csi_nfs", "driver/src", &roots, &sources("driver/src"))
}

fn protocol() -> Graph {
    Graph::read(
        "csi_proto",
        "proto/src",
        &["proto/src/lib.rs"],
        &sources("proto/src"),
    )
}

#[test]
fn layers_can_be_printed() {
    if std::env::var("CSI_LAYERS").is_ok_and(|value| value == "print") {
        for graph in [client(), driver(), protocol()] {
            graph.print();
        }
        let graph = client();
        let place = |file: &str| ROOMS.iter().position(|room| *room == graph.room(file));
        println!("== upward arrows of src");
        print!(
            "{}",
            graph.describe(|from, to| match (place(from), place(to)) {
                (Some(from), Some(to)) => from > to,
                _ => false,
            })
        );
        let rooms: BTreeSet<&str> = graph.files.iter().map(|file| graph.room(file)).collect();
        let unknown: Vec<&str> = rooms
            .into_iter()
            .filter(|room| !ROOMS.contains(room))
            .collect();
        println!("rooms that the list does not have: {}", unknown.join(" "));
    }
}
