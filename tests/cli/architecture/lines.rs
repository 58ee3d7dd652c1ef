//! How many lines of code are written by hand: lines that bear a token, without comments, documentation, tests and
//! generated files. `tests/count-lines` prints it.

use super::modules::Sources;
use super::{
    CLIENT, DRIVER, MOCK, Member, PROTOCOL, STORE, SYSTEM, hold, is_generated, print_when_asked,
    sources, tokens,
};
use proc_macro2::{Span, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// Where a file has outgrown its subject. From `LONG` on, one looks for a second subject in it.
const LIMIT: usize = 600;
const LONG: usize = 500;

/// Files beyond the limit that are still to be split. This list may only get shorter.
const LEFT: &[&str] = &[];

/// The lines of code in a file.
fn code(path: &str, text: &str) -> usize {
    let mut found = BTreeSet::new();
    mark(tokens::code(path, text), &mut found);
    found.len()
}

/// Notes the numbers of the lines on which a token stands, or a part of a text over several lines.
fn mark(tokens: TokenStream, found: &mut BTreeSet<usize>) {
    for token in tokens {
        let mut note = |span: Span| found.extend(span.start().line..=span.end().line);
        match token {
            TokenTree::Group(group) => {
                note(group.span_open());
                note(group.span_close());
                mark(group.stream(), found);
            }
            token => note(token.span()),
        }
    }
}

/// The files with more lines than this, of any kind, the longest first.
fn longer(sources: &Sources, lines: usize) -> Vec<(usize, &str)> {
    let counted = sources
        .iter()
        .map(|(path, text)| (text.lines().count(), &**path));
    let mut long: Vec<_> = counted
        .filter(|(count, path)| *count > lines && !is_generated(path))
        .collect();
    long.sort_by(|one, other| other.cmp(one));
    long
}

/// Files beyond the limit, but for those in `left`, and entries of `left` without need.
fn too_long(sources: &Sources, limit: usize, left: &[&str]) -> Vec<String> {
    let long = longer(sources, limit);
    let unknown = long.iter().filter(|(_, path)| !left.contains(path));
    let gone = left
        .iter()
        .filter(|path| !long.iter().any(|(_, long)| long == *path));
    unknown
        .map(|(lines, path)| {
            format!("{path} has {lines} lines, more than {limit}: find its second subject")
        })
        .chain(gone.map(|path| format!("{path} is not too long any more: remove it from the list")))
        .collect()
}

/// Every Rust file of the repository.
fn all() -> Sources {
    let folders = ["src", "proto", "driver", "mock", "sys", "tests"];
    folders.iter().flat_map(|folder| sources(folder)).collect()
}

/// The report that `tests/count-lines` prints.
fn report() -> String {
    let mut text = String::new();
    let mut total = |member: &Member| {
        let sources = member.hand_written();
        let lines: usize = sources.iter().map(|(path, text)| code(path, text)).sum();
        text += &format!(
            "{:>7}  {} ({} files)\n",
            lines,
            member.folder,
            sources.len()
        );
        lines
    };
    let (client, protocol) = (total(&CLIENT), total(&PROTOCOL));
    let (driver, store) = (total(&DRIVER), total(&STORE));
    let (mock, system) = (total(&MOCK), total(&SYSTEM));
    text += &format!(
        "{:>7}  {} and {}\n",
        client + protocol,
        CLIENT.folder,
        PROTOCOL.folder
    );
    text += &format!(
        "{:>7}  {} and {}\n",
        driver + store,
        DRIVER.folder,
        STORE.folder
    );
    text += &format!(
        "{:>7}  all six\n",
        client + protocol + driver + store + mock + system
    );
    let all = all();
    for (lines, path) in longer(&all, LONG) {
        let over = if lines > LIMIT { LIMIT } else { LONG };
        text += &format!("{lines:>7}  {path} (over {over}, with tests and comments)\n");
    }
    text
}

/// The lines of code below a folder, file by file.
fn report_below(folder: &str) -> String {
    let (mut text, mut total) = (String::new(), 0);
    for member in [&CLIENT, &PROTOCOL, &DRIVER, &STORE, &MOCK, &SYSTEM] {
        let mut sources = member.hand_written();
        sources.retain(|path, _| path.starts_with(folder));
        for (path, source) in sources {
            let lines = code(&path, &source);
            total += lines;
            text += &format!("{lines:>7}  {path}\n");
        }
    }
    text + &format!("{total:>7}  {folder}\n")
}

#[test]
fn lines_of_code_can_be_printed() {
    print_when_asked("CSI_LINES", || match std::env::var("CSI_LINES_BELOW") {
        Ok(folder) => report_below(&folder),
        Err(_) => report(),
    });
}

#[test]
fn no_file_is_longer_than_the_limit() {
    let all = all();
    hold(&too_long(&all, LIMIT, LEFT));
}

#[test]
fn comments_blank_lines_and_tests_are_no_code() {
    let text = "//! Documentation.\n\n\
                use a::b; // 1\n\
                /* no\n code */\n\
                /// Documentation.\n\
                #[derive(Debug)] // 2\n\
                pub struct S {\n\
                    /// Documentation.\n\
                    field: u8, // 4\n\
                }\n\
                const TEXT: &str = \"first // 6\n\
                \n\
                third /* 8 */\";\n\
                #[cfg(test)]\n\
                mod tests {\n\
                    fn f() {}\n\
                }\n\
                #[cfg(test)]\n\
                fn only() {\n\
                }\n\
                fn last() {} // 9\n";
    assert_eq!(code("fixture", text), 9);
    let sources = Sources::from([
        ("src/a.rs".to_owned(), "\n".repeat(3)),
        ("src/b.rs".to_owned(), "\n".repeat(4)),
        ("src/generated/c.rs".to_owned(), "\n".repeat(9)),
    ]);
    assert_eq!(longer(&sources, 3), [(4, "src/b.rs")]);
    assert_eq!(
        too_long(&sources, 3, &[]),
        ["src/b.rs has 4 lines, more than 3: find its second subject"]
    );
    assert_eq!(too_long(&sources, 3, &["src/b.rs"]), [""; 0]);
    assert_eq!(
        too_long(&sources, 4, &["src/b.rs"]),
        ["src/b.rs is not too long any more: remove it from the list"]
    );
}
