//! Who imports whom in one package, as a graph of files.

use super::arrows::{Arrow, Target, arrows};
use super::circles::circles;
use super::modules::Package;
use std::collections::{BTreeMap, BTreeSet};

/// How many lines are named at which a file takes a name.
const LINES_SHOWN: usize = 4;

/// The paths by which a file takes something from another, with their lines.
pub type Names<'a> = BTreeMap<&'a str, BTreeSet<usize>>;

/// The names by the files: the one that takes, the one that has.
pub type Pairs<'a> = BTreeMap<(&'a str, &'a str), Names<'a>>;

/// The files of one package, and the arrows between them and to other packages.
pub struct Graph {
    /// The folder of the package's sources.
    folder: String,
    pub files: Vec<String>,
    pub arrows: Vec<Arrow>,
}

impl Graph {
    /// The graph of a package whose sources are in this folder.
    pub fn of(mut package: Package, folder: &str) -> Self {
        let arrows = arrows(&mut package);
        Self {
            folder: folder.to_owned(),
            files: package.files.into_iter().map(|file| file.path).collect(),
            arrows,
        }
    }

    /// What each file takes from each other: the names, and the lines at which they stand.
    pub fn pairs(&self) -> Pairs<'_> {
        let mut pairs = Pairs::new();
        for arrow in &self.arrows {
            if let Target::File(to) = arrow.to {
                let pair = (&*self.files[arrow.from], &*self.files[to]);
                let names = pairs.entry(pair).or_default();
                names.entry(&arrow.path).or_default().insert(arrow.line);
            }
        }
        pairs
    }

    /// The first folder or file below the sources, without its ending.
    pub fn room<'a>(&self, file: &'a str) -> &'a str {
        below(&self.folder, file).unwrap_or(file)
    }

    /// Every circle of files, with its arrows, as a text.
    pub fn describe_circles(&self) -> String {
        let pairs = self.pairs();
        let mut text = String::new();
        for circle in circles(&pairs.keys().copied().collect()) {
            let files: Vec<&str> = circle.iter().copied().collect();
            text += &format!("circle of {} files: {}\n", files.len(), files.join(" "));
            let within = |pair: &(&str, &str)| circle.contains(pair.0) && circle.contains(pair.1);
            let arrows = pairs.iter().filter(|(pair, _)| within(pair));
            text.extend(arrows.map(|(pair, names)| arrow(pair, names)));
        }
        text
    }
}

/// An arrow with what it takes, as a line.
pub fn arrow((from, to): &(&str, &str), names: &Names) -> String {
    format!("  {from} -> {to}: {}\n", describe(names))
}

/// The names that a file takes, each with its lines.
pub fn describe(names: &Names) -> String {
    let names = names.iter().map(|(name, lines)| {
        let mut shown: Vec<String> = lines
            .iter()
            .take(LINES_SHOWN)
            .map(usize::to_string)
            .collect();
        shown.extend((lines.len() > LINES_SHOWN).then(|| "...".to_owned()));
        format!("{name} ({})", shown.join(" "))
    });
    names.collect::<Vec<String>>().join(", ")
}

/// The first folder or file below a folder, without its ending; nothing for what is not below it.
pub fn below<'a>(folder: &str, file: &'a str) -> Option<&'a str> {
    let rest = file.strip_prefix(folder)?.strip_prefix('/')?;
    let first = rest.split('/').next()?;
    Some(first.trim_end_matches(".rs"))
}

/// Whether a file is this one, the module of this folder, or lies below it.
pub fn is_in(path: &str, file: &str) -> bool {
    let rest = path.strip_prefix(file);
    rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}
