//! The names in a file: its paths, with those that a `use` lists, macros with `!`, methods with a dot before them, and the
//! words of texts with a quote before them.
//!
//! Must not know rules, or what a name means.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;

/// Each name with the line at which it stands first.
pub type Names = BTreeMap<String, usize>;

/// The names in the code of a file.
pub fn names(path: &str, code: &str) -> Names {
    let mut found = Names::new();
    match code.parse() {
        Ok(tokens) => read(tokens, "", &mut found),
        Err(error) => panic!("{path} is not Rust: {error}"),
    }
    found
}

/// Reads tokens. `prefix` is the path before the braces in which they stand.
fn read(tokens: TokenStream, prefix: &str, found: &mut Names) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let sign = |at: usize| match tokens.get(at) {
        Some(TokenTree::Punct(sign)) => sign.as_char(),
        _ => ' ',
    };
    let mut at = 0;
    while at < tokens.len() {
        let line = tokens[at].span().start().line;
        match &tokens[at] {
            TokenTree::Group(group) => read(group.stream(), "", found),
            TokenTree::Ident(first) => {
                let is_method = at > 0 && sign(at - 1) == '.' && (at < 2 || sign(at - 2) != '.');
                let before = if is_method { "." } else { prefix };
                let mut path = format!("{before}{first}");
                while sign(at + 1) == ':' && sign(at + 2) == ':' {
                    match tokens.get(at + 3) {
                        Some(TokenTree::Ident(word)) => path += &format!("::{word}"),
                        Some(TokenTree::Group(list)) if list.delimiter() == Delimiter::Brace => {
                            read(list.stream(), &format!("{path}::"), found);
                            path.clear();
                        }
                        _ => break,
                    }
                    at += 3;
                }
                let is_macro = sign(at + 1) == '!' && sign(at + 2) != '=';
                path.extend(is_macro.then_some('!'));
                found.entry(path).or_insert(line);
            }
            TokenTree::Literal(text) => {
                let text = text.to_string();
                let is_part = |sign: char| sign.is_alphanumeric() || "_-".contains(sign);
                for word in text.split(|sign| !is_part(sign)) {
                    found.entry(format!("\"{word}")).or_insert(line);
                }
            }
            TokenTree::Punct(_) => {}
        }
        at += 1;
    }
}

#[test]
fn names_are_found_among_any_tokens() {
    for (text, expected) in [
        ("::a::b::C", "a::b::C"),
        (
            "a::{self, b::{C, d}, e}; f",
            "|a::b::C|a::b::d|a::e|a::self|f",
        ),
        ("f!(a::b(x))", "a::b|f!|x"),
        ("x.exit(); 0..y; x != y", "\"0|.exit|x|y"),
        ("\"/c.d/e-f\"", "\"|\"c|\"d|\"e-f"),
    ] {
        let found: Vec<String> = names("fixture", text).into_keys().collect();
        assert_eq!(found.join("|"), expected, "{text}");
    }
}
