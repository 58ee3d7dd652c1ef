//! Sockets at which nobody listens, from the first moment on.
//!
//! It is not enough to drop a listener. Until a process that another test starts is another program, it has a copy of every
//! open socket, and the kernel goes on taking connections to a copy that listens. And a free port may be taken again.
#![allow(dead_code)] // Every test program uses a part of it.

use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A socket that no program inherits which a test starts.
fn socket(family: AddressFamily) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None).expect("a socket")
}

/// Makes the socket file that a dead process leaves.
pub fn socket_file(path: impl AsRef<Path>) {
    let address = SocketAddrUnix::new(path.as_ref()).expect("a short path");
    rustix::net::bind(socket(AddressFamily::UNIX), &address).expect("a new file");
}

/// A port of this machine, and the socket that keeps it from being taken.
pub fn port() -> (OwnedFd, u16) {
    let socket = socket(AddressFamily::INET);
    let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    rustix::net::bind(&socket, &any).expect("a free port");
    let address = rustix::net::getsockname(&socket).expect("an address");
    let address = SocketAddrV4::try_from(address).expect("the bound one");
    (socket, address.port())
}

/// Ends the listening of a socket and of each copy of it.
pub fn stop_listening(listener: impl AsFd) {
    rustix::net::shutdown(listener, Shutdown::Both).expect("a socket that listens");
}
