//! Endpoints: every way to name a driver, and what each name means.
//!
//! This file owns the syntax of endpoints: `unix:/p`, `unix:///p`, a path, `unix-abstract:NAME`, `tcp://h:p`, `h:p`,
//! `dns:///h:p`, `https://h[:p]`, `exec:COMMAND`,
//! `pod:NAMESPACE/POD`, `kubectl:[NAMESPACE][/NODE]`, `embedded:[DIR]`, `mock:[DIR]`, and csc's spellings of the first few. The files beneath
//! open connections. None of them knows an RPC, a flag or an output.

mod cluster;
mod connect;
mod error;
mod exec;
mod handshake;
mod inside;
#[cfg(test)]
mod live_tests;
mod pod;
mod state;
#[cfg(test)]
mod tests;
mod tls;
mod watched;

pub use super::process_group::ExecOutcome;
pub use cluster::kubectl;
pub use connect::{ConnectOptions, Connector};
pub use error::EndpointError;
pub use handshake::HandshakeError;
pub use pod::Pod;
pub use tls::TlsOptions;
pub use watched::ByteStream;

use cluster::Sought;
use csi_proto::lock;
use inside::Inside;
use state::Folder;
use std::fmt;
use std::net::Ipv6Addr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::OnceCell;
use watched::LastError;

/// The longest path that the kernel takes for a socket: `sun_path` without its NUL.
pub const SOCKET_PATH_MAX: usize = 107;

/// The forms of an endpoint, for help and errors.
pub(crate) const FORMS: &str = "unix:///PATH, PATH, unix-abstract:NAME, tcp://HOST:PORT, HOST:PORT, dns:///HOST:PORT, https://HOST[:PORT], exec:COMMAND, pod:NAMESPACE/POD, kubectl:[NAMESPACE][/NODE], embedded:[DIR] or mock:[DIR]";

/// Where a proxy moves the socket whose place it takes.
pub fn aside(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".driver");
    aside.into()
}

/// The address of a driver, the number of connections to it, and the last error of one. Clones share them, and a driver in this
/// process.
#[derive(Clone)]
pub struct Endpoint {
    text: String,
    target: Target,
    last_error: LastError,
    connections: Arc<Mutex<ConnectionCount>>,
    /// Opened by the first connection; all of them reach the same driver.
    inside: Arc<OnceCell<Inside>>,
}

/// How many connections to an endpoint were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCount {
    /// All of them.
    pub all: usize,
    /// Those that were made after an error: the one before them could not be made, or had not ended in order.
    pub after_error: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// A unix socket in the file system.
    Unix(PathBuf),
    /// A unix socket in the abstract namespace.
    Abstract(String),
    /// Plain TCP.
    Tcp(Address),
    /// Plain TCP to a name that is resolved, as gRPC writes it.
    Dns(Address),
    /// TLS over TCP.
    Https(Address),
    /// The program and its arguments; never empty.
    Exec(Vec<String>),
    Pod(Pod),
    /// A pod that kubectl finds.
    Cluster(Sought),
    /// The NFS driver, with the folder of its state.
    Embedded(Folder),
    /// The mock, with the folder of its state.
    Mock(Folder),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    /// A name, or an IP address without brackets.
    host: String,
    port: u16,
    family: Family,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Any,
    V4,
    V6,
}

/// A path that means the same in every folder.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl Endpoint {
    /// The endpoint that `text` names. Schemes are read in either case.
    ///
    /// Where `embedded:` and `mock:` keep their state is chosen here for who runs this process now, so that a user namespace may be entered
    /// between this and the connection.
    ///
    /// # Errors
    /// [`EndpointError::Syntax`], which says what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let text = text.trim();
        match target(text) {
            Ok(target) => Ok(Self {
                text: text.to_owned(),
                target,
                last_error: LastError::default(),
                connections: Arc::default(),
                inside: Arc::default(),
            }),
            Err(problem) => Err(EndpointError::Syntax {
                text: text.to_owned(),
                problem,
            }),
        }
    }

    /// Whether it is the NFS driver in this process.
    pub fn is_embedded(&self) -> bool {
        matches!(self.target, Target::Embedded(_))
    }

    /// Whether the driver runs on this machine, as far as the endpoint says it.
    pub fn is_on_this_machine(&self) -> bool {
        matches!(
            self.target,
            Target::Unix(_) | Target::Abstract(_) | Target::Embedded(_) | Target::Mock(_)
        )
    }

    /// Whether both name the same place, however they are written.
    pub fn names_the_same(&self, other: &Self) -> bool {
        match (&self.target, &other.target) {
            (Target::Unix(one), Target::Unix(other)) => {
                let real = in_real_folder(one);
                one == other || (real.is_some() && real == in_real_folder(other))
            }
            (one, other) => one == other,
        }
    }

    /// The endpoint with its scheme, in the one spelling that notes and recordings have for it, however it was written.
    pub fn spelled_out(&self) -> String {
        match &self.target {
            Target::Unix(path) => socket_spelled_out(path),
            Target::Abstract(name) => format!("unix-abstract:{name}"),
            Target::Tcp(address) if address.family == Family::Any => {
                format!("tcp://{}", address.authority(None))
            }
            _ => self.text.clone(),
        }
    }

    /// The unix socket as connect(2) has it, a path, or NUL and an abstract name; `None` for an endpoint that is none.
    pub fn socket(&self) -> Option<PathBuf> {
        match &self.target {
            Target::Unix(path) => Some(path.clone()),
            Target::Abstract(name) => Some(format!("\0{name}").into()),
            _ => None,
        }
    }

    /// The driver's socket, where a proxy that took its place has moved it and not back.
    pub fn moved_aside(&self) -> Option<PathBuf> {
        let Target::Unix(path) = &self.target else {
            return None;
        };
        let aside = aside(path);
        let is_socket = aside.metadata().is_ok_and(|it| it.file_type().is_socket());
        is_socket.then_some(aside)
    }

    /// Whether certificates and names of servers are for it.
    pub fn is_tls(&self) -> bool {
        matches!(self.target, Target::Https(_))
    }

    /// The endpoint as it is named from every folder: paths that begin in this one are made absolute.
    pub fn named_everywhere(&self) -> String {
        match &self.target {
            Target::Unix(path) => socket_spelled_out(&absolute(path)),
            Target::Embedded(Folder::Named(folder)) => {
                format!("embedded:{}", absolute(folder).display())
            }
            Target::Mock(Folder::Named(folder)) => format!("mock:{}", absolute(folder).display()),
            _ => self.text.clone(),
        }
    }

    /// The same without credentials, which the arguments of a command may hold.
    pub fn without_credentials(&self) -> String {
        let text = self.spelled_out();
        match (&self.target, text.split_whitespace().next()) {
            (Target::Exec(_), Some(program)) => format!("{program} …"),
            _ => text,
        }
    }

    /// What requests name as their `:authority`: the host with its port, or `localhost` where there is no host, because
    /// gRPC servers refuse the path of a socket there.
    pub fn authority(&self) -> String {
        match &self.target {
            Target::Tcp(address) | Target::Dns(address) => address.authority(None),
            Target::Https(address) => address.authority(Some(443)),
            _ => "localhost".to_owned(),
        }
    }

    /// Why the driver last could not be reached or was lost; absent while the newest connection stands.
    ///
    /// gRPC reports such failures as an opaque transport error. This is the reason behind it, recorded before the call that
    /// fails returns.
    pub fn last_error(&self) -> Option<EndpointError> {
        self.last_error.get()
    }

    /// How many connections were made until now. A call that finds the last one ended makes another one: the driver may be another
    /// one then.
    pub fn connections(&self) -> ConnectionCount {
        *lock(&self.connections)
    }

    /// Waits until a driver in this process has done what outlives its calls, such as purging a deleted volume. To be awaited before
    /// the runtime ends, which would cut that off; every other endpoint is settled at once.
    pub async fn settled(&self) {
        if let Some(driver) = self.inside.get() {
            driver.settled().await;
        }
    }
}

/// Writes the endpoint as the user wrote it.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({:?} {:?})", self.text, self.target)
    }
}

impl Address {
    /// `host:port`, without a port that is `default`.
    fn authority(&self, default: Option<u16>) -> String {
        // A zone means something on this host only.
        let host = match self.host.split_once('%') {
            Some((host, _zone)) => host,
            None => &self.host,
        };
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        match default == Some(self.port) {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }
}

/// A socket's path by way of its real folder, which `./x`, `../y/x` and a symbolic link to the folder share.
fn in_real_folder(path: &Path) -> Option<PathBuf> {
    let folder = Path::new(".").join(path.parent()?);
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}

/// A socket's path as an endpoint: `unix:///PATH`, and `unix:PATH` where it is relative.
pub fn socket_spelled_out(path: &Path) -> String {
    let slashes = if path.is_absolute() { "//" } else { "" };
    format!("unix:{slashes}{}", path.display())
}

fn target(text: &str) -> Result<Target, String> {
    if text.is_empty() {
        return Err(format!("it is empty; write {FORMS}"));
    }
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    let scheme = scheme.to_ascii_lowercase();
    match (scheme.as_str(), rest.strip_prefix("//")) {
        ("unix", after) => socket(after.unwrap_or(rest)),
        ("unix-abstract", _) => abstract_socket(rest),
        ("exec", _) => command(rest),
        ("pod", None) => Pod::parse(rest).map(Target::Pod),
        ("kubectl", None) => Sought::parse(rest).map(Target::Cluster),
        ("embedded", _) => Ok(Target::Embedded(match rest {
            "" => Folder::of_this_user("embedded"),
            folder => Folder::Named(folder.into()),
        })),
        // A host of that name has a port.
        ("mock", _) if rest.is_empty() || !rest.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Target::Mock(match rest {
                "" => Folder::of_this_user("mock"),
                folder => Folder::Named(folder.into()),
            }))
        }
        ("tcp", Some(after)) => address(after, None, Family::Any).map(Target::Tcp),
        ("tcp4", Some(after)) => address(after, None, Family::V4).map(Target::Tcp),
        ("tcp6", Some(after)) => address(after, None, Family::V6).map(Target::Tcp),
        ("https", Some(after)) => address(after, Some(443), Family::Any).map(Target::Https),
        ("dns", Some(after)) => match after.split_once('/') {
            Some(("", name)) => address(name, None, Family::Any).map(Target::Dns),
            _ => Err("a name server of its own cannot be asked; write dns:///HOST:PORT".to_owned()),
        },
        ("dns", None) if rest.contains(':') => address(rest, None, Family::Any).map(Target::Dns),
        ("http", Some(after)) => Err(format!(
            "gRPC without TLS is written tcp://{after}, with TLS https://{after}"
        )),
        ("udp" | "udp4" | "udp6" | "ip" | "ip4" | "ip6" | "unixgram" | "unixpacket", Some(_)) => {
            Err(format!(
                "{scheme} carries packets, and gRPC needs a stream; write unix:///PATH or tcp://HOST:PORT"
            ))
        }
        (_, Some(_)) if !scheme.contains('/') => {
            Err(format!("there is no scheme {scheme:?}; write {FORMS}"))
        }
        _ if text.contains('/') => socket(text),
        _ if text.starts_with('@') || !text.contains(':') => socket(text),
        _ => address(text, None, Family::Any)
            .map(Target::Tcp)
            .map_err(|problem| format!("{problem}; for a socket of that name write unix:{text}")),
    }
}

/// A socket's path, or, with Go's `@`, its abstract name.
fn socket(path: &str) -> Result<Target, String> {
    match path.strip_prefix('@') {
        Some(name) => return abstract_socket(name),
        None if path.is_empty() => {
            return Err("the socket's path is missing; write unix:///PATH".to_owned());
        }
        None if path.len() > SOCKET_PATH_MAX => {
            return Err(format!(
                "the path has {} bytes, and a socket's path at most {SOCKET_PATH_MAX}; use a shorter one, such as a symbolic link to its folder",
                path.len()
            ));
        }
        None => {}
    }
    Ok(Target::Unix(path.into()))
}

fn abstract_socket(name: &str) -> Result<Target, String> {
    match name.len() {
        0 => Err("the socket's name is missing; write unix-abstract:NAME".to_owned()),
        1..=SOCKET_PATH_MAX => Ok(Target::Abstract(name.to_owned())),
        length => Err(format!(
            "the name has {length} bytes, and a socket's name at most {SOCKET_PATH_MAX}"
        )),
    }
}

fn command(text: &str) -> Result<Target, String> {
    match shlex::split(text) {
        None => Err("a quote in the command is not closed".to_owned()),
        Some(words) if words.is_empty() => Err(
            "the command is missing; write for example exec:ssh HOST csi proxy --stdio /SOCKET"
                .to_owned(),
        ),
        Some(words) => Ok(Target::Exec(words)),
    }
}

fn address(text: &str, default_port: Option<u16>, family: Family) -> Result<Address, String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, after) = inner
                .split_once(']')
                .ok_or("the ] after the IPv6 address is missing")?;
            let number = host.split_once('%').map_or(host, |(number, _zone)| number);
            if number.parse::<Ipv6Addr>().is_err() {
                return Err(format!("{number:?} is not an IPv6 address"));
            }
            match after {
                "" => (host, None),
                _ => {
                    let port = after
                        .strip_prefix(':')
                        .ok_or("only a :PORT can follow the ]")?;
                    (host, Some(port))
                }
            }
        }
        None => match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                let is_address = [text, host].map(|one| one.parse::<Ipv6Addr>().is_ok());
                let problem = match is_address {
                    [false, false] => "there is more than one colon; write HOST:PORT",
                    _ => "an IPv6 address stands in brackets, as in [::1]:10000",
                };
                return Err(problem.to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if !host.contains(':')
        && !host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    {
        return Err(format!("{host:?} is not a host's name or address"));
    }
    let port = match (port, default_port) {
        (None, Some(_)) if host.is_empty() => {
            return Err("the host is missing; write https://HOST[:PORT]".to_owned());
        }
        (None, Some(port)) => port,
        (None, None) => return Err("the port is missing; write HOST:PORT".to_owned()),
        (Some(port), _) => match port.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(format!("{port:?} is not a port, a number from 1 to 65535")),
        },
    };
    Ok(Address {
        // No host is this one, as for Go.
        host: if host.is_empty() { "localhost" } else { host }.to_owned(),
        port,
        family,
    })
}
