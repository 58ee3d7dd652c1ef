//! Watches the folders of a share in which something appears that an agent has to do, by inotify. Owns the kernel's events; must
//! not know what is done about them.
//!
//! What NFS clients do reaches the server's file system through the same calls as what is done here, so it is seen too. Events
//! are hints: whoever misses one meets what it was about at the next walk through the share.

use csi_nfs_store::share::agents::{Inbox, inboxes};
use csi_nfs_store::share::database::Share;
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::recovery::Appeared;
use csi_nfs_store::share::requests::REQUEST;
use csi_nfs_store::share::token::NameKey;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Mutex;
use tokio::net::unix::pipe::Receiver;

/// Events that are read at a time, in bytes.
const BUFFER: usize = 16 * 1024;

/// The watched folders of one share.
pub(super) struct Watch {
    /// Waited for as a pipe is, which it is like: the kernel writes, this process reads.
    ready: Receiver,
    events: OwnedFd,
    folders: Mutex<Vec<(i32, Inbox)>>,
}

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self {
            ready: Receiver::from_owned_fd_unchecked(events.try_clone()?)?,
            events,
            folders: Mutex::default(),
        })
    }

    /// Waits until something appears.
    pub(super) async fn appeared(&self) -> io::Result<Appeared> {
        loop {
            self.ready.readable().await?;
            let read = self.ready.try_io(|| {
                let appeared = self.read()?;
                appeared.ok_or_else(|| io::ErrorKind::WouldBlock.into())
            });
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                appeared => return appeared,
            }
        }
    }

    /// All that there is now; nothing when there is nothing.
    fn read(&self) -> io::Result<Option<Appeared>> {
        let mut buffer = [const { MaybeUninit::uninit() }; BUFFER];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        let mut appeared = None;
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(appeared),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let folders = csi_proto::lock::lock(&self.folders);
            let inbox = folders.iter().find(|(number, _)| *number == event.wd());
            let name = event.file_name().and_then(|name| name.to_str().ok());
            let all: &mut Appeared = appeared.get_or_insert_default();
            add(all, inbox.map(|(_, inbox)| *inbox), event.events(), name);
        }
    }

    /// Watches the folders of `share`, in addition to those that are watched; those of a share that was made anew are others.
    /// Blocks.
    ///
    /// # Errors
    /// When there are too many watches.
    pub(super) fn add(&self, share: &Share) -> Result<(), ShareError> {
        for (inbox, folder) in inboxes(share)? {
            // What comes, comes by a rename: a record with all that is published with it, and what is deleted.
            let flags = WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
            let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
            let number = inotify::add_watch(&self.events, path, flags);
            let number = number.map_err(|errno| ShareError::Io {
                context: "watching the share, by inotify".to_owned(),
                source: errno.into(),
            })?;
            let mut folders = csi_proto::lock::lock(&self.folders);
            folders.retain(|(other, _)| *other != number);
            folders.push((number, inbox));
        }
        Ok(())
    }
}

/// Adds one event: `name` came to an inbox. An event of no inbox is about one that is watched no more, or about too many.
fn add(all: &mut Appeared, inbox: Option<Inbox>, what: ReadFlags, name: Option<&str>) {
    all.missed |= what.contains(ReadFlags::QUEUE_OVERFLOW);
    let key = || name.and_then(|name| name.parse::<NameKey>().ok());
    match inbox {
        Some(Inbox::Volumes) => all.volumes.extend(key()),
        Some(Inbox::Snapshots) => all.snapshots.extend(key()),
        Some(Inbox::Trash) => all.trash = true,
        // Answers appear beside them.
        Some(Inbox::Requests) => all.requests |= name.is_some_and(|it| it.ends_with(REQUEST)),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_nfs_store::share::database::Expect;
    use csi_nfs_store::share::records::volume::{Volume, Wanted};
    use csi_nfs_store::share::{life, records::record::Record};
    use std::fs::File;
    use std::sync::Arc;

    #[tokio::test]
    async fn what_appears_on_a_share_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let root = Arc::new(File::open(folder.path()).unwrap().into());
        let share = Share::open(root, Expect::Any).unwrap();
        let watch = Watch::new().unwrap();
        watch.add(&share).unwrap();
        // Once more is not twice.
        watch.add(&share).unwrap();
        let wanted = Wanted {
            name: "v".to_owned(),
            ..Wanted::default()
        };
        let volume: Record<Volume> =
            life::create(&share, &wanted, "s:/a", &Default::default()).unwrap();
        let appeared = watch.appeared().await.unwrap();
        let expected = Appeared {
            volumes: vec![volume.key()],
            ..Appeared::default()
        };
        assert_eq!(appeared, expected);
        life::delete::<Volume>(&share, volume.key(), volume.nonce).unwrap();
        assert!(watch.appeared().await.unwrap().trash);
    }

    #[test]
    fn what_was_missed_is_said() {
        let mut appeared = Appeared::default();
        add(&mut appeared, None, ReadFlags::QUEUE_OVERFLOW, None);
        assert!(appeared.missed);
        let mut appeared = Appeared::default();
        let moved = ReadFlags::MOVED_TO;
        add(&mut appeared, Some(Inbox::Snapshots), moved, Some("no key"));
        add(&mut appeared, None, ReadFlags::IGNORED, None);
        assert_eq!(appeared, Appeared::default());
    }
}
