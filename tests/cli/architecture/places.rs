//! Which files name an RPC, and whether they may.

use super::graph::is_in;
use super::modules::Sources;
use super::tokens;
use csi_proto::schema::Method;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;

/// The words of one file's code, each with the line of its first occurrence.
pub struct Words {
    words: BTreeMap<String, usize>,
    /// The requests that it declares to be an RPC's.
    blocks: Vec<String>,
}

/// Files that may name RPCs for one reason.
pub struct Subject {
    pub why: &'static str,
    /// Files or folders, with the RPCs that they name; any when none is given.
    pub places: &'static [(&'static str, &'static [&'static str])],
}

impl Subject {
    /// Whether this is a reason for the file to name the RPC.
    pub fn covers(&self, path: &str, rpc: &str) -> bool {
        let covers = |(place, rpcs): &(&str, &[&str])| {
            is_in(path, place) && (rpcs.is_empty() || rpcs.contains(&rpc))
        };
        self.places.iter().any(covers)
    }
}

/// The words of each file.
pub fn words(sources: &Sources) -> BTreeMap<String, Words> {
    let read = |(path, text): (&String, &String)| {
        let mut words = Words {
            words: BTreeMap::new(),
            blocks: Vec::new(),
        };
        words.add(tokens::code(path, text));
        (path.clone(), words)
    };
    sources.iter().map(read).collect()
}

impl Words {
    fn add(&mut self, tokens: TokenStream) {
        // `impl Declare for v1::…Request`
        let mut declares = false;
        for token in tokens {
            let line = token.span().start().line;
            match token {
                TokenTree::Group(group) => self.add(group.stream()),
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    match word.as_str() {
                        "Declare" => declares = true,
                        "for" | "v1" => {}
                        _ if std::mem::take(&mut declares) => self.blocks.push(word.clone()),
                        _ => {}
                    }
                    self.words.entry(word).or_insert(line);
                }
                TokenTree::Literal(text) => {
                    let text = text.to_string();
                    for word in
                        text.split(|sign: char| !(sign.is_alphanumeric() || "_-".contains(sign)))
                    {
                        self.words.entry(word.to_owned()).or_insert(line);
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    /// The first line at which the RPC is named, and by which word.
    fn naming(&self, method: &Method) -> Option<(usize, String)> {
        let lines = names(method)
            .into_iter()
            .filter_map(|name| Some((*self.words.get(&name)?, name)));
        lines.min()
    }
}

/// The words that mean an RPC: its name, its messages, its constants among the tables, its name in kebab case.
fn names(method: &Method) -> Vec<String> {
    let snake = method.kebab_name.replace('-', "_");
    let capitals = snake.to_uppercase();
    let mut service = String::new();
    for letter in method.service.chars() {
        if letter.is_uppercase() && !service.is_empty() {
            service.push('_');
        }
        service.extend(letter.to_uppercase());
    }
    let mut names = vec![
        method.name.to_owned(),
        format!("{}Request", method.name),
        format!("{}Response", method.name),
        format!("{service}_{capitals}"),
        format!("{capitals}_REQUEST"),
        format!("{capitals}_RESPONSE"),
        format!("{snake}_request"),
        format!("{snake}_response"),
    ];
    // One word alone may be any word.
    if method.kebab_name.contains('-') {
        names.push(method.kebab_name.to_owned());
    }
    names
}

/// For each RPC the files that name it outside its own block.
pub fn places<'a>(
    methods: &[&'a Method],
    files: &'a BTreeMap<String, Words>,
    own: &str,
) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut found = BTreeMap::new();
    for method in methods {
        let naming = files.iter().filter(|(path, words)| {
            words.naming(method).is_some() && !declares(path, words, method, own)
        });
        found.insert(method.name, naming.map(|(path, _)| &**path).collect());
    }
    found
}

/// Whether a file has the RPC's own block.
fn declares(path: &str, words: &Words, method: &Method, own: &str) -> bool {
    is_in(path, own) && words.blocks.contains(&format!("{}Request", method.name))
}

/// What is wrong: files that name an RPC without a reason, RPCs without one block below the folder `own`, and entries of
/// the list that nobody needs.
pub fn misplaced(
    methods: &[&Method],
    files: &BTreeMap<String, Words>,
    own: &str,
    subjects: &[Subject],
) -> Vec<String> {
    let mut broken = Vec::new();
    let named = places(methods, files, own);
    let entries = || subjects.iter().flat_map(|subject| subject.places);
    for method in methods {
        let blocks = files
            .iter()
            .filter(|(path, words)| declares(path, words, method, own))
            .count();
        if blocks != 1 {
            broken.push(format!(
                "{} has {blocks} blocks below {own} instead of one",
                method.name
            ));
        }
        for path in &named[method.name] {
            let allowed = subjects
                .iter()
                .any(|subject| subject.covers(path, method.name));
            if !allowed && let Some((line, word)) = files[*path].naming(method) {
                broken.push(format!(
                    "{path}:{line} names {} ({word}), which its block below {own} declares: take what you need from \
                     there, or add the file, when the RPC is its subject, to the list with its reason",
                    method.name
                ));
            }
        }
    }
    for (place, rpcs) in entries() {
        let names = |rpc: &str| {
            named
                .get(rpc)
                .is_some_and(|paths| paths.iter().any(|path| is_in(path, place)))
        };
        if rpcs.is_empty() && !named.keys().any(|rpc| names(rpc)) {
            broken.push(format!(
                "{place} names no RPC any more: remove it from the list"
            ));
        }
        for rpc in rpcs.iter().filter(|rpc| !names(rpc)) {
            broken.push(format!(
                "{place} does not name {rpc} any more: remove that from the list"
            ));
        }
    }
    broken
}
