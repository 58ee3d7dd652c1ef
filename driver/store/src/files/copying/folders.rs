//! The folders of a copy, each in the source and in the target, through one view or several: entered, kept open or opened again, looked for when a server
//! does not know them, and given their attributes in the end. The order in which that is done is the business of `tree`.

use super::attributes::{self, Attribute, Basics};
use super::entry::EntryCopier;
use super::error::CopyError;
use super::node::{Node, Pair, State};
use super::report::LeftOut;
use super::tree::Tree;
use super::view::{View, is_same};
use crate::files::beneath;
use crate::files::crash_points;
use crate::files::descriptors::Held;
use crate::files::walking::listing::Listing;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pairs of folders that are kept open.
const OPEN: usize = 96;
/// Folders that lie so far above where a thread works are closed first.
const FAR: usize = OPEN / 2;
/// What the ACLs of folders take in memory at most that are not finished: of all from the top to where each thread is.
const ACLS: usize = 16 << 20;

impl Tree<'_> {
    /// Makes the folder in the target and opens both. Nothing when there is nothing to list.
    pub(super) fn enter(
        &self,
        node: &Arc<Node>,
        copier: &mut EntryCopier<'_>,
    ) -> Result<Option<(Arc<Pair>, Listing)>, CopyError> {
        let failed = |context| {
            let node = Arc::clone(node);
            move |error: io::Error| CopyError::io(context, node.path(None), error)
        };
        let gone = || {
            self.leave_out(node, None);
            Ok(None)
        };
        let name = OsStr::from_bytes(node.name.to_bytes());
        let above = match &node.parent {
            None => None,
            Some(parent) => match self.pair(parent)? {
                Some(above) => Some((parent, above)),
                None => return gone(),
            },
        };
        let source = match &above {
            None => (self.first.source.try_clone()).map_err(failed("opening"))?,
            Some((parent, above)) => {
                let opened = crash_points::ask().map_err(io::Error::from);
                match opened.and_then(|()| beneath::folder(&above.source, name)) {
                    Ok(source) => source,
                    Err(error) => match beneath::errno(&error) {
                        Some(Errno::XDEV) => {
                            self.course
                                .omissions
                                .add(LeftOut::Mount, || node.path(None));
                            self.make(node, parent, above)?;
                            return Ok(None);
                        }
                        Some(Errno::NOENT) => return gone(),
                        Some(Errno::STALE)
                            if self.is_gone(parent, &above.source, Some(&node.name))? =>
                        {
                            return gone();
                        }
                        // No folder any more.
                        Some(Errno::LOOP | Errno::NOTDIR) => {
                            self.entry(parent, above, &node.name, FileType::Unknown, copier)?;
                            return Ok(None);
                        }
                        _ => return Err(failed("opening")(error)),
                    },
                }
            }
        };
        let ((basics, names), listing) = match self.look(node, &source, copier) {
            Err(error) if error.is_stale() && self.is_gone(node, &source, None)? => return gone(),
            other => other?,
        };
        let target = match &above {
            None => self.first.target.try_clone(),
            Some((parent, above)) => {
                self.make(node, parent, above)?;
                beneath::folder(&above.target, name)
            }
        };
        let target = target.map_err(failed("opening the copy of"))?;
        let basics = match (self.first.owner, &above) {
            (Some(owner), None) => basics.owned_by(owner),
            _ => basics,
        };
        let acls = match self.attributes(node, [&source, &target], &names, copier) {
            Err(Errno::STALE) if self.is_gone(node, &source, None)? => {
                if let Some((_, above)) = &above {
                    // What was made of it goes where it can.
                    let _ = fs::unlinkat(&above.target, name, AtFlags::REMOVEDIR);
                }
                return gone();
            }
            acls => acls.map_err(|error| failed("giving its attributes to")(error.into()))?,
        };
        node.lock().rest = Some((basics, acls));
        let view = Arc::clone(&self.first);
        let pair = Pair {
            view,
            source,
            target,
        };
        Ok(Some((self.keep(node, pair), listing)))
    }

    /// What the node's open folder is to get, of its attributes the names, and the beginning of its list.
    fn look(
        &self,
        node: &Arc<Node>,
        source: &OwnedFd,
        copier: &mut EntryCopier<'_>,
    ) -> Result<((Basics, Vec<u8>), Listing), CopyError> {
        let failed = |context, error| CopyError::io(context, node.path(None), error);
        let stat = fs::fstat(source).map_err(|error| failed("looking at", error.into()))?;
        let names = attributes::names(source, self.course, &mut copier.names, || node.path(None))
            .map_err(|error| failed("reading the attributes of", error.into()))?;
        let listing =
            Listing::open(source, self.course.remote).map_err(|error| failed("listing", error))?;
        Ok(((Basics::of(&stat), names), listing))
    }

    /// Gives a new folder the attributes with `names` of its source, but for ACLs. Those are returned.
    fn attributes(
        &self,
        node: &Arc<Node>,
        [source, target]: [&OwnedFd; 2],
        names: &[u8],
        copier: &mut EntryCopier<'_>,
    ) -> rustix::io::Result<Vec<Attribute>> {
        let (course, path) = (self.course, || node.path(None));
        let (buffer, is_acl) = (&mut copier.names, attributes::is_acl);
        let given = |name: &CStr, value: &[u8]| {
            attributes::set(target, name, value, &course.omissions, path)
        };
        attributes::each(
            (source, names),
            course,
            buffer,
            path,
            |it| !is_acl(it),
            given,
        )?;
        let mut acls = Vec::new();
        attributes::each(
            (source, names),
            course,
            buffer,
            path,
            is_acl,
            |name, value| {
                acls.push(Attribute::new(name.to_owned(), value.to_vec()));
                Ok(())
            },
        )?;
        let held = size(&acls);
        match self.acls.fetch_add(held, Ordering::Relaxed) + held > ACLS {
            true => Err(Errno::TOOBIG),
            false => Ok(acls),
        }
    }

    /// Makes the node's folder in the target, in that of `parent`.
    fn make(
        &self,
        node: &Arc<Node>,
        parent: &Arc<Node>,
        above: &Arc<Pair>,
    ) -> Result<(), CopyError> {
        let above = self.in_its_turn(parent, above);
        fs::mkdirat(&above.target, &*node.name, Mode::RWXU)
            .map_err(|error| CopyError::io("making", node.path(None), error))?;
        self.course.progress.count(0);
        Ok(())
    }

    /// Keeps the folders open for those who need them next, if there may be so many.
    fn keep(&self, node: &Arc<Node>, pair: Pair) -> Arc<Pair> {
        let mut state = node.lock();
        if let Some(known) = state.pair(&pair.view) {
            return known;
        }
        let pair = Arc::new(pair);
        if self.open.load(Ordering::Relaxed) < OPEN
            && let Some(held) = Held::take(2)
        {
            self.open.fetch_add(1, Ordering::Relaxed);
            state.held.push(held);
            state.pairs.push(Arc::clone(&pair));
        }
        pair
    }

    /// The node's two folders, opened again where they were closed; nothing when the source is gone.
    pub(super) fn pair(&self, node: &Arc<Node>) -> Result<Option<Arc<Pair>>, CopyError> {
        let view = &self.first;
        if let Some(pair) = node.lock().pair(view) {
            return Ok(Some(pair));
        }
        let failed = |error| CopyError::io("opening", node.path(None), error);
        let source = match walk(view, node, Side::Source) {
            Ok(source) => source,
            Err(_) => match self.find(node).map_err(failed)? {
                Some(source) => source,
                None => return Ok(None),
            },
        };
        let target = walk(view, node, Side::Target).map_err(failed)?;
        let view = Arc::clone(view);
        let pair = Pair {
            view,
            source,
            target,
        };
        Ok(Some(self.keep(node, pair)))
    }

    /// The node's two folders, which `first` has open, as the view shows them whose turn it is. As the first view does where the
    /// folder has few names, or where the other does not show the same.
    pub(super) fn in_its_turn(&self, node: &Arc<Node>, first: &Arc<Pair>) -> Arc<Pair> {
        let view = match node.lock().is_wide {
            true => self.views.next(),
            false => return Arc::clone(first),
        };
        if let Some(pair) = node.lock().pair(&view) {
            return pair;
        }
        let [source, target] = [Side::Source, Side::Target].map(|side| walk(&view, node, side));
        match (source, target) {
            (Ok(source), Ok(target))
                if is_same(&source, &first.source) && is_same(&target, &first.target) =>
            {
                let pair = Pair {
                    view,
                    source,
                    target,
                };
                self.keep(node, pair)
            }
            _ => Arc::clone(first),
        }
    }

    /// Notes that the node's folder, or `name` in it, went away before it was copied.
    pub(super) fn leave_out(&self, node: &Arc<Node>, name: Option<&CStr>) {
        self.course
            .omissions
            .add(LeftOut::Vanished, || node.path(name));
    }

    /// Whether the node's open folder, or `name` in it, of which a server has said ESTALE, is gone for certain. A server that
    /// fails over says so for a moment of what is there.
    pub(super) fn is_gone(
        &self,
        node: &Arc<Node>,
        folder: &OwnedFd,
        name: Option<&CStr>,
    ) -> Result<bool, CopyError> {
        let failed = |error| CopyError::io("looking for", node.path(name), error);
        let Some(there) = self.find(node).map_err(failed)? else {
            return Ok(true);
        };
        if beneath::refresh(folder).is_err() {
            // What is there now is a newer one, if the server still knows that.
            return beneath::refresh(&there).map(|()| true).map_err(failed);
        }
        let Some(name) = name else {
            return Ok(false);
        };
        match fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(false),
            Err(Errno::NOENT) => Ok(true),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Opens the node's folder in the source, asking the server for each of those above it; nothing when one is not there.
    fn find(&self, node: &Arc<Node>) -> io::Result<Option<OwnedFd>> {
        let mut at = beneath::folder(&self.first.source, ".")?;
        for next in node.chain().iter().rev() {
            beneath::refresh(&at)?;
            let name = OsStr::from_bytes(next.name.to_bytes());
            at = match beneath::folder(&at, name) {
                Ok(folder) => folder,
                Err(error) => match beneath::errno(&error) {
                    Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {
                        return Ok(None);
                    }
                    _ => return Err(error),
                },
            };
        }
        beneath::refresh(&at)?;
        Ok(Some(at))
    }

    /// Closes a folder where many are open: of a deep tree one far above, for what comes next lies below this one.
    pub(super) fn close_if_many(&self, node: &Arc<Node>) {
        if self.open.load(Ordering::Relaxed) < OPEN {
            return;
        }
        let above = std::iter::successors(node.parent.as_ref(), |above| above.parent.as_ref());
        let far = above.take(2 * OPEN).skip(FAR);
        let far = far.filter(|it| !it.lock().pairs.is_empty()).last();
        self.close(&mut far.unwrap_or(node).lock());
    }

    /// Closes what is kept open of a folder, and returns it as the first view shows it.
    fn close(&self, state: &mut State) -> Option<Arc<Pair>> {
        let first = state.pair(&self.first);
        self.open.fetch_sub(state.pairs.len(), Ordering::Relaxed);
        state.pairs.clear();
        state.held.clear();
        first
    }

    /// Gives a folder its attributes, after all that is in it, which would change its times. `below` is the copy of a folder in it,
    /// where one was just sealed. Returns the folder's own copy.
    pub(super) fn seal(
        &self,
        node: &Arc<Node>,
        below: Option<OwnedFd>,
    ) -> Result<Option<OwnedFd>, CopyError> {
        let (pair, rest) = {
            let mut state = node.lock();
            (self.close(&mut state), state.rest.take())
        };
        let Some((basics, acls)) = rest else {
            return Ok(None);
        };
        self.acls.fetch_sub(size(&acls), Ordering::Relaxed);
        let failed = |error| CopyError::io("giving its attributes to", node.path(None), error);
        let target = match (pair, below) {
            (Some(pair), _) => pair.target.try_clone(),
            // Nobody else works in the target, so it lies in that one still.
            (None, Some(below)) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let above = fs::openat(below, "..", flags, Mode::empty());
                // It may have a mode by now that keeps its owner out.
                above.or_else(|_| walk(&self.first, node, Side::Target))
            }
            (None, None) => walk(&self.first, node, Side::Target),
        };
        let target = target.map_err(failed)?;
        let made = fs::fstat(&target).map_err(|error| failed(error.into()))?;
        let (omissions, path) = (&self.course.omissions, || node.path(None));
        let give_acls = || Attribute::set_all(&acls, &target, omissions, path);
        basics
            .give(&target, &made, give_acls, omissions, path)
            .map_err(|error| failed(error.into()))?;
        Ok(Some(target))
    }
}

fn size(acls: &[Attribute]) -> usize {
    acls.iter().map(Attribute::size).sum()
}

#[derive(Clone, Copy)]
enum Side {
    Source,
    Target,
}

/// Opens the node's folder through a view, from the nearest one above that is open there.
fn walk(view: &Arc<View>, node: &Arc<Node>, side: Side) -> io::Result<OwnedFd> {
    let mut names = Vec::new();
    let mut at = Arc::clone(node);
    let mut start = None;
    while let Some(parent) = at.parent.clone() {
        names.push(at.name.clone());
        start = parent.lock().pair(view);
        if start.is_some() {
            break;
        }
        at = parent;
    }
    let from = match (side, &start) {
        (Side::Source, Some(pair)) => &pair.source,
        (Side::Source, None) => &view.source,
        (Side::Target, Some(pair)) => &pair.target,
        (Side::Target, None) => &view.target,
    };
    // The root has no name, and the view has it open.
    let mut current = from.try_clone()?;
    while let Some(name) = names.pop() {
        #[cfg(test)]
        tests::WALKED.fetch_add(1, Ordering::Relaxed);
        let name = OsStr::from_bytes(name.to_bytes());
        current = match names.is_empty() {
            true => beneath::folder(&current, name)?,
            false => beneath::folder_handle(&current, name)?,
        };
    }
    Ok(current)
}

#[cfg(test)]
mod tests {
    use super::super::course::Course;
    use super::super::links::LinksFolder;
    use super::super::progress::Progress;
    use super::super::view::Views;
    use super::*;
    use std::ffi::CString;
    use std::sync::atomic::AtomicUsize;

    /// Folders that were opened again on the way to others.
    pub(super) static WALKED: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn a_deep_tree_is_not_walked_again_for_each_of_its_folders() {
        const DEPTH: usize = 1500;
        let trial = tempfile::tempdir().unwrap();
        for path in ["source", "target"] {
            std::fs::create_dir(trial.path().join(path)).unwrap();
        }
        let open =
            |path: &str| OwnedFd::from(std::fs::File::open(trial.path().join(path)).unwrap());
        let mut at = open("source");
        for _ in 0..DEPTH {
            fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = beneath::folder(&at, "d").unwrap();
        }
        let view = View::new(
            open("source"),
            open("target"),
            LinksFolder::new(open("."), "links"),
        );
        let before = WALKED.load(Ordering::Relaxed);
        let report = super::super::copy(view, &|| None, &Progress::default()).unwrap();
        assert_eq!(report.files, DEPTH as u64);
        // Those of other tests count as well.
        let walked = WALKED.load(Ordering::Relaxed) - before;
        assert!(walked < 100 * DEPTH, "{walked}");
    }

    fn node(name: &str, parent: Option<&Arc<Node>>) -> Arc<Node> {
        Node::new(parent.cloned(), CString::new(name).unwrap())
    }

    #[test]
    fn what_is_gone_is_told_from_what_is_there() {
        let trial = tempfile::tempdir().unwrap();
        for path in ["source/folder/inner", "target/folder/inner"] {
            std::fs::create_dir_all(trial.path().join(path)).unwrap();
        }
        let open =
            |path: &str| OwnedFd::from(std::fs::File::open(trial.path().join(path)).unwrap());
        let links = LinksFolder::new(open("."), "links");
        let first = View::new(open("source"), open("target"), links);
        let progress = Progress::default();
        let course = Course::of(&first, &progress).unwrap();
        let views = Views::new(first, &|| None);
        let tree = Tree::new(&views, &course);
        let root = node("", None);
        let folder = node("folder", Some(&root));
        let inner = node("inner", Some(&folder));
        let held = open("source/folder");
        assert!(!tree.is_gone(&folder, &held, None).unwrap());
        assert!(!tree.is_gone(&folder, &held, Some(c"inner")).unwrap());
        assert!(tree.is_gone(&folder, &held, Some(c"other")).unwrap());
        assert!(tree.pair(&inner).unwrap().is_some());
        inner.lock().pairs.clear();
        // Both are met again after they have gone.
        std::fs::rename(
            trial.path().join("source/folder"),
            trial.path().join("aside"),
        )
        .unwrap();
        assert!(tree.is_gone(&folder, &held, Some(c"inner")).unwrap());
        assert!(tree.pair(&inner).unwrap().is_none());
        std::os::unix::fs::symlink("../aside", trial.path().join("source/folder")).unwrap();
        assert!(tree.pair(&inner).unwrap().is_none());
    }
}
