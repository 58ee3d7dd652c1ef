//! The process: its flags, its socket, its start and its end. What calls do is up to the services.

mod calls;
// with controller
mod controller;
// end
mod identity;
mod local;
// with node
mod node;
// end
// with snapshots
mod snapshots;
// end
mod storage;

/// What csi.proto declares.
mod csi {
    // It declares more than one driver needs.
    #![allow(clippy::all, dead_code)]
    tonic::include_proto!("csi.v1");
}

use calls::Calls;
use clap::Parser;
// with controller
use controller::Controller;
use csi::controller_server::ControllerServer;
// end
// with groups
use csi::group_controller_server::GroupControllerServer;
// end
use csi::identity_server::IdentityServer;
// with node
use csi::node_server::NodeServer;
// end
use identity::Identity;
use local::Local;
// with node
use node::Node;
// end
// with groups
use snapshots::Groups;
// end
use std::error::Error;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

/// How long the calls that run at SIGTERM may take to end. Kubernetes kills a pod after 30 s.
const DRAIN: Duration = Duration::from_secs(20);

#[derive(Parser)]
#[command(about, version)]
struct Flags {
    /// The socket to serve on
    #[arg(long, env = "CSI_ENDPOINT", default_value = "unix:///csi/csi.sock")]
    endpoint: String,
    // with node
    /// The name of this node
    #[arg(long, env = "NODE_ID")]
    node_id: String,
    // end
    /// Keep volumes in this folder; without the flag they end with the driver
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Serve metrics over HTTP on this address, such as 0.0.0.0:9090
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let ended = Runtime::new().map_err(Into::into).and_then(|runtime| {
        let ended = runtime.block_on(serve(&flags));
        // Work whose caller has gone runs on.
        runtime.shutdown_timeout(DRAIN);
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves calls until SIGTERM or Ctrl-C, and then until those that run have ended.
async fn serve(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let storage = open(flags)?;
    let calls = Calls::default();
    if let Some(address) = flags.metrics {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| format!("metrics on {address}: {error}"))?;
        tokio::spawn(calls.clone().serve_metrics(listener));
    }
    let (mut term, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let (listener, _file) = listen(&flags.endpoint).await?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = Server::builder()
        // with controller
        .add_service(ControllerServer::new(Controller::new(&storage, &calls)))
        // end
        // with groups
        .add_service(GroupControllerServer::new(Groups::new(&storage, &calls)))
        // end
        // with node
        .add_service(NodeServer::new(Node::new(&flags.node_id, &storage, &calls)))
        // end
        .add_service(IdentityServer::new(Identity::new(&storage, &calls)))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), async {
            let _ = stopped.await;
        });
    tokio::pin!(server);
    eprintln!("{} serves on {}", identity::NAME, flags.endpoint);
    tokio::select! {
        ended = &mut server => return Ok(ended?),
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    let _ = stop.send(());
    match tokio::time::timeout(DRAIN, server).await {
        Ok(ended) => Ok(ended?),
        Err(_) => Err(format!("calls were cut off after {DRAIN:?}").into()),
    }
}

/// The storage that the flags choose. Yours takes the place of this one.
fn open(flags: &Flags) -> Result<Arc<dyn Storage>, Box<dyn Error>> {
    let storage = match &flags.dir {
        Some(folder) => {
            Local::in_folder(folder).map_err(|error| format!("{}: {error}", folder.display()))?
        }
        None => Local::in_memory()?,
    };
    // with attach
    storage.register_node(&flags.node_id)?;
    // end
    Ok(Arc::new(storage))
}

/// Listens on an endpoint. A socket that nobody serves any more is replaced, one that is served is not.
async fn listen(endpoint: &str) -> Result<(UnixListener, SocketFile), String> {
    let path = endpoint
        .strip_prefix("unix://")
        .map(Path::new)
        .filter(|path| path.is_absolute())
        .ok_or_else(|| format!("{endpoint}: write unix:// and an absolute path"))?;
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    // Held for as long as the socket is there, and let go by the kernel when the process dies. Whoever may open a file may lock it:
    // this one may be opened by its owner alone. It stays: if it were removed, two could have a lock of that name.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut how = File::options();
    how.create(true).truncate(false).write(true).mode(0o600);
    let lock = how
        .open(path.with_file_name(format!(".{name}.lock")))
        .map_err(failed)?;
    let served = || format!("{}: another process serves it", path.display());
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => served(),
        TryLockError::Error(error) => failed(error),
    })?;
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(there) if !there.file_type().is_socket() => {
            return Err(format!("{}: is there, and no socket", path.display()));
        }
        // Without blocking, as it would where too many connections wait to be accepted.
        Ok(_) => match UnixStream::connect(path)
            .await
            .map_err(|error| error.kind())
        {
            Err(ErrorKind::ConnectionRefused) => fs::remove_file(path).map_err(failed)?,
            Ok(_) | Err(ErrorKind::WouldBlock) => return Err(served()),
            Err(kind) => return Err(failed(kind.into())),
        },
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let path = path.to_owned();
    Ok((listener, SocketFile { path, _lock: lock }))
}

/// The file of this process's socket, removed at the end.
struct SocketFile {
    path: PathBuf,
    _lock: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_taken_from_the_dead_alone_and_removed_at_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("csi.sock");
        let endpoint = format!("unix://{}", path.display());
        let is_served = |refused: Option<String>| {
            refused.is_some_and(|message| message.ends_with("another process serves it"))
        };
        // Somebody else's, who does not lock: also when nobody accepts, and no more connections may wait.
        let other = UnixListener::bind(&path).expect("a socket");
        assert!(is_served(listen(&endpoint).await.err()));
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(&path).await {
            waiting.push(stream);
        }
        assert!(is_served(listen(&endpoint).await.err()));
        drop((other, waiting));
        let served = listen(&endpoint).await.expect("the dead one is replaced");
        assert!(is_served(listen(&endpoint).await.err()));
        drop(served);
        assert!(!path.exists());
        fs::write(&path, "").expect("a file");
        assert!(listen(&endpoint).await.is_err());
        assert!(path.exists() && listen("unix://csi.sock").await.is_err());
    }
}
