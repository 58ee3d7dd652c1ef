//! Lists over all known shares, page by page: the order of shares and keys, the tokens between pages, and when a page ends.

use super::error::ControllerError;
use super::lists::{Limit, Page};
use super::shares::Shares;
use crate::calls::admission::Work;
use crate::calls::export::Export;
use crate::share::database::Share;
use crate::share::listing::{self, List, Walked};
use crate::share::token::{NameKey, ShareUuid};
use prost::Message;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A page's size in bytes. Many callers may be answered at a time, and each answer is in memory until it is sent.
const MAX_PAGE: usize = 256 << 10;

/// A place in a list over all shares: after this key on this share.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PagePosition {
    share: NameKey,
    after: NameKey,
}

impl PagePosition {
    fn parse(token: &str) -> Option<Self> {
        let (share, after) = token.split_once('.')?;
        Some(Self {
            share: share.parse().ok()?,
            after: after.parse().ok()?,
        })
    }

    fn token(&self) -> String {
        format!("{}.{}", self.share, self.after)
    }
}

/// A share's address as it stands in tokens.
fn share_key(export: &Export) -> NameKey {
    NameKey::of(&export.to_string())
}

/// The greatest number of entries of a page.
pub(crate) fn max_entries(asked: i32) -> Result<usize, ControllerError> {
    match usize::try_from(asked) {
        Ok(0) => Ok(usize::MAX),
        Ok(max) => Ok(max),
        Err(_) => Err(ControllerError::Invalid(format!(
            "max_entries is {asked}: it must not be negative"
        ))),
    }
}

/// A page of a list over all known shares, in the order of shares and keys. `show` makes an entry, or leaves it out. The page
/// ends when it is full, and when `limit` is over and at least one key was looked at: so a slow list goes on page by page.
///
/// A share that cannot be listed fails the call: a list without what is on it would say that it is gone.
pub(super) async fn page<R: List, E: Message + Send + 'static>(
    shares: &Arc<Shares>,
    limit: Limit,
    max_entries: usize,
    token: &str,
    show: impl Fn(&Export, ShareUuid, NameKey, R::Item) -> Option<E> + Send + Sync + 'static,
) -> Result<Page<E>, ControllerError> {
    let show = Arc::new(show);
    let mut exports = shares.listed().await?.into_iter().peekable();
    let mut after = None;
    if !token.is_empty() {
        let wrong = || ControllerError::Token(token.to_owned());
        let place = PagePosition::parse(token).ok_or_else(wrong)?;
        while exports
            .next_if(|export| share_key(export) != place.share)
            .is_some()
        {}
        if exports.peek().is_none() {
            return Err(wrong());
        }
        after = Some(place.after);
    }
    let mut page = Part::of(max_entries);
    let mut last = None;
    while let Some(export) = exports.next() {
        let mut part = page.rest();
        let from = after.take();
        let (of, address) = (Arc::clone(shares), export.clone());
        let (show, limit_of_walk) = (Arc::clone(&show), limit.clone());
        let threads = (shares.config.admission).extra_threads(export.server(), Work::List);
        let read = move |share: &Share| {
            // Until now it was not known that an earlier address leads here too.
            if !of.is_first_address(&address, share.uuid()) {
                return Ok((part, Walked::default()));
            }
            let is_over = || limit_of_walk.is_over();
            let walked =
                listing::walk::<R>(share, &threads, from, is_over, |key, item| {
                    match show(&address, share.uuid(), key, item) {
                        Some(entry) => part.add(entry),
                        None => ControlFlow::Continue(()),
                    }
                })?;
            Ok((part, walked))
        };
        let walked = match shares.with_records(Work::List, &export, read).await? {
            Some((part, walked)) => {
                page.join(part);
                walked
            }
            // Named at the start and not used yet: there is nothing on it.
            None => Walked::default(),
        };
        if let Some(after) = walked.last {
            let share = share_key(&export);
            last = Some(PagePosition { share, after });
        }
        let is_last = exports.peek().is_none();
        if let Some(place) = &last
            && (!walked.is_all || (limit.is_over() && !is_last))
        {
            return Ok((page.entries, place.token()));
        }
    }
    Ok((page.entries, String::new()))
}

/// A page, or one share's part of it.
struct Part<E> {
    entries: Vec<E>,
    /// Entries for which there is room.
    room: usize,
    /// Bytes for which there is room.
    bytes: usize,
}

impl<E> Part<E> {
    fn of(max_entries: usize) -> Self {
        Self {
            entries: Vec::new(),
            room: max_entries,
            bytes: MAX_PAGE,
        }
    }

    /// An empty part that has the room which is left.
    fn rest(&self) -> Self {
        Self {
            entries: Vec::new(),
            ..*self
        }
    }

    /// Adds the part that was made in the room which was left.
    fn join(&mut self, part: Self) {
        self.entries.extend(part.entries);
        (self.room, self.bytes) = (part.room, part.bytes);
    }
}

impl<E: Message> Part<E> {
    /// Adds an entry, or says that there is no room.
    fn add(&mut self, entry: E) -> ControlFlow<()> {
        // The tag and the length before each entry.
        let bytes = entry.encoded_len() + 6;
        if self.room == 0 || bytes > self.bytes {
            return ControlFlow::Break(());
        }
        self.room -= 1;
        self.bytes -= bytes;
        self.entries.push(entry);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::controller::ControllerConfig;
    use crate::files::roots::local::LocalRoots;
    use crate::share::database::Expect;
    use crate::share::records::volume::Volume;
    use std::path::Path;
    use std::time::{Duration, Instant};

    #[test]
    fn tokens_are_read_back_and_others_refused() {
        let place = PagePosition {
            share: NameKey::of("a"),
            after: NameKey::of("b"),
        };
        assert_eq!(PagePosition::parse(&place.token()), Some(place.clone()));
        let token = place.token();
        for other in ["", "1", ".", &token[1..], &format!("{token}x")] {
            assert_eq!(PagePosition::parse(other), None, "{other:?}");
        }
    }

    /// Records that cannot be read are entries too, and quickly made.
    fn with_records(folder: &Path, count: usize) {
        let root = std::fs::File::open(folder).unwrap();
        Share::open(Arc::new(root.into()), Expect::Any).unwrap();
        for number in 0..count {
            let key = NameKey::of(&format!("{}-{number}", folder.display()));
            let record = folder.join(format!(".csi-nfs/volumes/{key}"));
            std::fs::create_dir(&record).unwrap();
            std::fs::write(record.join("0000000000000000.1"), "{").unwrap();
        }
    }

    async fn all_pages(shares: &Arc<Shares>, end: Instant) -> Vec<Vec<prost_types::Any>> {
        let show = |_: &Export, _, key: NameKey, _| {
            Some(prost_types::Any {
                type_url: key.to_string(),
                value: Vec::new(),
            })
        };
        let (mut pages, mut token) = (Vec::new(), String::new());
        loop {
            let page = page::<Volume, _>(shares, Limit::at(end), usize::MAX, &token, show);
            let (entries, next) = page.await.unwrap();
            pages.push(entries);
            if next.is_empty() {
                return pages;
            }
            token = next;
        }
    }

    #[tokio::test]
    async fn a_list_without_time_makes_progress_with_each_page() {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let exports = ["a", "b", "c"].map(|name| Export::parse("nas", name).unwrap());
        with_records(folders[0].path(), 40);
        with_records(folders[2].path(), 3);
        let paths = folders.each_ref().map(|folder| folder.path().to_owned());
        let roots = LocalRoots::new(exports.iter().cloned().zip(paths));
        let mut config = ControllerConfig::new(Arc::new(roots));
        config.other_exports = exports.to_vec();
        let shares = Arc::new(Shares::new(config));
        let keys = |pages: &[Vec<prost_types::Any>]| -> Vec<String> {
            let entries = pages.iter().flatten();
            entries.map(|entry| entry.type_url.clone()).collect()
        };
        let now = Instant::now();
        let whole = all_pages(&shares, now + Duration::from_secs(3600)).await;
        assert_eq!((whole.len(), whole[0].len()), (1, 43));
        let hurried = all_pages(&shares, now).await;
        assert_eq!(keys(&hurried), keys(&whole));
        // Whatever other threads have read by then is not thrown away.
        assert!(hurried.len() > 40 / 8, "{}", hurried.len());
        assert!(hurried.iter().all(|page| !page.is_empty()));
    }
}
