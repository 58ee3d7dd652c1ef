//! Who names an RPC: its own block in `src/rpc/`, and the files whose subject it is. Nobody else.

use super::sources;
use super::tokens;
use csi_proto::schema::Method;
use csi_proto::tables::METHODS;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// The words of a text's code: identifiers, and words in the texts it holds.
fn words(tokens: TokenStream, found: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => words(group.stream(), found),
            TokenTree::Ident(word) => {
                found.insert(word.to_string());
            }
            TokenTree::Literal(text) => {
                let text = text.to_string();
                let parts =
                    text.split(|sign: char| !(sign.is_alphanumeric() || "_-".contains(sign)));
                found.extend(parts.map(|word| format!("\"{word}")));
            }
            TokenTree::Punct(_) => {}
        }
    }
}

fn plain(word: &str) -> String {
    word.chars()
        .filter(|sign| sign.is_alphanumeric())
        .collect::<String>()
        .to_lowercase()
}

fn names(method: &Method) -> BTreeSet<String> {
    let name = plain(method.name);
    let service = plain(method.service);
    BTreeSet::from([
        format!("{name}request"),
        format!("{name}response"),
        format!("{service}{name}"),
        name,
    ])
}

#[test]
fn one_place_print() {
    let mut files = BTreeMap::new();
    for folder in ["src", "driver/src", "proto/src"] {
        for (path, text) in sources(folder) {
            if path.contains("generated/") {
                continue;
            }
            let mut found = BTreeSet::new();
            words(tokens::code(&path, &text), &mut found);
            files.insert(path, found);
        }
    }
    for method in METHODS {
        let names = names(method);
        println!("{}", method.name);
        for (path, words) in &files {
            let used: Vec<&str> = words
                .iter()
                .filter(|word| names.contains(&plain(word)))
                .map(String::as_str)
                .collect();
            if !used.is_empty() {
                println!("  {path}: {}", used.join(" "));
            }
        }
    }
}
