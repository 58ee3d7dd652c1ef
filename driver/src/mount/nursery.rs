//! Starts helper processes, from a small process that does nothing else.
//!
//! A process that is started gets copies of its parent's open files and closes them as it begins. For a file on NFS that is
//! being written that means to flush it, which waits for the server, and with it waits whoever starts the process. A driver
//! that copies to a server which goes away could start no helper any more, and its only thread would stand still. The
//! nursery is started before this process has files on NFS, and never has one.
//!
//! Owns its life, its socket and the way to its children's ends; must not know what helpers do.

use crate::mount::launch::{NURSERY, command, helper_arguments};
use crate::mount::messages::{Inbox, receive, send, send_once};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::sync::{Mutex, oneshot};

/// A message about one helper.
#[derive(Debug, Serialize, Deserialize)]
enum News {
    /// It runs. A pidfd comes with this, where the kernel has them.
    Started(u32),
    /// It could not be started.
    StartFailed(String),
    /// It has ended and was reaped.
    Ended(String),
}

/// How often a nursery that is behind is asked again.
const CROWDED_PAUSE: Duration = Duration::from_millis(5);

/// The nursery of this process, which is started when it is first needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Nursery {
    process: Arc<Mutex<Option<Process>>>,
}

/// A nursery that runs.
#[derive(Debug)]
struct Process {
    socket: OwnedFd,
    /// Nothing where the kernel has none.
    pidfd: Option<OwnedFd>,
}

/// A helper that runs. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Child {
    pub pid: u32,
    pidfd: Option<OwnedFd>,
    news: tokio::net::UnixStream,
    inbox: Inbox,
}

impl Nursery {
    /// Starts a helper with `stdin` as its standard input.
    ///
    /// # Errors
    /// When it, or the nursery, cannot be started.
    pub async fn start(&self, stdin: UnixStream) -> io::Result<Child> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (stdin, theirs) = (OwnedFd::from(stdin), OwnedFd::from(theirs));
        self.ask(&stdin, &theirs).await?;
        drop((stdin, theirs));
        let mut child = Child {
            pid: 0,
            pidfd: None,
            news: tokio::net::UnixStream::from_std(ours)?,
            inbox: Inbox::default(),
        };
        match child.next().await? {
            Some(News::Started(pid)) => {
                child.pid = pid;
                child.pidfd = child.inbox.descriptor.take();
                Ok(child)
            }
            Some(News::StartFailed(text)) => Err(io::Error::other(text)),
            Some(News::Ended(_)) | None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn ask(&self, stdin: &OwnedFd, news: &OwnedFd) -> io::Result<()> {
        let mut process = Arc::clone(&self.process).lock_owned().await;
        loop {
            let asked = match &*process {
                Some(process) => ask(process, stdin, news),
                None => Err(Errno::PIPE),
            };
            match asked {
                Ok(()) => return Ok(()),
                // There is none yet, or it was killed.
                Err(Errno::PIPE | Errno::CONNRESET) => {
                    // The disk of this program may hang: whoever gives up, and comes again, begins no other one.
                    let beginning = tokio::spawn(async move {
                        *process = Some(begin().await?);
                        Ok::<_, io::Error>(process)
                    });
                    process = beginning.await.map_err(io::Error::other)??;
                }
                // Others are before us, whom it lets wait as well.
                Err(Errno::AGAIN) => tokio::time::sleep(CROWDED_PAUSE).await,
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Child {
    async fn next(&mut self) -> io::Result<Option<News>> {
        loop {
            if let Some(news) = self.inbox.next()? {
                return Ok(Some(news));
            }
            let (news, inbox) = (&self.news, &mut self.inbox);
            let fill = || inbox.fill(news);
            if news.async_io(Interest::READABLE, fill).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Waits until it has ended and was reaped. Returns how it has ended.
    pub async fn wait(&mut self) -> String {
        match self.next().await {
            Ok(Some(News::Ended(how))) => how,
            _ => "it was killed with all others".to_owned(),
        }
    }

    /// Kills it, if it still runs.
    pub fn kill(&self) {
        // An error means that it has ended already.
        let _ = match (&self.pidfd, Pid::from_raw(self.pid as i32)) {
            (Some(pidfd), _) => rustix::process::pidfd_send_signal(pidfd, Signal::KILL),
            (None, Some(pid)) => rustix::process::kill_process(pid, Signal::KILL),
            (None, None) => Ok(()),
        };
    }
}

/// Starts the nursery's process. A thread stays with it, because it dies with the thread that has started it.
async fn begin() -> io::Result<Process> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let (begun, when_begun) = oneshot::channel();
    std::thread::Builder::new()
        .name("nursery".to_owned())
        .spawn(move || {
            let mut command = helper_arguments();
            command.arg(NURSERY).stdin(Stdio::from(theirs));
            let started = command.spawn();
            // It holds the nursery's end of the socket, whose closing tells that the nursery has ended.
            drop(command);
            match started {
                Ok(mut nursery) => {
                    let pidfd = pidfd_of(&nursery);
                    let _ = begun.send(Ok(pidfd));
                    let _ = nursery.wait();
                }
                Err(error) => {
                    let _ = begun.send(Err(error));
                }
            }
        })?;
    let pidfd = when_begun.await.map_err(io::Error::other)??;
    Ok(Process {
        socket: ours,
        pidfd,
    })
}

fn pidfd_of(child: &std::process::Child) -> Option<OwnedFd> {
    rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()
}

/// Asks for a helper, without waiting where the nursery is behind.
fn ask(nursery: &Process, stdin: &OwnedFd, news: &OwnedFd) -> Result<(), Errno> {
    // One that somebody has stopped would serve nobody ever again. To one that runs this says nothing.
    if let Some(pidfd) = &nursery.pidfd {
        let _ = rustix::process::pidfd_send_signal(pidfd, Signal::CONT);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    send_once(&nursery.socket, b"h", &[stdin.as_fd(), news.as_fd()], flags).map(drop)
}

/// The nursery's whole life: until the driver has ended.
pub(super) fn live(socket: &OwnedFd) -> io::Result<()> {
    loop {
        let mut chunk = [0_u8];
        let (asked, descriptors) = receive(socket, &mut chunk)?;
        if asked.is_empty() {
            return Ok(());
        }
        if let Ok([stdin, news]) = <[OwnedFd; 2]>::try_from(descriptors) {
            start(stdin.into(), news.into());
        }
    }
}

fn start(stdin: UnixStream, news: UnixStream) {
    // Who has given up meanwhile wants no helper any more: a driver that asks faster than processes start would never be
    // served otherwise.
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    if rustix::net::recv(&news, &mut [0_u8], flags) != Err(Errno::AGAIN) {
        return;
    }
    // Whoever does not listen any more does not need to know; the helper finds nobody either, and ends.
    let mut child = match command(stdin).spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = send(&news, &News::StartFailed(error.to_string()), None);
            return;
        }
    };
    let pidfd = pidfd_of(&child);
    let _ = send(
        &news,
        &News::Started(child.id()),
        pidfd.as_ref().map(AsFd::as_fd),
    );
    drop(pidfd);
    let reaping = std::thread::Builder::new().stack_size(128 << 10);
    // Without a thread it stays a zombie until the nursery ends, and its news end now.
    let _ = reaping.spawn(move || {
        let ended = child.wait();
        let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        let _ = send(&news, &News::Ended(how), None);
    });
}
