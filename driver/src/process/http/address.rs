//! The address of the HTTP server: a port of an address, or a unix socket. Owns the syntax.

use crate::process::config::{ConfigError, Endpoint, socket_path};
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Where HTTP is served: on a unix socket, or on a port of any address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAddress(pub Endpoint);

const HTTP: &str = "address for HTTP: give IP:PORT, such as 127.0.0.1:9809, or unix:///PATH";

impl FromStr for HttpAddress {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let place = match text.strip_prefix("unix:") {
            Some(path) => socket_path(path).map(Endpoint::Unix),
            None => port(text).map(Endpoint::Tcp),
        };
        place
            .map(Self)
            .ok_or_else(|| ConfigError::Value(text.to_owned(), HTTP))
    }
}

/// A port of an address. Kubernetes tells a pod its IPv6 address without brackets: $(POD_IP):PORT.
fn port(text: &str) -> Option<SocketAddr> {
    let without_brackets = || {
        let (ip, port) = text.rsplit_once(':')?;
        let ip: Ipv6Addr = ip.parse().ok()?;
        Some((ip, port.parse::<u16>().ok()?).into())
    };
    text.parse().ok().or_else(without_brackets)
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Endpoint::Tcp(address) => write!(f, "{address}"),
            socket => write!(f, "{socket}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ports_and_sockets() {
        for (text, shown) in [
            ("127.0.0.1:9809", "127.0.0.1:9809"),
            ("[::1]:9809", "[::1]:9809"),
            ("fd00::7:9809", "[fd00::7]:9809"),
            ("10.0.0.7:0", "10.0.0.7:0"),
            ("unix:///csi/http.sock", "unix:///csi/http.sock"),
            ("unix:http.sock", "unix://http.sock"),
        ] {
            let address: HttpAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
        }
        for text in [
            "",
            "9809",
            ":9809",
            "localhost:9809",
            "unix:",
            "unix://run/x",
            "/x",
        ] {
            assert!(text.parse::<HttpAddress>().is_err(), "{text}");
        }
    }
}
