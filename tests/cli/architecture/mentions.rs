//! The paths among tokens that nobody parses: in the bodies of macros, and in attributes.
//!
//! Owns what looks like a path. Must not know modules.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Words before which `::` may stand at the beginning of a path.
const KEYWORDS: [&str; 7] = ["as", "dyn", "impl", "in", "mut", "return", "use"];

/// What a token or some of them may mean.
#[derive(Debug, PartialEq)]
pub enum Mention {
    /// A path, or a single word that may be the name of an item.
    Path(Vec<String>),
    Macro(Vec<String>),
    Method(String),
}

/// What the tokens mention, each with its line. In an attribute, what stands behind `=` may be the name of a function.
pub fn mentions(tokens: TokenStream, attribute: bool) -> Vec<(usize, Mention)> {
    let mut found = Vec::new();
    scan(tokens, &[], attribute, &mut found);
    found
}

/// `prefix` is the path whose braces hold the tokens, as in `a::{b, c}`.
fn scan(
    tokens: TokenStream,
    prefix: &[String],
    attribute: bool,
    found: &mut Vec<(usize, Mention)>,
) {
    let tokens = Tokens(tokens.into_iter().collect());
    let mut at = 0;
    while let Some(token) = tokens.0.get(at) {
        let start = at;
        at += 1;
        let line = token.span().start().line;
        let word = match token {
            TokenTree::Group(group) => {
                scan(group.stream(), &[], attribute, found);
                continue;
            }
            TokenTree::Ident(word) => word.to_string(),
            TokenTree::Punct(_) | TokenTree::Literal(_) => continue,
        };
        if KEYWORDS.contains(&word.as_str()) {
            continue;
        }
        if tokens.is_member(start) {
            let called = tokens.group(at, Delimiter::Parenthesis).is_some();
            found.extend(called.then_some((line, Mention::Method(word))));
            continue;
        }
        let mut path = prefix.to_vec();
        path.extend(tokens.first_segment(start, !prefix.is_empty()));
        let mut braces = None;
        while tokens.colons(at) && braces.is_none() {
            if let Some(TokenTree::Ident(word)) = tokens.0.get(at + 2) {
                path.push(word.to_string());
            } else if let Some(names) = tokens.group(at + 2, Delimiter::Brace) {
                braces = Some(names);
            } else {
                break;
            }
            at += 3;
        }
        if !tokens.begins_path(start, !prefix.is_empty()) {
            continue;
        }
        if let Some(names) = braces {
            scan(names, &path, attribute, found);
            continue;
        }
        // A single word is most often a variable or a field.
        let likely = path.len() > 1
            || word.starts_with(char::is_uppercase)
            || tokens.group(at, Delimiter::Parenthesis).is_some()
            || attribute && tokens.sign(start, -1) == '=';
        if tokens.sign(at, 0) == '!' && tokens.sign(at, 1) != '=' {
            found.push((line, Mention::Macro(path)));
        } else if likely {
            found.push((line, Mention::Path(path)));
        }
    }
}

struct Tokens(Vec<TokenTree>);

impl Tokens {
    /// The sign that stands so many tokens away; a blank where there is none.
    fn sign(&self, at: usize, away: isize) -> char {
        match at.checked_add_signed(away).and_then(|at| self.0.get(at)) {
            Some(TokenTree::Punct(sign)) => sign.as_char(),
            _ => ' ',
        }
    }

    fn colons(&self, at: usize) -> bool {
        self.sign(at, 0) == ':' && self.sign(at, 1) == ':'
    }

    fn follows_colons(&self, at: usize) -> bool {
        self.sign(at, -1) == ':' && self.sign(at, -2) == ':'
    }

    fn group(&self, at: usize, delimiter: Delimiter) -> Option<TokenStream> {
        match self.0.get(at) {
            Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group.stream()),
            _ => None,
        }
    }

    /// A field or method, and no end of a range.
    fn is_member(&self, at: usize) -> bool {
        self.sign(at, -1) == '.' && self.sign(at, -2) != '.'
    }

    /// What the word adds to a path: `::` before it makes it the name of a package, `self` in braces adds nothing.
    fn first_segment(&self, at: usize, within_braces: bool) -> Vec<String> {
        match self.0[at].to_string().as_str() {
            "crate" if self.sign(at, -1) == '$' => vec!["$crate".to_owned()],
            "self" if within_braces => Vec::new(),
            word if self.follows_colons(at) => vec![String::new(), word.to_owned()],
            word => vec![word.to_owned()],
        }
    }

    /// Whether a path begins at this word. What follows `>::` belongs to a type, what follows `'` is a lifetime, and what
    /// follows `$` a variable of a macro.
    fn begins_path(&self, at: usize, within_braces: bool) -> bool {
        let word = self.0[at].to_string();
        let renaming = within_braces && (at > 0 && matches!(&self.0[at - 1], TokenTree::Ident(_)));
        let of_type = self.follows_colons(at)
            && match at.checked_sub(3).map(|at| &self.0[at]) {
                Some(TokenTree::Ident(word)) => !KEYWORDS.contains(&word.to_string().as_str()),
                Some(TokenTree::Group(_)) => true,
                _ => self.sign(at, -3) == '>',
            };
        let variable = self.sign(at, -1) == '$' && word != "crate";
        !(renaming || of_type || variable || self.sign(at, -1) == '\'')
    }
}

#[test]
fn paths_are_found_among_any_tokens() {
    let path = |text: &str| Mention::Path(text.split("::").map(str::to_owned).collect());
    let method = |name: &str| Mention::Method(name.to_owned());
    let cases = [
        ("a::b", vec![path("a::b")]),
        ("a :: b :: C", vec![path("a::b::C")]),
        ("x, { y: crate::a }", vec![path("crate::a")]),
        ("$crate::a $b $b::c", vec![path("$crate::a")]),
        ("use ::tonic::Code", vec![path("::tonic::Code")]),
        ("::tonic::Code", vec![path("::tonic::Code")]),
        (
            "a::{b, c::{self, D as E}, f::*}",
            vec![path("a::b"), path("a::c"), path("a::c::D"), path("a::f")],
        ),
        ("value: value, other", vec![]),
        ("f(x)", vec![path("f")]),
        ("LIMIT", vec![path("LIMIT")]),
        ("0..LIMIT", vec![path("LIMIT")]),
        ("x.field.call(a::b)", vec![method("call"), path("a::b")]),
        ("f::<a::T>::g()", vec![path("a::T")]),
        ("<T as a::B>::c", vec![path("T"), path("a::B")]),
        ("&'a str", vec![]),
        ("x!= y", vec![]),
        (
            "vec![a::b]",
            vec![Mention::Macro(vec!["vec".to_owned()]), path("a::b")],
        ),
    ];
    for (text, expected) in cases {
        let found = mentions(text.parse().unwrap(), false);
        let found: Vec<Mention> = found.into_iter().map(|(_, mention)| mention).collect();
        assert_eq!(found, expected, "{text}");
    }
    let found = mentions("long, value_parser = size".parse().unwrap(), true);
    assert_eq!(found, [(1, path("size"))]);
}
