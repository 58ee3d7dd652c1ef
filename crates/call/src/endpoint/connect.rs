//! Opens connections to an endpoint, again after each loss, and a gRPC channel over them; finds the pod that a connection goes to.

use super::exec::ExecStream;
use super::inside::Inside;
use super::pod::Pod;
use super::tls::{Tls, TlsOptions};
use super::watched::{ByteStream, Greeting, StreamOrigin, Watched};
use super::{Address, Endpoint, EndpointError, Family, Target};
use csi_proto::lock;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::{Channel, Uri};

/// The most bytes that a reply's headers may hold together. With the default of 16 KiB, longer error messages, which travel
/// there, are lost.
const HEADERS_MAX: u32 = 1 << 20;

/// How often a unix socket is tried whose queue of connections is full.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The options of connections.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The time for one connection to be made: looking up the name, connecting, and the TLS handshake.
    pub timeout: Duration,
    /// For `https` endpoints only.
    pub tls: TlsOptions,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            tls: TlsOptions::default(),
        }
    }
}

impl Endpoint {
    /// A channel whose first connection stands, and which makes a new one (a new socket, a new child) whenever a call finds
    /// the last one lost.
    ///
    /// Dropping every clone of the channel closes the connection; an `exec:` command is then ended, at the latest when the
    /// runtime is dropped. A standing connection does not prove that anybody answers: give each call a deadline.
    ///
    /// # Errors
    /// The typed reason why there is no first connection. Later failures come as a call's status, with the reason in
    /// [`Endpoint::last_error`].
    pub async fn connect(&self, options: &ConnectOptions) -> Result<Channel, EndpointError> {
        let connector = Arc::new(Connector::new(self, options)?);
        let origin = connector.origin()?;
        let broken = |cause: tonic::transport::Error| {
            EndpointError::Broken(self.to_string(), Arc::new(cause))
        };
        // Nobody looks this target up: the connector opens the connections, and a server sees the origin alone.
        let channel = tonic::transport::Endpoint::from_static("http://localhost")
            .user_agent(concat!("csi/", env!("CARGO_PKG_VERSION")))
            .map_err(broken)?
            .origin(origin)
            .http2_max_header_list_size(HEADERS_MAX);
        let connect = tower::service_fn(move |_: Uri| {
            let connector = Arc::clone(&connector);
            async move { connector.open(Greeting::Awaited).await.map(TokioIo::new) }
        });
        channel
            .connect_with_connector(connect)
            .await
            .map_err(|error| self.last_error().unwrap_or_else(|| broken(error)))
    }

    /// Opens a stream of bytes to the driver, without gRPC.
    ///
    /// # Errors
    /// The typed reason why there is no connection.
    pub async fn open(
        &self,
        options: &ConnectOptions,
    ) -> Result<Box<dyn ByteStream>, EndpointError> {
        let connector = Connector::new(self, options)?;
        let stream = connector.open(Greeting::Ignored).await?;
        Ok(Box::new(stream))
    }

    /// The pod that the driver runs in, which kubectl may have to find; `None` for a driver elsewhere.
    ///
    /// # Errors
    /// When no pod is found.
    pub async fn pod(&self) -> Option<Result<Pod, EndpointError>> {
        match &self.target {
            Target::Pod(pod) => Some(Ok(pod.clone())),
            Target::Cluster(sought) => Some(sought.find().await),
            _ => None,
        }
    }

    /// Whether the driver is the one of this project's chart, wherever kubectl finds it.
    pub fn is_of_the_chart(&self) -> bool {
        matches!(self.target, Target::Cluster(_))
    }
}

/// Opens connections to one endpoint.
pub struct Connector {
    /// The endpoint.
    pub endpoint: Endpoint,
    timeout: Duration,
    tls: Option<Tls>,
}

impl Connector {
    /// For connections to this endpoint.
    ///
    /// # Errors
    /// When the options cannot be used for it.
    pub fn new(endpoint: &Endpoint, options: &ConnectOptions) -> Result<Self, EndpointError> {
        let tls = match &endpoint.target {
            Target::Https(address) => Some(Tls::new(&options.tls, &address.host, options.timeout)?),
            _ if options.tls == TlsOptions::default() => None,
            _ => {
                return Err(EndpointError::TlsUnused(endpoint.to_string()));
            }
        };
        Ok(Self {
            endpoint: endpoint.clone(),
            timeout: options.timeout,
            tls,
        })
    }

    /// Opens one connection for gRPC. If the other side does not speak gRPC, [`Endpoint::last_error`] says so.
    ///
    /// # Errors
    /// The typed reason why there is no connection.
    pub async fn dial(&self) -> Result<Box<dyn ByteStream>, EndpointError> {
        Ok(Box::new(self.open(Greeting::Awaited).await?))
    }

    /// The scheme and authority of requests.
    pub fn origin(&self) -> Result<Uri, EndpointError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let renamed = self.tls.as_ref().and_then(Tls::renamed);
        let authority = renamed.map_or_else(|| self.endpoint.authority(), str::to_owned);
        let origin = format!("{scheme}://{authority}").parse::<Uri>();
        origin.map_err(|error| EndpointError::Syntax {
            text: self.endpoint.to_string(),
            problem: format!("{authority:?} cannot be a request's authority ({error})"),
        })
    }

    async fn open(&self, greeting: Greeting) -> Result<Watched, EndpointError> {
        let after_error = self.endpoint.last_error.get().is_some();
        self.endpoint.last_error.set(None);
        let stream = match tokio::time::timeout(self.timeout, self.open_stream()).await {
            Ok(stream) => stream,
            Err(_) => Err(EndpointError::TimedOut(
                self.endpoint.to_string(),
                self.timeout,
            )),
        };
        let stream =
            stream.inspect_err(|error| self.endpoint.last_error.set(Some(error.clone())))?;
        let mut count = lock(&self.endpoint.connections);
        count.all += 1;
        count.after_error += usize::from(after_error);
        drop(count);
        let origin = StreamOrigin {
            endpoint: self.endpoint.to_string(),
            tls_address: match &self.endpoint.target {
                Target::Tcp(address) | Target::Dns(address) => Some(address.authority(None)),
                _ => None,
            },
            last_error: self.endpoint.last_error.clone(),
        };
        Ok(Watched::new(stream, origin, greeting))
    }

    async fn open_stream(&self) -> Result<Box<dyn ByteStream>, EndpointError> {
        let inside = &self.endpoint.inside;
        Ok(match &self.endpoint.target {
            Target::Unix(path) => Box::new(self.unix(path).await?),
            // The kernel's mark of an abstract name is a NUL at its start.
            Target::Abstract(name) => Box::new(self.unix(Path::new(&format!("\0{name}"))).await?),
            Target::Tcp(address) | Target::Dns(address) => Box::new(self.tcp(address).await?),
            Target::Https(address) => {
                let stream = self.tcp(address).await?;
                match &self.tls {
                    Some(tls) => Box::new(tls.handshake(stream).await?),
                    None => Box::new(stream),
                }
            }
            Target::Exec(words) => Box::new(ExecStream::start(words)?),
            Target::Pod(pod) => Box::new(pod.open().await?),
            Target::Cluster(sought) => Box::new(sought.find().await?.open().await?),
            // The first connection opens the driver.
            Target::Embedded(folder) => {
                let open = async || Inside::nfs(folder);
                Box::new(inside.get_or_try_init(open).await?.connect())
            }
            Target::Mock(folder) => {
                let open = || Inside::mock(folder);
                Box::new(inside.get_or_try_init(open).await?.connect())
            }
        })
    }

    async fn unix(&self, path: &Path) -> Result<UnixStream, EndpointError> {
        loop {
            match UnixStream::connect(path).await {
                // The queue is full: the driver is busy, or hangs. The deadline tells.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                result => return result.map_err(|error| self.unix_error(path, error)),
            }
        }
    }

    fn unix_error(&self, path: &Path, error: io::Error) -> EndpointError {
        let path = path.to_owned();
        let wrong_type = rustix::io::Errno::PROTOTYPE.raw_os_error();
        match error.kind() {
            io::ErrorKind::NotFound => EndpointError::NoSocket(path),
            io::ErrorKind::PermissionDenied => match path.symlink_metadata() {
                Err(hidden) if hidden.kind() == error.kind() => EndpointError::FolderClosed(path),
                _ => EndpointError::PermissionDenied(path),
            },
            // The kernel says the same of a dead socket and of any other file.
            io::ErrorKind::ConnectionRefused => match path.metadata() {
                Ok(file) if !file.file_type().is_socket() => EndpointError::NotASocket(path),
                _ => self.refused(),
            },
            _ if error.raw_os_error() == Some(wrong_type) => EndpointError::NotASocket(path),
            _ => self.unreachable(error),
        }
    }

    /// Each address in turn, with its share of the time, so that one that swallows packets does not hide the next.
    async fn tcp(&self, address: &Address) -> Result<TcpStream, EndpointError> {
        let addresses = self.resolve(address).await?;
        let share = self.timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        let mut last = None;
        for address in addresses {
            match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream
                        .set_nodelay(true)
                        .map_err(|error| self.unreachable(error))?;
                    return Ok(stream);
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    last = Some(self.refused());
                }
                Ok(Err(error)) => last = Some(self.unreachable(error)),
                Err(_) => last = None,
            }
        }
        Err(last
            .unwrap_or_else(|| EndpointError::TimedOut(self.endpoint.to_string(), self.timeout)))
    }

    /// The host's addresses of the wanted family: at least one.
    async fn resolve(&self, address: &Address) -> Result<Vec<SocketAddr>, EndpointError> {
        let unresolved = |cause| EndpointError::Unresolved(address.host.clone(), Arc::new(cause));
        let addresses: Vec<SocketAddr> =
            tokio::net::lookup_host((address.host.as_str(), address.port))
                .await
                .map_err(unresolved)?
                .filter(|found| match address.family {
                    Family::Any => true,
                    Family::V4 => found.is_ipv4(),
                    Family::V6 => found.is_ipv6(),
                })
                .collect();
        match addresses.is_empty() {
            true => Err(unresolved(io::Error::other("it has no such address"))),
            false => Ok(addresses),
        }
    }

    fn refused(&self) -> EndpointError {
        EndpointError::Refused(self.endpoint.to_string())
    }

    fn unreachable(&self, cause: io::Error) -> EndpointError {
        EndpointError::Unreachable(self.endpoint.to_string(), Arc::new(cause))
    }
}
