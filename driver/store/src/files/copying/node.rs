//! One folder on its way through a copy, with its place in the tree and what is left to do for it. Must not do I/O.

use super::attributes::{Attribute, Basics};
use super::named::Named;
use super::view::View;
use crate::files::descriptors::Held;
use csi_proto::lock::lock;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard};

/// A folder on its way.
pub(super) struct Node {
    pub parent: Option<Arc<Node>>,
    pub name: CString,
    pub state: Mutex<State>,
    /// Its listing, batches and folders that are not done.
    pub unfinished: AtomicUsize,
}

#[derive(Default)]
pub(super) struct State {
    /// Those that are kept open, one a view.
    pub pairs: Vec<Arc<Pair>>,
    /// The right to keep them.
    pub held: Vec<Held>,
    /// Whether it has so many names that they are made through several views.
    pub is_wide: bool,
    /// What the folder is to get in the end, its ACLs among it; nothing when it went away before it was copied.
    pub rest: Option<(Basics, Vec<Attribute>)>,
}

/// A folder of a copy as one view shows it.
pub(super) struct Pair {
    pub view: Arc<View>,
    pub source: OwnedFd,
    pub target: OwnedFd,
}

impl Pair {
    /// The entry `name` on both sides.
    pub fn named<'a>(&'a self, name: &'a CStr) -> [Named<'a>; 2] {
        [&self.source, &self.target].map(|folder| Named { folder, name })
    }
}

impl State {
    pub fn pair(&self, view: &Arc<View>) -> Option<Arc<Pair>> {
        let pair = self.pairs.iter().find(|pair| Arc::ptr_eq(&pair.view, view));
        pair.map(Arc::clone)
    }
}

impl Node {
    pub fn new(parent: Option<Arc<Node>>, name: CString) -> Arc<Self> {
        Arc::new(Self {
            parent,
            name,
            state: Mutex::default(),
            unfinished: AtomicUsize::new(1),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Itself and the folders above it, without the root.
    pub fn chain(self: &Arc<Self>) -> Vec<Arc<Node>> {
        let mut chain = Vec::new();
        let mut at = Arc::clone(self);
        while let Some(parent) = at.parent.clone() {
            chain.push(at);
            at = parent;
        }
        chain
    }

    /// The path from the root, for people.
    pub fn path(self: &Arc<Self>, name: Option<&CStr>) -> String {
        let chain = self.chain();
        let mut names: Vec<_> = chain.iter().rev().map(|node| &*node.name).collect();
        names.extend(name);
        let texts: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        let path = texts.join("/");
        match path.char_indices().rev().nth(400) {
            Some((at, _)) => format!("…{}", &path[at..]),
            None if path.is_empty() => ".".to_owned(),
            None => path,
        }
    }
}

impl Drop for Node {
    /// One after the other: a deep tree would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(node) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}
