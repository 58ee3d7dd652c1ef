//! Messages between the driver, its nursery and its helpers: JSON, one on a line, and a file descriptor with some. Owns how they
//! are sent and received; must not know what they say.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A message on the socket: JSON on one line.
pub(super) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(super) fn send(
    socket: &UnixStream,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = line(message)?;
    let sent = send_once(socket, &bytes, descriptor.as_slice(), SendFlags::NOSIGNAL)?;
    let mut rest = socket;
    rest.write_all(&bytes[sent..])
}

/// Sends the beginning of `bytes` with up to two descriptors; returns how much that was.
pub(super) fn send_once(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::NOBUFS);
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)
}

/// Takes what has come into `chunk`, with its descriptors; nothing at the end.
pub(super) fn receive(socket: impl AsFd, chunk: &mut [u8]) -> Result<(&[u8], Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let buffers = &mut [IoSliceMut::new(chunk)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let length = rustix::net::recvmsg(socket, buffers, &mut ancillary, flags)?.bytes;
    let descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    Ok((&chunk[..length], descriptors.collect()))
}

/// What has been received of messages, and the descriptor that came with one.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    pub(super) descriptor: Option<OwnedFd>,
}

impl Inbox {
    /// Takes one chunk from the socket; 0 at the end.
    pub(super) fn fill(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        let mut chunk = [0_u8; 4096];
        let (bytes, mut descriptors) = receive(socket, &mut chunk)?;
        self.descriptor = descriptors.pop().or(self.descriptor.take());
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// The next whole message.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let report = serde_json::from_slice(&self.bytes[..end])?;
        self.bytes.drain(..=end);
        Ok(Some(report))
    }
}
