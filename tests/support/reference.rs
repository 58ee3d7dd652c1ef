//! The mock driver as a test needs it: on a socket of its own, and restarted when asked.
//!
//! It proves that a conformance suite can pass and can fail, and stands behind other tools' tests where they need a driver
//! that does everything.

use super::unserved::stop_listening;
use csi_mock::{Mock, Options, Storage};
use csi_proto::lock::lock;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::ioctl_fionread;
use std::fs::File;
use std::future::pending;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnixListenerStream;

/// A running reference driver. It stops when it is dropped.
pub struct ReferenceDriver {
    machine: Arc<Machine>,
    /// Restarts the driver when a command asks for it.
    attendant: Option<JoinHandle<()>>,
}

/// What a restart needs.
struct Machine {
    folder: TempDir,
    options: Options,
    /// What a real driver has on its storage and its disk: it outlives a restart.
    storage: Storage,
    running: Mutex<Option<Running>>,
    restarts: AtomicUsize,
    ended: AtomicBool,
}

struct Running {
    listener: OwnedFd,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl ReferenceDriver {
    /// A driver on a unix socket in a folder of its own.
    pub fn start(options: Options) -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).expect("a new folder");
        let machine = Machine {
            folder,
            options,
            storage: Storage::in_memory(data),
            running: Mutex::new(None),
            restarts: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        };
        machine.launch();
        Self {
            machine: Arc::new(machine),
            attendant: None,
        }
    }

    /// How a client names this driver.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.machine.path(SOCKET).display())
    }

    /// A folder of this driver's for whatever its caller needs, gone with it. Nothing of the driver's is there.
    pub fn workplace(&self) -> PathBuf {
        let folder = self.machine.path("workplace");
        std::fs::create_dir_all(&folder).expect("a folder in a new one");
        folder
    }

    /// Ends the driver with whatever it is doing, and starts it again on the same socket with the same volumes.
    pub fn restart(&self) {
        self.machine.restart();
    }

    /// How often it was restarted.
    pub fn restarts(&self) -> usize {
        self.machine.restarts.load(Ordering::Acquire)
    }

    /// A command for `sh -c` that does the same, and returns when the driver answers again.
    pub fn restart_command(&mut self) -> String {
        let (asked, done) = (self.machine.path(ASKED), self.machine.path(DONE));
        if self.attendant.is_none() {
            let pipes = (pipe(&asked), pipe(&done));
            let machine = Arc::clone(&self.machine);
            self.attendant = Some(std::thread::spawn(move || machine.attend(pipes)));
        }
        let (asked, done) = (asked.display(), done.display());
        // An answer to somebody else, who was killed before it came, is passed over.
        format!(
            "echo $$ > '{asked}'; while read answer < '{done}' && [ $answer != $$ ]; do :; done"
        )
    }

    /// What exists now, one line each: volumes, snapshots, groups, attachments, staged and published volumes. Empty when
    /// whoever used the driver has put everything away.
    pub fn left_behind(&self) -> Vec<String> {
        self.machine.storage.names()
    }
}

impl Drop for ReferenceDriver {
    fn drop(&mut self) {
        self.machine.ended.store(true, Ordering::Release);
        if let Some(attendant) = self.attendant.take() {
            // It waits for a line, and does not restart the driver for this one.
            let _ = std::fs::write(self.machine.path(ASKED), "\n");
            let _ = attendant.join();
        }
        self.machine.halt();
    }
}

/// A new pipe with a name, open at both ends, so that nobody waits for the other end to be opened.
fn pipe(path: &Path) -> File {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a new pipe");
    let opened = File::options().read(true).write(true).open(path);
    opened.expect("a pipe that was just made")
}

/// In memory where there is such a place: what its callers write and sync need not outlive anything.
fn folder() -> TempDir {
    let in_memory = TempDir::new_in("/dev/shm");
    in_memory
        .or_else(|_| TempDir::new())
        .expect("a temporary folder")
}

/// The file names in the driver's folder: its socket, and the pipes by which a command asks for a restart and awaits it.
const SOCKET: &str = "csi.sock";
const ASKED: &str = "restart";
const DONE: &str = "restarted";

impl Machine {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Restarts the driver as often as somebody writes a line into the first pipe, and repeats the line in the second.
    fn attend(&self, (asked, mut done): (File, File)) {
        let mut lines = BufReader::new(asked).lines();
        while let Some(Ok(who)) = lines.next() {
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            self.restart();
            // Whoever asked before may have been killed before the answer: the pipe holds one at most.
            let unread = ioctl_fionread(&done).unwrap_or_default();
            let _ = done.read_exact(&mut vec![0; usize::try_from(unread).unwrap_or_default()]);
            let _ = done.write_all(format!("{who}\n").as_bytes());
        }
    }

    fn restart(&self) {
        self.restarts.fetch_add(1, Ordering::AcqRel);
        self.halt();
        self.storage.restarted_with(self.options.defect);
        self.launch();
    }

    fn launch(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let socket = self.path(SOCKET);
        // Of a driver that was killed.
        let _ = std::fs::remove_file(&socket);
        let listener = {
            let _context = runtime.enter();
            UnixListener::bind(&socket).expect("a free socket")
        };
        let copy = listener.as_fd().try_clone_to_owned();
        let copy = copy.expect("another descriptor");
        let server = Mock::new(self.options.clone(), self.storage.clone()).server();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let incoming = UnixListenerStream::new(listener).filter_map(Result::ok);
                tokio::select! {
                    served = server.serve(incoming, pending(), Duration::ZERO) => drop(served.expect("a transport")),
                    _ = stopped => {}
                }
            });
            // Connections and calls end here, as those of a process that is killed.
            runtime.shutdown_background();
        });
        *lock(&self.running) = Some(Running {
            listener: copy,
            stop,
            thread,
        });
    }

    fn halt(&self) {
        let running = lock(&self.running).take();
        if let Some(Running {
            listener,
            stop,
            thread,
        }) = running
        {
            drop(stop);
            let ended = thread.join();
            stop_listening(listener);
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the driver panicked"
            );
        }
    }
}
