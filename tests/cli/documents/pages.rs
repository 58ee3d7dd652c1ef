//! The pages and the examples in them, as they are written. Runs nothing.
//!
//! An example is a fenced block. A comment on the line above it says what is not usual about it: `<!-- not run: REASON -->`,
//! `<!-- figures vary -->`, or `<!-- file: NAME -->` for a file that the page's other examples use.

use std::fs;
use std::path::{Path, PathBuf};

/// A document of the repository.
pub struct Page {
    /// Its path below the repository's root.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// What a comment above an example says about it.
#[derive(Debug, PartialEq)]
pub enum Mark {
    /// Nothing: it runs, and prints what is recorded.
    None,
    /// It is not run, for a reason.
    NotRun,
    /// It runs, and its numbers are a matter of the machine.
    FiguresVary,
    /// It is a file of that name, which lies where the page's other examples run.
    File(String),
}

/// A fenced block.
pub struct Example {
    /// Page and line, for messages.
    pub place: String,
    /// What stands behind the fence.
    pub language: String,
    /// What the comment above it says.
    pub mark: Mark,
    /// What is in it.
    pub text: String,
}

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The page of that path.
pub fn page(path: &str) -> Page {
    let text =
        fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    Page {
        path: path.into(),
        text,
    }
}

/// Every page: the README and all below `docs/`, and what contributors read.
pub fn pages() -> Vec<Page> {
    let mut paths: Vec<String> = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
    ]
    .map(str::to_owned)
    .into();
    for folder in ["docs", "docs/decisions"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                paths.push(format!("{folder}/{name}"));
            }
        }
    }
    paths.sort();
    paths.iter().map(|path| page(path)).collect()
}

impl Page {
    /// The fenced blocks, in order.
    pub fn examples(&self) -> Vec<Example> {
        let mut examples: Vec<Example> = Vec::new();
        let mut above = "";
        let mut open = false;
        for (index, line) in self.text.lines().enumerate() {
            let place = format!("{}:{}", self.path.display(), index + 1);
            match (line.strip_prefix("```"), open) {
                (Some(language), false) => {
                    open = true;
                    examples.push(Example {
                        mark: mark(above, &place),
                        place,
                        language: language.to_owned(),
                        text: String::new(),
                    });
                }
                (Some(""), true) => open = false,
                (Some(_), true) => panic!("{place}: a fence within a fence"),
                (None, true) => {
                    let example = examples.last_mut().unwrap();
                    example.text.push_str(line);
                    example.text.push('\n');
                }
                (None, false) => {}
            }
            above = line;
        }
        assert!(!open, "{}: a fence is not closed", self.path.display());
        examples
    }

    /// What stands outside of the fenced blocks.
    pub fn prose(&self) -> String {
        let pieces = self.text.split("\n```").step_by(2);
        pieces.collect::<Vec<_>>().join("\n")
    }
}

fn mark(above: &str, place: &str) -> Mark {
    let Some(text) = above
        .strip_prefix("<!-- ")
        .and_then(|text| text.strip_suffix(" -->"))
    else {
        return Mark::None;
    };
    if text == "figures vary" {
        Mark::FiguresVary
    } else if let Some(name) = text.strip_prefix("file: ") {
        Mark::File(name.to_owned())
    } else if text
        .strip_prefix("not run: ")
        .is_some_and(|reason| reason.contains(' '))
    {
        Mark::NotRun
    } else {
        panic!(
            "{place}: the comment above says neither `not run: REASON`, `figures vary` nor `file: NAME`"
        )
    }
}

#[test]
fn marks_are_read_and_others_refused() {
    let page = |text: &str| Page {
        path: "x.md".into(),
        text: text.to_owned(),
    };
    let marks = |text: &str| {
        page(text)
            .examples()
            .into_iter()
            .map(|one| one.mark)
            .collect::<Vec<_>>()
    };
    let text = "<!-- not run: needs a cluster -->\n```console\n$ x\n```\n\n```console\n$ y\n```\n<!-- file: a.toml -->\n```toml\nb = 1\n```\n";
    assert_eq!(
        marks(text),
        [Mark::NotRun, Mark::None, Mark::File("a.toml".into())]
    );
    assert_eq!(page(text).examples()[2].text, "b = 1\n");
    assert!(!page(text).prose().contains("b = 1"));
    for wrong in ["<!-- not run: -->", "<!-- not run -->", "<!-- todo -->"] {
        let text = format!("{wrong}\n```console\n$ x\n```\n");
        assert!(
            std::panic::catch_unwind(|| marks(&text)).is_err(),
            "{wrong}"
        );
    }
}
