//! How many lines of code are written by hand: lines that bear a token, without comments, documentation, tests and
//! generated files. `tests/count-lines` prints it.

use super::modules::{Package, Sources};
use super::sources;
use super::tokens;
use proc_macro2::{Span, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// The numbers of the lines on which a token stands, or a part of a text over several lines.
fn lines(tokens: TokenStream, found: &mut BTreeSet<usize>) {
    let mut mark = |span: Span| found.extend(span.start().line..=span.end().line);
    let mut inner = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                mark(group.span_open());
                mark(group.span_close());
                inner.push(group.stream());
            }
            token => mark(token.span()),
        }
    }
    for tokens in inner {
        lines(tokens, found);
    }
}

fn count(path: &str, text: &str) -> usize {
    let mut found = BTreeSet::new();
    lines(tokens::code(path, text), &mut found);
    found.len()
}

#[test]
fn lines_print() {
    for (folder, roots) in [
        ("src", vec!["src/lib.rs", "src/main.rs"]),
        ("proto/src", vec!["proto/src/lib.rs"]),
        (
            "driver/src",
            vec!["driver/src/lib.rs", "driver/src/main.rs"],
        ),
    ] {
        let sources: Sources = sources(folder);
        let package = Package::read(
            "x",
            &roots.iter().map(|r| r.to_string()).collect::<Vec<_>>(),
            &sources,
        );
        let mut total = 0;
        let mut files = 0;
        for file in &package.files {
            if file.path.contains("/generated/") {
                continue;
            }
            files += 1;
            total += count(&file.path, &sources[&file.path]);
        }
        println!("{folder}: {total} in {files} files");
        for (path, text) in &sources {
            let lines = text.lines().count();
            if lines > 500 && !path.contains("/generated/") {
                println!("  {path}: {lines}");
            }
        }
    }
}
