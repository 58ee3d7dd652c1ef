//! Who imports whom in one package, as a graph of files.

use super::arrows::{Arrow, Target, arrows};
use super::circles::circles;
use super::modules::{Package, Sources};
use std::collections::{BTreeMap, BTreeSet};

/// How many lines are named at which a file takes a name.
const LINES_SHOWN: usize = 4;

/// The files of one package, and the arrows between them and to other packages.
pub struct Graph {
    /// The folder of the package's sources.
    folder: String,
    pub files: Vec<String>,
    pub arrows: Vec<Arrow>,
}

impl Graph {
    /// Reads the package of this name; `roots` are its `lib.rs` and `main.rs` below `folder`.
    pub fn read(name: &str, folder: &str, roots: &[&str], sources: &Sources) -> Self {
        let roots: Vec<String> = roots
            .iter()
            .map(|root| format!("{folder}/{root}"))
            .collect();
        let mut package = Package::read(name, &roots, sources);
        let arrows = arrows(&mut package);
        Self {
            folder: folder.to_owned(),
            files: package.files.into_iter().map(|file| file.path).collect(),
            arrows,
        }
    }

    /// The arrows between files of this package: from, to, arrow.
    pub fn inner(&self) -> impl Iterator<Item = (&str, &str, &Arrow)> {
        self.arrows.iter().filter_map(|arrow| match arrow.to {
            Target::File(to) => Some((&*self.files[arrow.from], &*self.files[to], arrow)),
            _ => None,
        })
    }

    /// The pairs of files of which the first imports the second.
    pub fn pairs(&self) -> BTreeSet<(&str, &str)> {
        self.inner().map(|(from, to, _)| (from, to)).collect()
    }

    /// The first folder or file below the sources, without its ending.
    pub fn room<'a>(&self, file: &'a str) -> &'a str {
        below(&self.folder, file).unwrap_or(file)
    }

    /// The arrows that `keep` keeps: a line for each pair of files, with the names and where they stand.
    pub fn describe(&self, keep: impl Fn(&str, &str) -> bool) -> String {
        let mut pairs: BTreeMap<(&str, &str), BTreeMap<&str, BTreeSet<usize>>> = BTreeMap::new();
        for (from, to, arrow) in self.inner().filter(|(from, to, _)| keep(from, to)) {
            let names = pairs.entry((from, to)).or_default();
            names.entry(&arrow.path).or_default().insert(arrow.line);
        }
        let mut text = String::new();
        for ((from, to), names) in pairs {
            let names = names.iter().map(|(name, lines)| {
                let mut shown: Vec<String> = lines
                    .iter()
                    .take(LINES_SHOWN)
                    .map(usize::to_string)
                    .collect();
                shown.extend((lines.len() > LINES_SHOWN).then(|| "...".to_owned()));
                format!("{name} ({})", shown.join(" "))
            });
            let names: Vec<String> = names.collect();
            text += &format!("  {from} -> {to}: {}\n", names.join(", "));
        }
        text
    }

    /// Every circle of files, with its arrows, as a text.
    pub fn describe_circles(&self) -> String {
        let mut text = String::new();
        for circle in circles(&self.pairs()) {
            let files: Vec<&str> = circle.iter().copied().collect();
            text += &format!("circle of {} files: {}\n", files.len(), files.join(" "));
            text += &self.describe(|from, to| circle.contains(from) && circle.contains(to));
        }
        text
    }
}

/// The first folder or file below a folder, without its ending; nothing for what is not below it.
pub fn below<'a>(folder: &str, file: &'a str) -> Option<&'a str> {
    let rest = file.strip_prefix(folder)?.strip_prefix('/')?;
    let first = rest.split('/').next()?;
    Some(first.trim_end_matches(".rs"))
}
