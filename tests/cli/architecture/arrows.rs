//! The arrows of a package: which file takes which name from which other file or package.
//!
//! Owns the walk over code, and over the tokens of macros and attributes. The call of a method is no arrow, for types alone
//! tell whose it is. Must not know rules.

use super::mentions::{Mention, mentions};
use super::modules::{Found, Package, is_reexport, leaves};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{Block, Item, Meta, Pat, Stmt};

/// A file takes a name from somewhere.
#[derive(Clone, Debug)]
pub struct Arrow {
    pub from: usize,
    pub line: usize,
    /// The path as it stands there.
    pub path: String,
    pub to: Target,
}

/// Where a name comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    File(usize),
    /// A path into another package, from its name on; `::*` at the end of an import of everything.
    Outside(String),
    /// A method, whoever has it.
    Method(String),
}

/// Every arrow of the package, in the order of the files.
pub fn arrows(package: &mut Package) -> Vec<Arrow> {
    let mut found = Vec::new();
    for file in 0..package.files.len() {
        let items = std::mem::take(&mut package.files[file].items);
        let mut walk = Walk {
            file,
            scope: package.files[file].scope,
            locals: HashSet::new(),
            package,
            found: &mut found,
        };
        for item in &items {
            walk.visit_item(item);
        }
        package.files[file].items = items;
    }
    found
}

struct Walk<'a> {
    package: &'a mut Package,
    file: usize,
    scope: usize,
    /// Names of variables and parameters in the function that is walked.
    locals: HashSet<String>,
    found: &'a mut Vec<Arrow>,
}

impl Walk<'_> {
    fn take(&mut self, path: &[String], line: usize, found: Option<Found>) {
        let to = match found {
            // A name alone that means a module is a variable of the same name.
            Some(Found::Module(_)) if path.len() == 1 => return,
            Some(Found::Module(scope)) => Target::File(self.package.file_of(scope)),
            Some(Found::Item { file, .. }) => Target::File(file),
            Some(Found::Outside(path)) => Target::Outside(path.join("::")),
            None => return,
        };
        self.add(path, line, to);
    }

    fn add(&mut self, path: &[String], line: usize, to: Target) {
        if to != Target::File(self.file) {
            self.found.push(Arrow {
                from: self.file,
                line,
                path: path.join("::"),
                to,
            });
        }
    }

    fn path(&mut self, path: &[String], line: usize) {
        if path.len() == 1 && self.locals.contains(&path[0]) {
            return;
        }
        let found = self.package.find(self.scope, path);
        self.take(path, line, found);
    }

    /// A macro that nobody declares is one of the standard library.
    fn macro_name(&mut self, path: &[String], line: usize) {
        let found = self.package.find(self.scope, path);
        let standard = || Some(Found::Outside(vec!["std".to_owned(), path[0].clone()]));
        let found = match path.len() {
            1 => found.or_else(standard),
            _ => found,
        };
        self.take(path, line, found);
    }

    fn import(&mut self, item: &syn::ItemUse) {
        for leaf in leaves(item) {
            let outside = |mut path: Vec<String>| {
                path.extend(leaf.glob.then(|| "*".to_owned()));
                Target::Outside(path.join("::"))
            };
            let found = self.package.find(self.scope, &leaf.path);
            let below = match &found {
                Some(Found::Module(scope) | Found::Item { scope, .. }) => {
                    self.package.is_below(*scope, self.scope)
                }
                _ => false,
            };
            if is_reexport(item) && below {
                continue;
            }
            let to = match found {
                Some(Found::Module(scope)) => Target::File(self.package.file_of(scope)),
                Some(Found::Item { file, .. }) => Target::File(file),
                Some(Found::Outside(path)) => outside(path),
                // A name alone is that of a package.
                None => outside(leaf.path.clone()),
            };
            self.add(&leaf.path, leaf.line, to);
        }
    }

    fn function(&mut self, inner: impl FnOnce(&mut Self), patterns: impl FnOnce(&mut Variables)) {
        let mut variables = Variables(self.locals.clone());
        patterns(&mut variables);
        let around = std::mem::replace(&mut self.locals, variables.0);
        inner(self);
        self.locals = around;
    }

    fn tokens(&mut self, tokens: TokenStream, attribute: bool) {
        for (line, mention) in mentions(tokens, attribute) {
            match mention {
                Mention::Path(path) => self.path(&path, line),
                Mention::Macro(path) => self.macro_name(&path, line),
                Mention::Method(name) => self.add(&[], line, Target::Method(name)),
            }
        }
    }

    /// Paths in the texts of serde's attributes, such as `with = "crate::size"`.
    fn texts(&mut self, tokens: TokenStream) {
        for token in tokens {
            if let TokenTree::Literal(text) = &token
                && let Ok(text) = syn::parse_str::<syn::LitStr>(&text.to_string())
                && let Ok(path) = text.parse::<syn::Path>()
            {
                self.path(&segments(&path), token.span().start().line);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let inner = self.package.inline(self.scope, &item.ident.to_string());
        if let (Some((_, items)), Some(inner)) = (&item.content, inner) {
            let around = std::mem::replace(&mut self.scope, inner);
            for item in items {
                self.visit_item(item);
            }
            self.scope = around;
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(item);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let items: Vec<Item> = block
            .stmts
            .iter()
            .filter_map(|statement| match statement {
                Stmt::Item(item) => Some(item.clone()),
                _ => None,
            })
            .collect();
        let around = self.scope;
        if !items.is_empty() {
            self.scope = self.package.open_block(self.file, around, &items);
        }
        visit::visit_block(self, block);
        self.scope = around;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let patterns = |variables: &mut Variables| variables.visit_item_fn(item);
        self.function(|walk| visit::visit_item_fn(walk, item), patterns);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let patterns = |variables: &mut Variables| variables.visit_impl_item_fn(item);
        self.function(|walk| visit::visit_impl_item_fn(walk, item), patterns);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let patterns = |variables: &mut Variables| variables.visit_trait_item_fn(item);
        self.function(|walk| visit::visit_trait_item_fn(walk, item), patterns);
    }

    fn visit_expr_closure(&mut self, item: &'ast syn::ExprClosure) {
        let patterns = |variables: &mut Variables| variables.visit_expr_closure(item);
        self.function(|walk| visit::visit_expr_closure(walk, item), patterns);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let line = path.segments[0].ident.span().start().line;
        self.path(&segments(path), line);
        visit::visit_path(self, path);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.to_string();
        if name.starts_with(char::is_uppercase) {
            self.path(&[name], pattern.ident.span().start().line);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let line = call.method.span().start().line;
        self.add(&[], line, Target::Method(call.method.to_string()));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let line = item.path.segments[0].ident.span().start().line;
        self.macro_name(&segments(&item.path), line);
        self.tokens(item.tokens.clone(), false);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        match &attribute.meta {
            Meta::List(list) if list.path.is_ident("cfg") => {}
            Meta::List(list) => {
                self.tokens(list.tokens.clone(), true);
                if list.path.is_ident("serde") {
                    self.texts(list.tokens.clone());
                }
            }
            meta => visit::visit_meta(self, meta),
        }
    }

    /// Who may see an item is no use of a module.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn segments(path: &syn::Path) -> Vec<String> {
    let mut segments = Vec::new();
    if path.leading_colon.is_some() {
        segments.push(String::new());
    }
    segments.extend(path.segments.iter().map(|part| part.ident.to_string()));
    segments
}

/// Collects the variables of a function, whose names may be those of modules and functions.
struct Variables(HashSet<String>);

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat(&mut self, pattern: &'ast Pat) {
        if let Pat::Ident(pattern) = pattern {
            let name = pattern.ident.to_string();
            if !name.starts_with(char::is_uppercase) {
                self.0.insert(name);
            }
        }
        visit::visit_pat(self, pattern);
    }
}
