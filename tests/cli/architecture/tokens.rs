//! The tokens of a source text, without documentation and without what is built for tests alone.
//!
//! Owns the reading of `#[cfg(…)]`. Must not know modules or paths.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::{Meta, Token};

/// The code of a file: comments, documentation and everything under `#[cfg(test)]` are left out.
pub fn code(path: &str, text: &str) -> TokenStream {
    let tokens: TokenStream = text
        .parse()
        .unwrap_or_else(|error| panic!("{path} is not Rust: {error}"));
    without_tests(tokens)
}

fn without_tests(tokens: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut attributes = Vec::new();
        let mut left_out = false;
        while let Some((length, group)) = attribute(&tokens[at..]) {
            let (documentation, only_for_tests) = judge(group);
            left_out |= only_for_tests;
            if only_for_tests && length == 3 {
                return TokenStream::new();
            }
            if !documentation {
                attributes.extend_from_slice(&tokens[at..at + length]);
            }
            at += length;
        }
        if left_out {
            at += element(&tokens[at..]);
            continue;
        }
        for token in attributes.into_iter().chain(tokens.get(at).cloned()) {
            kept.push(match token {
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), without_tests(group.stream()));
                    inner.set_span(group.span());
                    TokenTree::Group(inner)
                }
                token => token,
            });
        }
        at += 1;
    }
    kept.into_iter().collect()
}

/// How many tokens the attribute has that begins here (3 for `#![…]`), and what stands in its brackets.
fn attribute(tokens: &[TokenTree]) -> Option<(usize, &Group)> {
    let sign = |at: usize, sign| matches!(tokens.get(at), Some(TokenTree::Punct(found)) if found.as_char() == sign);
    let length = match (sign(0, '#'), sign(1, '!')) {
        (true, false) => 2,
        (true, true) => 3,
        _ => return None,
    };
    match tokens.get(length - 1) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            Some((length, group))
        }
        _ => None,
    }
}

/// Whether an attribute is documentation, and whether what bears it is built for tests alone.
fn judge(attribute: &Group) -> (bool, bool) {
    match syn::parse2::<Meta>(attribute.stream()) {
        Ok(Meta::NameValue(value)) => (value.path.is_ident("doc"), false),
        Ok(Meta::Path(path)) => (false, path.is_ident("test")),
        Ok(Meta::List(list)) if list.path.is_ident("cfg") => {
            let condition: Option<Meta> = list.parse_args().ok();
            (
                false,
                condition.is_some_and(|condition| holds(&condition) == Some(false)),
            )
        }
        _ => (false, false),
    }
}

/// Whether a condition holds outside tests; nothing when that depends on features or the system.
fn holds(condition: &Meta) -> Option<bool> {
    let Meta::List(list) = condition else {
        return condition.path().is_ident("test").then_some(false);
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    let parts: Vec<Option<bool>> = parts.ok()?.iter().map(holds).collect();
    let decided = |by: bool| match parts.contains(&Some(by)) {
        true => Some(by),
        false if parts.contains(&None) => None,
        false => Some(!by),
    };
    match list.path.get_ident()?.to_string().as_str() {
        "not" => parts.first().copied().flatten().map(|part| !part),
        "all" => decided(false),
        "any" => decided(true),
        _ => None,
    }
}

/// How many tokens the item, statement, field, variant or arm has that begins here.
fn element(tokens: &[TokenTree]) -> usize {
    let word = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(word)) => word.to_string(),
        Some(TokenTree::Punct(sign)) => sign.as_char().to_string(),
        _ => String::new(),
    };
    let mut first = 0;
    if word(0) == "pub" {
        first = match tokens.get(1) {
            Some(TokenTree::Group(_)) => 2,
            _ => 1,
        };
    }
    let second = word(first + 1);
    let field = second == ":" && word(first + 2) != ":";
    let ends = match word(first).as_str() {
        _ if field => Ends::Comma,
        "const" if !matches!(&*second, "fn" | "unsafe" | "async" | "extern") => Ends::Semicolon,
        "use" | "static" | "type" | "let" | "return" => Ends::Semicolon,
        "fn" | "struct" | "enum" | "impl" | "trait" | "mod" | "union" | "async" | "unsafe"
        | "const" | "extern" | "macro_rules" => Ends::Body,
        "if" | "match" | "for" | "while" | "loop" => Ends::LastBody,
        _ if second == "!" => Ends::Body,
        _ => Ends::Comma,
    };
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Punct(sign) => match sign.as_char() {
                ';' => return at + 1,
                '<' => depth += 1,
                '>' if at > 0 && !matches!(&*word(at - 1), "-" | "=") => depth -= 1,
                ',' if ends == Ends::Comma && depth == 0 => return at + 1,
                _ => {}
            },
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let over = match ends {
                    Ends::Semicolon => false,
                    Ends::Body => true,
                    Ends::LastBody => word(at + 1) != "else",
                    // The body of an arm, which needs no comma.
                    Ends::Comma => at > 1 && word(at - 2) == "=" && word(at - 1) == ">",
                };
                if over {
                    return at + 1 + usize::from(ends == Ends::Comma && word(at + 1) == ",");
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// By what an element of the code ends.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Semicolon,
    Body,
    LastBody,
    Comma,
}
