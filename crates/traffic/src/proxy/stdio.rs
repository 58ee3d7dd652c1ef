//! `csi proxy --stdio`: standard input and output as a connection to a driver, the far end of an `exec:` endpoint.
//!
//! It copies bytes and knows nothing of what they say.

use csi_call::Endpoint;
use csi_call::endpoint::{ConnectOptions, EndpointError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::thread;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

const CHUNK: usize = 64 << 10;

/// A relay that could not be set up, or broke.
#[derive(Debug, Error)]
pub enum RelayError {
    /// The driver cannot be reached.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The connection to the driver broke, or the thread that reads standard input could not be started.
    #[error("the relay to {0} broke")]
    Broken(String, #[source] io::Error),
}

/// Copies standard input to the driver, and what the driver says to standard output, until the driver closes the
/// connection or nobody reads the output any more.
///
/// The end of the input is passed on, and the driver may still answer. Returning does not wait for more input: that is
/// read by a thread of its own, which ends with the process.
///
/// # Errors
/// When the driver cannot be reached, or the connection breaks.
pub async fn relay(endpoint: &Endpoint, options: &ConnectOptions) -> Result<(), RelayError> {
    let driver = endpoint.open(options).await?;
    let broken = |cause| RelayError::Broken(endpoint.to_string(), cause);
    let input = read_in_thread(io::stdin()).map_err(broken)?;
    let reader_is_gone = reader_is_gone(rustix::stdio::stdout()).map_err(broken)?;
    tokio::select! {
        copied = copy(driver, input, tokio::io::stdout()) => copied.map_err(broken),
        // A driver that hangs writes nothing, and the input has ended with the reader.
        () = reader_is_gone => Ok(()),
    }
}

/// Ends once nobody reads the output any more.
fn reader_is_gone(output: impl AsFd + Send + 'static) -> io::Result<impl Future<Output = ()>> {
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new()
        .name("stdout".to_owned())
        .spawn(move || {
            let mut output = [PollFd::new(&output, PollFlags::empty())];
            if retry_on_intr(|| poll(&mut output, None)).is_ok() {
                let _ = sender.send(());
            }
        })?;
    Ok(async {
        if receiver.await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// Reads `input` in a thread, chunk by chunk. A task of the runtime would do, but a runtime waits for its blocking reads when it is
/// dropped, and standard input may never end.
fn read_in_thread(mut input: impl Read + Send + 'static) -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(4);
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut chunk = vec![0; CHUNK];
            loop {
                match input.read(&mut chunk) {
                    Ok(count @ 1..) => {
                        if sender.blocking_send(chunk[..count].to_vec()).is_err() {
                            return;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // Whoever wrote is gone, in order or not.
                    _ => return,
                }
            }
        })?;
    Ok(receiver)
}

async fn copy(
    driver: impl AsyncRead + AsyncWrite,
    mut input: mpsc::Receiver<Vec<u8>>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let (mut from_driver, mut to_driver) = tokio::io::split(driver);
    let upward = async {
        while let Some(chunk) = input.recv().await {
            // A driver that takes no more may still have something to say.
            if to_driver.write_all(&chunk).await.is_err() || to_driver.flush().await.is_err() {
                break;
            }
        }
        let _ = to_driver.shutdown().await;
        std::future::pending::<()>().await;
    };
    let downward = async {
        match tokio::io::copy(&mut from_driver, &mut output).await {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            copied => copied.map(drop),
        }
    };
    tokio::select! {
        () = upward => Ok(()),
        result = downward => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use tokio::io::{AsyncReadExt, duplex};

    #[tokio::test]
    async fn both_directions_and_the_end_of_input_are_passed_on() {
        let (near, mut far) = duplex(16);
        let question: Vec<u8> = (0..=255).cycle().take(200_000).collect();
        let input = read_in_thread(Cursor::new(question.clone())).expect("a thread");
        let (output, mut shown) = duplex(16);
        let relay = tokio::spawn(copy(near, input, output));
        let driver = tokio::spawn(async move {
            // It answers only after the end of the question.
            let mut received = Vec::new();
            far.read_to_end(&mut received).await.expect("heard");
            far.write_all(b"an answer").await.expect("said");
            received
        });
        let mut answer = Vec::new();
        shown.read_to_end(&mut answer).await.expect("shown");
        assert_eq!(answer, b"an answer");
        assert_eq!(driver.await.expect("no panic"), question);
        relay.await.expect("no panic").expect("no error");
    }

    /// An input that never ends.
    struct Silence;

    impl Read for Silence {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            loop {
                thread::park();
            }
        }
    }

    #[tokio::test]
    async fn a_driver_that_closes_ends_it_though_input_stays_open() {
        let (near, far) = duplex(16);
        drop(far);
        let input = read_in_thread(Silence).expect("a thread");
        let relayed = copy(near, input, tokio::io::sink()).await;
        relayed.expect("no error");
    }

    #[tokio::test]
    async fn an_output_that_nobody_reads_ends_it() {
        let (near, mut far) = duplex(1 << 16);
        far.write_all(b"for nobody").await.expect("said");
        let (output, reader) = duplex(16);
        drop(reader);
        let input = read_in_thread(Silence).expect("a thread");
        copy(near, input, output).await.expect("no error");
    }

    #[tokio::test]
    async fn a_driver_that_does_not_listen_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("none.sock");
        let endpoint = Endpoint::parse(path.to_str().expect("text")).expect("an endpoint");
        let error = relay(&endpoint, &ConnectOptions::default()).await;
        let error = error.expect_err("no driver").to_string();
        assert_eq!(
            error,
            format!("the socket {} does not exist", path.display())
        );
    }
}
