//! Lists over all known shares, page by page: which shares, the order of shares and keys, the tokens between pages, and when a
//! page ends. Must not know what is listed.

use super::addresses::{Addressed, at_one_of};
use super::error::ControllerError;
use super::outcome::{Lists, Page};
use super::shares::Shares;
use crate::calls::operations::{Busy, Operation};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::share::database::Share;
use csi_nfs_store::share::listing::{self, List};
use csi_nfs_store::share::token::{NameKey, ShareUuid};
use csi_proto::lock::lock;
use prost::Message;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A page's size in bytes, unless its first entry is larger. Many callers may be answered at a time, and each answer is in memory
/// until it is sent.
const MAX_PAGE: usize = 256 << 10;

/// How long a share is waited for that has not been used for long.
const REACH: Duration = Duration::from_secs(5);

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

/// The page behind `token` of the list that the call `rpc` asks for with `arguments`. Calls with equal arguments share one walk. A
/// list tells what there is after the call has come: so who has joined a walk that had begun before asks once more. `show` makes an
/// entry, or leaves it out.
pub(super) async fn page<R: List, E: Message + Clone + 'static>(
    (shares, lists): (&Arc<Shares>, &Lists<E>),
    (rpc, arguments): (&'static str, Vec<u8>),
    timeout: Duration,
    (max_entries, token): (usize, String),
    show: impl Fn(&Export, ShareUuid, NameKey, R::Item) -> Option<E> + Clone + Send + Sync + 'static,
) -> Result<Page<E>, ControllerError> {
    let deadline = Instant::now() + timeout;
    let walk = || {
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        // One that hangs on a dead server is not to hold those who come later.
        let bound = left.min(shares.config.timeout);
        let (shares, token, show) = (Arc::clone(shares), token.clone(), show.clone());
        async move {
            // With half of the time that is left, the answer reaches its caller however slow the server is.
            let walking = walk::<R, E>(&shares, now + bound / 2, max_entries, &token, show);
            let walked = tokio::time::timeout(bound, walking).await;
            Some(walked.ok()?.map(Arc::new))
        }
    };
    let operation = Operation {
        rpc,
        arguments: Vec::new(),
    };
    loop {
        // Whoever waits here is told by `reading` that its time is over.
        let key = (arguments.clone(), operation.clone());
        let listed = lists.run_anew(key.0, key.1, Duration::MAX, |_| true, &walk);
        let listed = listed.await.map_err(|busy| match busy {
            Busy::Crowded => busy.into(),
            _ => ControllerError::ShuttingDown,
        })?;
        match listed {
            Some(page) => return page.map(Arc::unwrap_or_clone),
            // It may have been another's time.
            None if Instant::now() < deadline => {}
            None => return Err(shares.no_answer(None, timeout)),
        }
    }
}

/// Walks over all known shares, in the order of shares and keys. The page ends when it is full, and at `end` when at least one key
/// was looked at: so a slow list goes on page by page.
///
/// A share that cannot be listed, at any of its addresses, fails the call: a list without what is on it would say that it is gone.
async fn walk<R: List, E: Message + 'static>(
    shares: &Arc<Shares>,
    end: Instant,
    max_entries: usize,
    token: &str,
    show: impl Fn(&Export, ShareUuid, NameKey, R::Item) -> Option<E> + Clone + Send + Sync + 'static,
) -> Result<Page<E>, ControllerError> {
    let all = shares.listed().await?;
    // Which one of them lists a share. Only when it is read a share may turn out to have two addresses.
    let listing = all
        .iter()
        .filter_map(|it| Some((it.uuid?, it.first.clone())));
    let listing: Arc<Mutex<BTreeMap<_, _>>> = Arc::new(Mutex::new(listing.collect()));
    let mut all = all.into_iter().peekable();
    let mut after = None;
    if !token.is_empty() {
        let wrong = || ControllerError::Token(token.to_owned());
        let (share, key) = place(token).ok_or_else(wrong)?;
        let is_before = |it: &Addressed| share_key(&it.first) != share;
        while all.next_if(is_before).is_some() {}
        all.peek().ok_or_else(wrong)?;
        after = Some(key);
    }
    let filling = Arc::new(Mutex::new(Filling {
        entries: Vec::new(),
        room: max_entries,
        bytes: MAX_PAGE,
    }));
    let is_over = move || Instant::now() >= end;
    let mut next_token = None;
    while let Some(listed) = all.next() {
        let from = after.take();
        let begun = lock(&filling).state();
        let reading = |address: Export| {
            let (page, show) = (Arc::clone(&filling), show.clone());
            let (listing, first) = (Arc::clone(&listing), listed.first.clone());
            let threads = (shares.config.admission).extra_threads(address.server(), Work::List);
            let place = address.clone();
            let read = move |share: &Share| {
                let uuid = share.uuid();
                let first_there = lock(&listing).entry(uuid).or_insert(first.clone()).clone();
                if first_there != first {
                    return Ok(listing::Walked::default());
                }
                let mut page = lock(&page);
                // What was read at another address, before that failed, is read anew.
                page.return_to(begun);
                // One more tells whether there are more.
                let wanted = page.room.saturating_add(1);
                let visit = |key, item| match show(&place, uuid, key, item) {
                    Some(entry) => page.add(entry),
                    None => ControlFlow::Continue(()),
                };
                listing::walk::<R>(share, &threads, from, wanted, is_over, visit)
            };
            async move { shares.with_records(Work::List, &address, read).await }
        };
        // Named at the start and not used yet: there is nothing on it.
        let walked = at_one_of(&listed.addresses, reading)
            .await?
            .unwrap_or_default();
        if let Some(after) = walked.last {
            next_token = Some(format!("{}.{after}", share_key(&listed.first)));
        }
        let has_more = walked.is_part || (is_over() && all.peek().is_some());
        if let Some(token) = next_token.take_if(|_| has_more) {
            return Ok((std::mem::take(&mut lock(&filling).entries), token));
        }
    }
    Ok((std::mem::take(&mut lock(&filling).entries), String::new()))
}

/// A place in a list over all shares, as a token has it: after this key on this share.
fn place(token: &str) -> Option<(NameKey, NameKey)> {
    let (share, after) = token.split_once('.')?;
    Some((share.parse().ok()?, after.parse().ok()?))
}

/// A share's address as it stands in tokens.
fn share_key(export: &Export) -> NameKey {
    NameKey::of(&export.to_string())
}

/// A page that is being filled.
struct Filling<E> {
    entries: Vec<E>,
    /// Entries for which there is room.
    room: usize,
    /// Bytes for which there is room.
    bytes: usize,
}

impl<E: Message> Filling<E> {
    /// How many entries there are, and the room that is left.
    fn state(&self) -> (usize, usize, usize) {
        (self.entries.len(), self.room, self.bytes)
    }

    fn return_to(&mut self, (entries, room, bytes): (usize, usize, usize)) {
        self.entries.truncate(entries);
        (self.room, self.bytes) = (room, bytes);
    }

    /// Adds an entry, or says that there is no room. The first one always fits: a page without any would end the list.
    fn add(&mut self, entry: E) -> ControlFlow<()> {
        // The tag and the length before each entry.
        let bytes = entry.encoded_len() + 6;
        if self.room == 0 || (bytes > self.bytes && !self.entries.is_empty()) {
            return ControlFlow::Break(());
        }
        self.room -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.entries.push(entry);
        ControlFlow::Continue(())
    }
}

impl Shares {
    /// All shares that a list goes through, each once. One that was not named at the start, has not been used for long, and cannot
    /// be reached now is forgotten, until a call uses it again: else one server that was taken away would fail all lists for ever.
    ///
    /// # Errors
    /// When a share cannot be opened for the first time, or is a copy of another one, of which the list would hide one.
    async fn listed(self: &Arc<Self>) -> Result<Vec<Addressed>, ControllerError> {
        // Of two addresses the share at each tells whether they are of one share.
        for is_unsure in [Self::is_unopened, Self::is_double, Self::is_doubtful] {
            let addresses: Vec<_> = lock(&self.known).keys().cloned().collect();
            let unsure = addresses.into_iter().filter(|it| is_unsure(self, it));
            let reaching = unsure.map(|export| Arc::clone(self).reach(export));
            let reached = reaching.collect::<JoinSet<_>>().join_all().await;
            reached.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(self.by_addresses())
    }

    /// Opens the share, if it has records. A doubtful one that cannot be opened is forgotten.
    async fn reach(self: Arc<Self>, export: Export) -> Result<(), ControllerError> {
        let reaching = self.with_records(Work::List, &export, |_| Ok(()));
        if !self.is_doubtful(&export) {
            return match self.is_double(&export) {
                true => self.compared(&export, reaching).await,
                false => reaching.await.map(drop),
            };
        }
        let why = match tokio::time::timeout(REACH, reaching).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(copy @ ControllerError::Twin(_))) => return Err(copy),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("{export}: no answer for {REACH:?}"),
        };
        // Unless a call has used it in this very moment.
        if self.is_doubtful(&export) && self.forget(&export) {
            (self.config.notice)(&format!(
                "lists go on without {export} until a call uses it again: {why}"
            ));
        }
        Ok(())
    }

    /// Waits for the share of two addresses to be compared, which is `reached` at this one. As long as it cannot be reached here, it
    /// is listed at the other.
    async fn compared<T>(
        &self,
        export: &Export,
        reached: impl Future<Output = Result<T, ControllerError>>,
    ) -> Result<(), ControllerError> {
        let mut reached = pin!(reached);
        let done = match tokio::time::timeout(REACH, &mut reached).await {
            Ok(done) => done,
            Err(_) if self.is_silent(export) => return Ok(()),
            Err(_) => reached.await,
        };
        match done {
            Err(ControllerError::Root(_)) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Whether it is not known yet if the share is another one than the rest.
    fn is_unopened(&self, export: &Export) -> bool {
        let known = lock(&self.known);
        known.len() > 1 && known.get(export).is_some_and(|share| share.uuid.is_none())
    }

    /// Whether the share is still to be compared with one that was known before.
    fn is_double(&self, export: &Export) -> bool {
        let uuid = self.on_known(export, |share| share.uuid).flatten();
        uuid.is_some_and(|uuid| self.twin(export, uuid).is_some())
    }

    /// Whether the share was not named at the start and has not been used for long.
    fn is_doubtful(&self, export: &Export) -> bool {
        let limit = self.config.forget_after;
        let used = self.on_known(export, |share| share.used).flatten();
        used.is_some_and(|used| used.elapsed() >= limit) && !self.configured().contains(export)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::controller::ControllerConfig;
    use csi_nfs_store::files::roots::local::LocalRoots;
    use csi_nfs_store::share::database::Expect;
    use csi_nfs_store::share::records::volume::Volume;
    use std::path::Path;
    use std::time::{Duration, Instant};

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn tokens_are_read_back_and_others_refused() {
        let [share, after] = ["a", "b"].map(NameKey::of);
        let token = format!("{share}.{after}");
        assert_eq!(place(&token), Some((share, after)));
        for other in ["", "1", ".", &token[1..], &format!("{token}x")] {
            assert_eq!(place(other), None, "{other:?}");
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

    async fn all_pages(
        shares: &Arc<Shares>,
        end: Instant,
        bytes: usize,
    ) -> Vec<Vec<prost_types::Any>> {
        let show = move |_: &Export, _, key: NameKey, _| {
            Some(prost_types::Any {
                type_url: key.to_string(),
                value: vec![0; bytes],
            })
        };
        let (mut pages, mut token) = (Vec::new(), String::new());
        loop {
            let page = walk::<Volume, _>(shares, end, usize::MAX, &token, show);
            let (entries, next) = page.await.unwrap();
            pages.push(entries);
            if next.is_empty() {
                return pages;
            }
            token = next;
        }
    }

    #[tokio::test]
    async fn a_list_without_time_or_room_makes_progress_with_each_page() {
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
        let whole = all_pages(&shares, now + HOUR, 0).await;
        assert_eq!((whole.len(), whole[0].len()), (1, 43));
        let hurried = all_pages(&shares, now, 0).await;
        assert_eq!(keys(&hurried), keys(&whole));
        // Whatever other threads have read by then is not thrown away.
        assert!(hurried.len() > 40 / 8, "{}", hurried.len());
        assert!(hurried.iter().all(|page| !page.is_empty()));
        // A page without an entry would say that this was all.
        let large = all_pages(&shares, now + HOUR, MAX_PAGE).await;
        assert_eq!(keys(&large), keys(&whole));
        assert!(large.iter().all(|page| page.len() == 1));
    }
}
