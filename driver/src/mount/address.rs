//! Finds the addresses of a server's name that the kernel takes, and the address by which this machine reaches them. Runs in
//! the helper process: a resolver may hang, and a static program's resolver may load the system's libraries.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

/// The port of NFS where nothing else is said; version 4 knows no other way to find it.
pub const NFS_PORT: u16 = 2049;

/// The addresses of `server`, which is a host name or an address, in the resolver's order and each once.
///
/// # Errors
/// When the name cannot be resolved, or has no address.
pub fn resolve(server: &str) -> io::Result<Vec<SocketAddr>> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in (server, NFS_PORT).to_socket_addrs()? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the name has no address",
        ));
    }
    Ok(addresses)
}

/// The address as the kernel's option `addr` takes it: without port, with the scope of a link-local one.
pub fn kernel_form(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V6(six) if six.scope_id() != 0 => format!("{}%{}", six.ip(), six.scope_id()),
        other => other.ip().to_string(),
    }
}

/// The address of this machine from which `server` is reached. Version 4.0 gives it to the server for callbacks.
///
/// # Errors
/// When no route leads there.
pub fn local_address(server: &SocketAddr) -> io::Result<IpAddr> {
    // Connecting a datagram socket sends nothing; the kernel only picks the route.
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    Ok(socket.local_addr()?.ip())
}

/// Whether something accepts connections at `address` within `timeout`. The kernel's own attempt would go on until the
/// helper is killed, and could not tell a server that is down from one that is slow.
pub fn probe(address: &SocketAddr, timeout: Duration) -> io::Result<()> {
    TcpStream::connect_timeout(address, timeout).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType};
    use std::net::{Ipv4Addr, SocketAddrV4, SocketAddrV6, TcpListener};

    #[test]
    fn addresses_resolve_to_themselves() {
        assert_eq!(
            resolve("10.0.0.4").unwrap(),
            ["10.0.0.4:2049".parse().unwrap()]
        );
        assert_eq!(resolve("::1").unwrap(), ["[::1]:2049".parse().unwrap()]);
        assert!(resolve("no-such-host.invalid").is_err());
    }

    #[test]
    fn the_kernel_gets_scopes_but_no_ports() {
        let link_local = SocketAddrV6::new("fe80::1".parse().unwrap(), 2049, 0, 3);
        assert_eq!(kernel_form(&link_local.into()), "fe80::1%3");
        assert_eq!(kernel_form(&"10.0.0.4:2049".parse().unwrap()), "10.0.0.4");
    }

    #[test]
    fn loopback_is_reached_from_loopback() {
        let local = local_address(&"127.0.0.1:2049".parse().unwrap()).unwrap();
        assert!(local.is_loopback());
    }

    #[test]
    fn probing_tells_open_from_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let timeout = Duration::from_secs(5);
        assert!(probe(&address, timeout).is_ok());
        // Not a listener that is dropped: what other tests start may still have it.
        let closed = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&closed, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = rustix::net::getsockname(&closed).unwrap();
        let address = SocketAddr::try_from(address).unwrap();
        assert!(probe(&address, timeout).is_err());
    }
}
