//! What the pages refer to exists: other pages and their headings, files, tests, and messages of the programs. And the pages
//! stay short enough to be read.

use super::pages::{Page, page, pages, root};
use std::fs;
use std::path::{Path, PathBuf};

/// All Rust sources as one text, in which a message that is written over several lines stands on one.
fn sources() -> String {
    let mut text = String::new();
    let mut left: Vec<PathBuf> = ["src", "crates", "driver", "proto", "tests"]
        .map(|folder| root().join(folder))
        .into();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    let mut lines = String::new();
    for line in text.lines() {
        match line.strip_suffix('\\') {
            Some(line) => lines.push_str(line.trim_start()),
            None => {
                lines.push_str(line.trim_start());
                lines.push('\n');
            }
        }
    }
    lines
        .replace("{RECORDS_FOLDER}", ".csi-nfs")
        .replace("\\\"", "\"")
}

/// What stands between backticks in a text.
fn code(text: &str) -> Vec<&str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// A heading's anchor, as the hosts of repositories make it.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(kept)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

fn has_heading(page: &Page, wanted: &str) -> bool {
    let prose = page.prose();
    let mut headings = prose.lines().filter_map(|line| {
        line.trim_start_matches('#')
            .strip_prefix(' ')
            .filter(|_| line.starts_with('#'))
    });
    headings.any(|heading| anchor(heading) == wanted)
}

#[test]
fn links_lead_somewhere() {
    for from in pages() {
        let prose = from.prose();
        for piece in prose.split("](").skip(1) {
            let target = piece.split(')').next().unwrap();
            if target.starts_with("https://") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let folder = from.path.parent().unwrap_or(Path::new(""));
            let to = if path.is_empty() {
                from.path.clone()
            } else {
                folder.join(path)
            };
            let place = format!("{}: {target}", from.path.display());
            assert!(root().join(&to).exists(), "{place}");
            assert!(
                heading.is_empty() || has_heading(&page(to.to_str().unwrap()), heading),
                "{place}"
            );
        }
    }
}

#[test]
fn files_and_tests_that_are_named_exist() {
    let sources = sources();
    let (mut files, mut tests) = (0, 0);
    for page in pages() {
        let prose = page.prose();
        for word in code(&prose) {
            let place = format!("{}: `{word}`", page.path.display());
            let is_path = [
                "src/",
                "crates/",
                "driver/",
                "proto/",
                "tests/",
                "docs/",
                "completions/",
                "packages/",
                ".ci/",
            ]
            .iter()
            .any(|folder| word.starts_with(folder));
            if is_path && !word.contains([' ', '<', '*', '…']) {
                files += 1;
                assert!(root().join(word).exists(), "{place}");
            }
            // A name of that many words is a test's, or a metric's, which the driver's own tests compare.
            let is_test = !word.starts_with("csi_")
                && word.matches('_').count() > 2
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            if is_test {
                tests += 1;
                assert!(sources.contains(&format!("fn {word}(")), "{place}");
            }
        }
    }
    assert!(files > 20 && tests > 20, "{files} files, {tests} tests");
}

/// Symptoms are found by their words, so the words must be those of the programs.
#[test]
fn messages_in_troubleshooting_are_said_by_the_programs() {
    let sources = sources();
    let text = page("docs/troubleshooting.md").text;
    let mut seen = 0;
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let symptom = line.trim_start_matches("| ").split(" | ").next().unwrap();
        for message in code(symptom)
            .into_iter()
            .filter(|message| message.contains(' ') && !message.starts_with("--"))
        {
            for piece in message
                .split('…')
                .map(|piece| piece.trim_matches([' ', ':', ',']))
            {
                // Shorter ones stand anywhere.
                if piece.len() > 7 && !piece.starts_with("write and read back") {
                    seen += 1;
                    assert!(sources.contains(piece), "no program says {piece:?}");
                }
            }
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn pages_are_short_and_decisions_have_one_form() {
    assert!(page("README.md").text.lines().count() <= 150, "README.md");
    assert!(
        page("ARCHITECTURE.md").text.split_whitespace().count() <= 1000,
        "ARCHITECTURE.md"
    );
    let folder = Path::new("docs/decisions");
    let decisions: Vec<Page> = pages()
        .into_iter()
        .filter(|page| page.path.starts_with(folder))
        .collect();
    assert!(decisions.len() > 10);
    for (index, page) in decisions.iter().enumerate() {
        let place = page.path.display();
        let number = format!("{:04}", index + 1);
        let name = page.path.file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with(&format!("{number}-")),
            "{place}: expected was {number}-TITLE.md"
        );
        assert!(
            page.text.starts_with(&format!("# {}. ", index + 1)),
            "{place}"
        );
        let headings: Vec<&str> = page
            .text
            .lines()
            .filter(|line| line.starts_with("## "))
            .collect();
        assert_eq!(
            headings,
            ["## Context", "## Decision", "## Cost"],
            "{place}"
        );
        assert!((10..=35).contains(&page.text.lines().count()), "{place}");
    }
}

#[test]
fn anchors_are_those_of_the_headings() {
    assert_eq!(anchor("Errors and exit codes"), "errors-and-exit-codes");
    assert_eq!(
        anchor("Upstream: kubernetes-csi's driver"),
        "upstream-kubernetes-csis-driver"
    );
    let page = Page {
        path: "x.md".into(),
        text: "# A b\n```sh\n# no heading\n```\n".into(),
    };
    assert!(has_heading(&page, "a-b") && !has_heading(&page, "no-heading"));
}
