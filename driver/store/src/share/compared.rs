//! What the last comparison of the volumes with their limits has found, and when: all that anybody may say about whether a size
//! is enforced. Owns `compared.json` on the share. What compares is `comparison`.
//!
//! The file is written whole by whoever has compared, an agent or a controller on the server, and read by all. It names those that
//! have sizes that are not enforced; all others that are to be were found to be.

use crate::files::beneath;
use crate::share::agent_memory::Compared;
use crate::share::database::{Share, now};
use crate::share::error::{Context, ShareError};
use crate::share::paths::sub_path::RECORDS_FOLDER;
use crate::share::records::format;
use crate::share::records::record::{Record, State};
use crate::share::records::size::Size;
use crate::share::records::volume::Volume;
use std::os::fd::OwnedFd;
use std::time::Duration;

const COMPARED: &str = "compared.json";
/// The longest one that is read, in bytes.
const LONGEST: u64 = 4 << 20;
/// How old a finding may be for somebody to say that it is so: three comparisons.
const FRESH: Duration = Duration::from_secs(180);

/// What is known of a volume's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeKnown {
    /// What its record says of it: it is advisory, or not enforced yet.
    Recorded(Size),
    /// It is to be enforced and is not, and why.
    NotHeld(String),
    /// It was found to be enforced, by this project, so long ago.
    Held(u32, Duration),
    /// The same so long ago that nobody knows.
    WasHeld(u32, Duration),
}

/// Puts what was found on the share. What is returned is to be kept until the next one is there: a file that is open for writing is
/// delegated to no NFS client, and to take it back from one that has vanished would take as long as its lease.
pub(super) fn write(compared: &Compared, share: &Share) -> Result<OwnedFd, ShareError> {
    share.memory.saw_not_held(share.uuid(), compared.not_held);
    let context = || format!("opening {RECORDS_FOLDER}/{COMPARED}");
    let records = beneath::folder(&share.root, RECORDS_FOLDER).context(context)?;
    share.replace_and_keep(&records, COMPARED, compared)
}

/// The last one, where there is one that can be read.
fn read(share: &Share) -> Option<Compared> {
    let records = beneath::folder(&share.root, RECORDS_FOLDER).ok()?;
    beneath::refresh(&records).ok()?;
    let text = beneath::read(&records, COMPARED, LONGEST).ok()?;
    let compared: Compared = format::parse(&text)?;
    share.memory.saw_not_held(share.uuid(), compared.not_held);
    Some(compared)
}

/// Why the size of the volume with this record was not enforced when that was last looked at.
pub(super) fn trouble(share: &Share, record: &Record<Volume>) -> Option<String> {
    read(share)?.trouble(record.nonce).map(str::to_owned)
}

/// What was found last, as it was read when somebody first asked; also for the metrics.
pub fn last(share: &Share) -> Option<&Compared> {
    share.compared.get_or_init(|| read(share)).as_ref()
}

/// What is said of the size of the volume with this record; nothing where it was never decided what that means.
pub fn size(share: &Share, record: &Record<Volume>) -> Option<SizeKnown> {
    let is_held = matches!(record.what.size, Some(Size::Enforced { .. }));
    let compared = is_held.then(|| last(share)).flatten();
    known(record, compared, now())
}

fn known(record: &Record<Volume>, compared: Option<&Compared>, now: u64) -> Option<SizeKnown> {
    let size = record.what.size.as_ref()?;
    let Size::Enforced { project } = size else {
        return Some(SizeKnown::Recorded(size.clone()));
    };
    let not_yet = || SizeKnown::Recorded(Size::Enforced { project: None });
    match record.state {
        State::Creating => return Some(not_yet()),
        // Its limits are lifted as it goes.
        State::Deleting => return None,
        State::Ready => {}
    }
    if let Some(why) = compared.and_then(|compared| compared.trouble(record.nonce)) {
        return Some(SizeKnown::NotHeld(why.to_owned()));
    }
    let Some(project) = *project else {
        return Some(not_yet());
    };
    // Whoever made it has looked then, too.
    let looked = compared
        .map_or(0, |compared| compared.at)
        .max(record.created);
    let age = Duration::from_secs(now.abs_diff(looked));
    Some(match age <= FRESH {
        true => SizeKnown::Held(project, age),
        false => SizeKnown::WasHeld(project, age),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::agent_memory::MOST;
    use crate::share::tests::wanted;
    use crate::share::token::Nonce;

    #[test]
    fn what_is_known_of_a_size_is_what_was_found_last() {
        const NOW: u64 = 1_000_000;
        let enforced = |project| Some(Size::Enforced { project });
        let advisory = Some(Size::Advisory {
            why: "btrfs has no project quotas".to_owned(),
        });
        let nonce = Nonce::random().unwrap();
        let other = Nonce::random().unwrap();
        let found = |seconds: u64, nonces: &[Nonce]| {
            let volumes = nonces
                .iter()
                .map(|it| (*it, "its folder is gone".to_owned()));
            Some(Compared::of(NOW - seconds, volumes.collect()))
        };
        let unable = Some(Compared::unable(NOW, "quotas are off".to_owned(), 1));
        let many: Vec<Nonce> = (0..=MOST).map(|_| Nonce::random().unwrap()).collect();
        let held = |seconds| Some(SizeKnown::Held(7, Duration::from_secs(seconds)));
        let was_held = |seconds| Some(SizeKnown::WasHeld(7, Duration::from_secs(seconds)));
        let not_held = |why: &str| Some(SizeKnown::NotHeld(why.to_owned()));
        let recorded = |size: Option<Size>| size.map(SizeKnown::Recorded);
        let mine = found(500, &[nonce]);
        use State::{Creating, Deleting, Ready};
        for (state, size, created, compared, expected) in [
            (Ready, None, 0, found(5, &[]), None),
            (Ready, advisory.clone(), 0, mine.clone(), recorded(advisory)),
            (Ready, enforced(Some(7)), 9000, found(5, &[]), held(5)),
            (Ready, enforced(Some(7)), 9000, found(5, &[other]), held(5)),
            (Ready, enforced(Some(7)), 9000, found(180, &[]), held(180)),
            // Nobody looks any more, or nobody ever has.
            (
                Ready,
                enforced(Some(7)),
                9000,
                found(181, &[]),
                was_held(181),
            ),
            (Ready, enforced(Some(7)), 9000, None, was_held(9000)),
            // It was made since.
            (Ready, enforced(Some(7)), 9, None, held(9)),
            (Ready, enforced(Some(7)), 9, found(500, &[]), held(9)),
            (
                Ready,
                enforced(Some(7)),
                9,
                mine.clone(),
                not_held("its folder is gone"),
            ),
            (
                Ready,
                enforced(Some(7)),
                9,
                found(5, &many),
                not_held("4097 volumes are not, which the log of who has compared names"),
            ),
            (
                Ready,
                enforced(Some(7)),
                9,
                unable,
                not_held("quotas are off"),
            ),
            (
                Ready,
                enforced(None),
                9,
                found(5, &[]),
                recorded(enforced(None)),
            ),
            (Creating, enforced(None), 9, mine, recorded(enforced(None))),
            (Deleting, enforced(Some(7)), 9, found(5, &[]), None),
        ] {
            let mut record = Record::new(Volume::new(wanted("v", "v"), nonce), nonce, state);
            record.what.size = size;
            record.created = NOW - created;
            assert_eq!(
                known(&record, compared.as_ref(), NOW),
                expected,
                "{compared:?}"
            );
        }
    }
}
