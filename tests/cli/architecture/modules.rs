//! The modules of a package: which file each stands in, and what its names mean.
//!
//! Owns the way from a path to the file that defines what it names, through imports and re-exports. Must not know rules.

use super::tokens;
use std::collections::{BTreeMap, HashMap};
use syn::{Expr, Item, Lit, UseTree, Visibility};

/// Source texts by their paths below the root of the repository.
pub type Sources = BTreeMap<String, String>;

/// One package: its files, and the scopes of names in them.
pub struct Package {
    /// How other packages, and its own `main.rs`, call it.
    name: String,
    pub files: Vec<File>,
    scopes: Vec<Scope>,
}

/// One source file.
pub struct File {
    pub path: String,
    pub items: Vec<Item>,
    /// The module whose content the file is.
    pub scope: usize,
}

/// A module, or a block of code with items of its own.
struct Scope {
    file: usize,
    parent: Option<usize>,
    block: bool,
    /// Where the files of child modules are.
    folder: String,
    names: HashMap<String, Vec<Binding>>,
    globs: Vec<Vec<String>>,
}

/// What a name means in a scope.
#[derive(Clone)]
enum Binding {
    Module(usize),
    /// Defined in this file.
    Item(usize),
    Import(Vec<String>),
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Module(usize),
    Item {
        scope: usize,
        file: usize,
    },
    /// A path into another package.
    Outside(Vec<String>),
}

/// One name that a `use` brings in.
pub struct Leaf {
    pub path: Vec<String>,
    pub line: usize,
    /// The name in this scope; none for `_` and for a glob.
    name: Option<String>,
    pub glob: bool,
}

impl Package {
    /// Reads the package of this name from a folder, with these roots in it, the library's first.
    pub fn read(name: &str, folder: &str, roots: &[&str], sources: &Sources) -> Self {
        let mut package = Self {
            name: name.to_owned(),
            files: Vec::new(),
            scopes: Vec::new(),
        };
        for root in roots {
            package.read_file(&format!("{folder}/{root}"), None, folder, sources);
        }
        package
    }

    fn read_file(
        &mut self,
        path: &str,
        parent: Option<usize>,
        folder: &str,
        sources: &Sources,
    ) -> usize {
        let scope = self.open(self.files.len(), parent, false, folder);
        self.read_items(path, scope, sources);
        scope
    }

    fn read_items(&mut self, path: &str, scope: usize, sources: &Sources) {
        let text = sources
            .get(path)
            .unwrap_or_else(|| panic!("{path} does not exist"));
        let parsed = syn::parse2::<syn::File>(tokens::code(path, text));
        let items = match parsed {
            Ok(file) => file.items,
            Err(error) => panic!("{path}:{}: {error}", error.span().start().line),
        };
        let file = self.files.len();
        self.files.push(File {
            path: path.to_owned(),
            items: Vec::new(),
            scope,
        });
        self.declare(scope, file, &items, Some(sources));
        self.files[file].items = items;
    }

    fn open(&mut self, file: usize, parent: Option<usize>, block: bool, folder: &str) -> usize {
        self.scopes.push(Scope {
            file,
            parent,
            block,
            folder: folder.to_owned(),
            names: HashMap::new(),
            globs: Vec::new(),
        });
        self.scopes.len() - 1
    }

    /// Opens a scope for a block that has items of its own.
    pub fn open_block(&mut self, file: usize, around: usize, items: &[Item]) -> usize {
        let block = self.open(file, Some(around), true, "");
        self.declare(block, file, items, None);
        block
    }

    fn declare(&mut self, scope: usize, file: usize, items: &[Item], sources: Option<&Sources>) {
        for item in items {
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let folder = format!("{}/{name}", self.scopes[scope].folder);
                    let child = match (&module.content, sources) {
                        (Some((_, items)), _) => {
                            let child = self.open(file, Some(scope), false, &folder);
                            self.declare(child, file, items, sources);
                            child
                        }
                        (None, Some(sources)) => {
                            let flat = format!("{folder}.rs");
                            let path = match sources.contains_key(&flat) {
                                true => flat,
                                false => format!("{folder}/mod.rs"),
                            };
                            self.read_file(&path, Some(scope), &folder, sources)
                        }
                        (None, None) => continue,
                    };
                    self.bind(scope, &name, Binding::Module(child));
                }
                Item::Use(item) => {
                    for leaf in leaves(item) {
                        if leaf.glob {
                            self.scopes[scope].globs.push(leaf.path);
                        } else if let Some(name) = &leaf.name {
                            self.bind(scope, name, Binding::Import(leaf.path));
                        }
                    }
                }
                Item::Macro(item) if item.mac.path.is_ident("include") => {
                    if let (Ok(Expr::Lit(text)), Some(sources)) = (item.mac.parse_body(), sources)
                        && let Lit::Str(text) = text.lit
                    {
                        let folder = self.files[file].path.rsplit_once('/');
                        let folder = folder.map_or("", |(folder, _)| folder);
                        self.read_items(&format!("{folder}/{}", text.value()), scope, sources);
                    }
                }
                item => {
                    let name = match item {
                        Item::Const(item) => &item.ident,
                        Item::Enum(item) => &item.ident,
                        Item::Fn(item) => &item.sig.ident,
                        Item::Static(item) => &item.ident,
                        Item::Struct(item) => &item.ident,
                        Item::Trait(item) => &item.ident,
                        Item::Type(item) => &item.ident,
                        Item::Union(item) => &item.ident,
                        Item::Macro(item) => match &item.ident {
                            Some(name) => name,
                            None => continue,
                        },
                        _ => continue,
                    };
                    self.bind(scope, &name.to_string(), Binding::Item(file));
                }
            }
        }
    }

    fn bind(&mut self, scope: usize, name: &str, binding: Binding) {
        let names = &mut self.scopes[scope].names;
        names.entry(name.to_owned()).or_default().push(binding);
    }

    /// The file in which a scope stands.
    pub fn file_of(&self, scope: usize) -> usize {
        self.scopes[scope].file
    }

    /// The scope of a module that is declared, with its content, in this scope.
    pub fn inline(&self, scope: usize, name: &str) -> Option<usize> {
        let bindings = self.scopes[scope].names.get(name)?;
        bindings.iter().find_map(|binding| match binding {
            Binding::Module(module) => Some(*module),
            _ => None,
        })
    }

    /// Whether a scope is this module or lies below it.
    pub fn is_below(&self, scope: usize, module: usize) -> bool {
        let module = self.module_of(module);
        let mut scope = Some(scope);
        while let Some(at) = scope {
            if at == module {
                return true;
            }
            scope = self.scopes[at].parent;
        }
        false
    }

    fn module_of(&self, mut scope: usize) -> usize {
        while self.scopes[scope].block {
            match self.scopes[scope].parent {
                Some(parent) => scope = parent,
                None => break,
            }
        }
        scope
    }

    fn root_of(&self, mut scope: usize) -> usize {
        while let Some(parent) = self.scopes[scope].parent {
            scope = parent;
        }
        scope
    }

    /// What a path leads to that stands in this scope; nothing for a variable, a type parameter, or a name of the prelude.
    pub fn find(&self, scope: usize, path: &[String]) -> Option<Found> {
        self.walk(scope, path, false, &mut Vec::new())
    }

    fn walk(
        &self,
        scope: usize,
        path: &[String],
        prefix: bool,
        seen: &mut Vec<(usize, String, bool)>,
    ) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        let module = self.module_of(scope);
        let mut found = match first.as_str() {
            "crate" | "$crate" => Found::Module(self.root_of(scope)),
            "self" => Found::Module(module),
            "super" => Found::Module(self.scopes[module].parent.unwrap_or(module)),
            "" => return Some(Found::Outside(rest.to_vec())),
            name => match self.lexical(scope, name, prefix || !rest.is_empty(), seen) {
                Some(found) => found,
                None if name == self.name => Found::Module(0),
                // A type that nobody declares here is a parameter or comes from the prelude.
                None if rest.is_empty() || name.starts_with(char::is_uppercase) => return None,
                None => Found::Outside(vec![name.to_owned()]),
            },
        };
        for (index, name) in rest.iter().enumerate() {
            let prefix = prefix || index + 1 < rest.len();
            found = match found {
                Found::Module(module) => match name.as_str() {
                    "self" => Found::Module(module),
                    "super" => Found::Module(self.scopes[module].parent.unwrap_or(module)),
                    // What is not found was made by a macro of that module.
                    name => self
                        .member(module, name, prefix, seen)
                        .unwrap_or(Found::Item {
                            scope: module,
                            file: self.scopes[module].file,
                        }),
                },
                Found::Item { .. } => return Some(found),
                Found::Outside(mut path) => {
                    path.push(name.clone());
                    Found::Outside(path)
                }
            };
        }
        Some(found)
    }

    fn lexical(
        &self,
        scope: usize,
        name: &str,
        prefix: bool,
        seen: &mut Vec<(usize, String, bool)>,
    ) -> Option<Found> {
        let mut scope = scope;
        loop {
            let found = self.member(scope, name, prefix, seen);
            if found.is_some() || !self.scopes[scope].block {
                return found;
            }
            scope = self.scopes[scope].parent?;
        }
    }

    /// What a name means in this very scope. Before `::` a module goes before an item of the same name, at the end it does not.
    fn member(
        &self,
        scope: usize,
        name: &str,
        prefix: bool,
        seen: &mut Vec<(usize, String, bool)>,
    ) -> Option<Found> {
        let step = (scope, name.to_owned(), prefix);
        if seen.contains(&step) {
            return None;
        }
        seen.push(step);
        let bindings = self.scopes[scope].names.get(name);
        let mut candidates: Vec<Found> = Vec::new();
        for binding in bindings.into_iter().flatten() {
            candidates.extend(match binding {
                Binding::Module(module) => Some(Found::Module(*module)),
                Binding::Item(file) => Some(Found::Item { scope, file: *file }),
                Binding::Import(path) => self.walk(scope, path, prefix, seen).or_else(|| {
                    (path.len() == 1 && path[0] != name).then(|| Found::Outside(path.clone()))
                }),
            });
        }
        if candidates.is_empty() {
            for glob in &self.scopes[scope].globs {
                if let Some(Found::Module(module)) = self.walk(scope, glob, true, seen) {
                    candidates.extend(self.member(module, name, prefix, seen));
                }
            }
        }
        seen.pop();
        let is_module = |found: &&Found| matches!(found, Found::Module(_)) == prefix;
        let chosen = candidates.iter().find(is_module).or(candidates.first());
        chosen.cloned()
    }
}

/// The names that a `use` brings in.
pub fn leaves(item: &syn::ItemUse) -> Vec<Leaf> {
    let mut path = Vec::new();
    if item.leading_colon.is_some() {
        path.push(String::new());
    }
    let mut leaves = Vec::new();
    branch(&item.tree, path, &mut leaves);
    leaves
}

/// Whether a `use` hands its names on.
pub fn is_reexport(item: &syn::ItemUse) -> bool {
    !matches!(item.vis, Visibility::Inherited)
}

fn branch(tree: &UseTree, mut path: Vec<String>, leaves: &mut Vec<Leaf>) {
    let mut leaf = |path, line, name, glob| {
        leaves.push(Leaf {
            path,
            line,
            name,
            glob,
        });
    };
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            branch(&tree.tree, path, leaves);
        }
        UseTree::Name(tree) => {
            let line = tree.ident.span().start().line;
            if tree.ident == "self" {
                let name = path.last().cloned();
                leaf(path, line, name, false);
            } else {
                path.push(tree.ident.to_string());
                leaf(path, line, Some(tree.ident.to_string()), false);
            }
        }
        UseTree::Rename(tree) => {
            if tree.ident != "self" {
                path.push(tree.ident.to_string());
            }
            let name = (tree.rename != "_").then(|| tree.rename.to_string());
            leaf(path, tree.ident.span().start().line, name, false);
        }
        UseTree::Glob(tree) => leaf(path, tree.star_token.spans[0].start().line, None, true),
        UseTree::Group(tree) => {
            for tree in &tree.items {
                branch(tree, path.clone(), leaves);
            }
        }
    }
}
