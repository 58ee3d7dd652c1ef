//! Takes the place of a unix socket without holding up the process: a folder may be on a file system that hangs. Who may take which
//! place is said in `csi_proto::socket_place`.

pub use csi_proto::socket_place::{SocketError, SocketPlace};

use csi_proto::socket_file::SocketFile;
use std::io;
use tokio::net::UnixListener;
use tokio::task::spawn_blocking;

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
