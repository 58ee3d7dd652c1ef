//! The address of the HTTP server: a port of an address, or a unix socket. Owns the syntax.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// Where HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAddress {
    /// On a unix socket.
    Unix(PathBuf),
    /// On a port of this address.
    Tcp(SocketAddr),
}

/// Text that names no place for HTTP.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no address for HTTP: give IP:PORT, such as 127.0.0.1:9809, or unix:///PATH")]
pub struct HttpAddressError(String);

impl FromStr for HttpAddress {
    type Err = HttpAddressError;

    fn from_str(text: &str) -> Result<Self, HttpAddressError> {
        let wrong = || HttpAddressError(text.to_owned());
        match text.strip_prefix("unix:") {
            Some(rest) => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                let unclear = rest.starts_with("//") && !path.starts_with('/');
                if path.is_empty() || path.ends_with('/') || unclear {
                    return Err(wrong());
                }
                Ok(Self::Unix(path.into()))
            }
            None => match text.parse() {
                Ok(address) => Ok(Self::Tcp(address)),
                // Kubernetes tells a pod its IPv6 address without brackets: $(POD_IP):PORT.
                Err(_) => {
                    let (ip, port) = text.rsplit_once(':').ok_or_else(wrong)?;
                    let ip: Ipv6Addr = ip.parse().map_err(|_| wrong())?;
                    let port: u16 = port.parse().map_err(|_| wrong())?;
                    Ok(Self::Tcp((ip, port).into()))
                }
            },
        }
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
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
