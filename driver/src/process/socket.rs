//! Takes the place of a unix socket, and again whenever the socket's file is lost, without holding up the process: a folder may be on
//! a file system that hangs. Who may take which place is said in `csi_proto::socket_place`.
//!
//! Whether the file is still there is looked at every second. A watch by inotify would have to follow the folder, its parents and
//! mounts over them, and starts anew when the folder does; one look a second at a local disk sees all of that.

pub use csi_proto::socket_place::{SocketError, SocketPlace};

use csi_proto::lock::lock;
use csi_proto::socket_file::{SocketFile, SocketIdentity};
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::Builder;
use std::time::Duration;
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};

/// How often it is looked whether a socket is still there, and whether a lost one can be made anew.
const LOOK: Duration = Duration::from_secs(1);

/// Listens at `place`, once `clear` are places that nobody serves.
///
/// # Errors
/// When one of them is taken or cannot be used.
pub async fn listen(
    place: &SocketPlace,
    clear: Option<&SocketPlace>,
) -> Result<(UnixListener, SocketFile), SocketError> {
    let (taken, clear) = (place.clone(), clear.cloned());
    let taking = spawn_blocking(move || {
        clear.map_or(Ok(()), |clear| clear.clear())?;
        taken.listen()
    });
    let failed = |cause| SocketError::Listen {
        path: place.path.clone(),
        cause,
    };
    let (listener, file) = taking
        .await
        .map_err(|error| failed(io::Error::other(error)))??;
    let listener = UnixListener::from_std(listener).map_err(failed)?;
    Ok((listener, file))
}

/// Listens at `place` as [`listen`] does, and tries until that can be had. Each reason why it cannot is told once.
pub async fn listen_again(
    place: &SocketPlace,
    clear: Option<&SocketPlace>,
    tell: impl Fn(&str),
) -> (UnixListener, SocketFile) {
    let mut told = None;
    loop {
        match listen(place, clear).await {
            Ok(socket) => return socket,
            Err(error) => {
                let error = error.to_string();
                if told.as_ref() != Some(&error) {
                    tell(&error);
                    told = Some(error);
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A listener in the place of the one whose file was lost; none meanwhile.
#[derive(Debug)]
pub struct KeptListener {
    listener: Option<UnixListener>,
    anew: mpsc::Receiver<Option<UnixListener>>,
}

impl KeptListener {
    /// As [`UnixListener::poll_accept`].
    pub fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        while let Poll::Ready(Some(anew)) = self.anew.poll_recv(context) {
            self.listener = anew;
        }
        match &self.listener {
            Some(listener) => listener.poll_accept(context),
            None => Poll::Pending,
        }
    }
}

/// Keeps a socket's file there, and removes it when this is dropped.
#[derive(Debug)]
pub struct KeptFile {
    file: Arc<Mutex<Option<SocketFile>>>,
    task: JoinHandle<()>,
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        self.task.abort();
        let file = lock(&self.file).take();
        drop(file);
    }
}

/// Makes the socket at `place` anew whenever its file `is_lost`, once `clear` is a place that nobody serves. `tell` is told why there
/// is none, and `None` when there is one again.
pub fn keep(
    (listener, file): (UnixListener, SocketFile),
    place: SocketPlace,
    clear: Option<SocketPlace>,
    is_lost: fn(&SocketIdentity) -> bool,
    tell: impl Fn(Option<&str>) + Send + Sync + 'static,
) -> (KeptListener, KeptFile) {
    let (sender, anew) = mpsc::channel(1);
    let mut identity = file.identity().clone();
    let file = Arc::new(Mutex::new(Some(file)));
    let kept = Arc::clone(&file);
    let keeping = async move {
        loop {
            tokio::select! {
                () = until_lost(identity.clone(), is_lost) => {}
                () = sender.closed() => return,
            }
            tell(Some("the socket or its folder was removed"));
            // Where the file comes back, a socket that this process serves would be taken for another's.
            if sender.send(None).await.is_err() {
                return;
            }
            let lost = lock(&kept).take();
            // It may wait for the folder.
            let _ = spawn_blocking(move || drop(lost)).await;
            let (listener, file) =
                listen_again(&place, clear.as_ref(), |why| tell(Some(why))).await;
            identity = file.identity().clone();
            *lock(&kept) = Some(file);
            tell(None);
            if sender.send(Some(listener)).await.is_err() {
                return;
            }
        }
    };
    let task = tokio::spawn(keeping);
    let listener = Some(listener);
    (KeptListener { listener, anew }, KeptFile { file, task })
}

/// Waits until the file is lost. A thread of its own looks: a folder that hangs holds up no other thread, and the runtime's pool could
/// not let its idle threads go if it were woken each second.
#[expect(clippy::disallowed_methods, reason = "a thread of its own sleeps")]
async fn until_lost(identity: SocketIdentity, is_lost: fn(&SocketIdentity) -> bool) {
    loop {
        let (sender, lost) = oneshot::channel();
        let identity = identity.clone();
        let looking = Builder::new().spawn(move || {
            while !sender.is_closed() {
                if is_lost(&identity) {
                    let _ = sender.send(());
                    return;
                }
                std::thread::sleep(LOOK);
            }
        });
        if looking.is_ok() && lost.await.is_ok() {
            return;
        }
        // There is no room for a thread now.
        tokio::time::sleep(LOOK).await;
    }
}
