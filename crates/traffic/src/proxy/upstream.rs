//! The proxy's one connection to the driver, opened when a call needs it and again after each loss.

use bytes::Bytes;
use csi_call::Endpoint;
use csi_call::endpoint::{ByteStream, ConnectOptions, Connector, EndpointError};
use h2::client::{Builder, SendRequest};
use http::Uri;
use http::uri::{InvalidUriParts, PathAndQuery};
use std::error::Error as StdError;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The most bytes under way to one side before the other has taken them: of a stream, and of a connection.
pub(super) const WINDOWS: (u32, u32) = (1 << 20, 8 << 20);

/// The most bytes that the headers of a call may hold together: long error messages travel there.
pub(super) const HEADERS_MAX: u32 = 1 << 20;

/// The most bytes of small frames that may wait. Both sides are trusted; a stream of many small messages is no attack.
pub(super) const SMALL_FRAMES_MAX: usize = 64 << 20;

/// The way to the driver.
pub struct Upstream {
    connector: Connector,
    /// The scheme and the name that the driver expects.
    origin: Uri,
    current: Mutex<Option<SendRequest<Bytes>>>,
}

impl Upstream {
    /// The way to `endpoint`, without a connection yet.
    ///
    /// # Errors
    /// When the endpoint and the options do not go together.
    pub fn new(endpoint: &Endpoint, options: &ConnectOptions) -> Result<Self, EndpointError> {
        let connector = Connector::new(endpoint, options)?;
        Ok(Self {
            origin: connector.origin()?,
            connector,
            current: Mutex::new(None),
        })
    }

    /// The URI of a call: the caller's path, under the name that the driver expects.
    pub fn uri(&self, path: Option<PathAndQuery>) -> Result<Uri, InvalidUriParts> {
        let mut parts = self.origin.clone().into_parts();
        parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        Uri::from_parts(parts)
    }

    /// A connection that is open, as far as this side knows.
    pub async fn ready(&self) -> Result<SendRequest<Bytes>, EndpointError> {
        let mut current = self.current.lock().await;
        if let Some(sender) = current.take()
            && let Ok(sender) = sender.ready().await
        {
            *current = Some(sender.clone());
            return Ok(sender);
        }
        let sender = self.connect().await?;
        *current = Some(sender.clone());
        Ok(sender)
    }

    /// Closes the connection, once its calls are done; the next call makes a new one.
    pub async fn forget(&self) {
        *self.current.lock().await = None;
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>, EndpointError> {
        let stream = self.connector.dial().await?;
        let (sender, connection) = Builder::new()
            .initial_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_header_list_size(HEADERS_MAX)
            .data_frame_budget(SMALL_FRAMES_MAX)
            .enable_push(false)
            .handshake::<Box<dyn ByteStream>, Bytes>(stream)
            .await
            .map_err(|error| self.broken(error))?;
        // Its end is seen by the calls, and by the next one's `ready`.
        tokio::spawn(connection);
        sender.ready().await.map_err(|error| self.broken(error))
    }

    /// Why a connection is lost: what the endpoint knows of it, or else what HTTP/2 says.
    pub fn broken(&self, error: h2::Error) -> EndpointError {
        let endpoint = &self.connector.endpoint;
        endpoint
            .last_error()
            .unwrap_or_else(|| EndpointError::Broken(endpoint.to_string(), Arc::new(error)))
    }
}

/// An error with its causes, on one line, without what repeats the part before it.
pub(super) fn in_words(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words.replace('\n', "; "));
        }
        next = cause.source();
    }
    text
}
