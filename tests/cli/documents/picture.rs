//! The picture of a terminal: what it shows is what the program prints. `docs/draw-terminal` draws it.

use super::pages::root;
use crate::support::program::Csi;
use std::fs;

const PROMPT: &str = "mock.csi.internal> ";

/// The lines of the terminal, without their colours.
fn shown(picture: &str) -> Vec<String> {
    let lines = picture.lines().filter(|line| line.starts_with("<text "));
    let plain = |line: &str| {
        let parts = line.split('<').filter_map(|part| part.split_once('>'));
        let text: String = parts.map(|(_, text)| text).collect();
        let text = text.replace("&lt;", "<").replace("&gt;", ">");
        text.replace("&amp;", "&").trim_end().to_owned()
    };
    lines.map(plain).collect()
}

#[test]
fn the_picture_shows_what_is_printed() {
    let picture = fs::read_to_string(root().join("docs/terminal.svg")).unwrap();
    assert!(picture.len() < 40_000, "{} bytes", picture.len());
    let shown = shown(&picture);
    let typed = shown.iter().filter_map(|line| line.strip_prefix(PROMPT));
    let typed: Vec<&str> = typed.collect();
    // The last one is not finished: what it lacks is said behind it.
    let (_, lines) = typed.split_last().unwrap();
    assert!(lines.len() > 5, "{shown:?}");
    let csi = Csi::at("mock:").input(lines.join("\n"));
    let run = csi.run("shell --keep-going");
    let printed = format!("{}{}", run.stdout, run.stderr);
    for line in shown.iter().filter(|line| !line.starts_with(PROMPT)) {
        let is_there = |printed: &str| match line.strip_prefix("error: ") {
            // In a script an error names its line first.
            Some(error) => printed.ends_with(error),
            None => printed == line,
        };
        assert!(printed.lines().any(is_there), "{line}\n{run}");
    }
}
