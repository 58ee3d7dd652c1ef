//! `csi proxy`: carries connections between an orchestrator and a driver.
//!
//! Nothing of a call is changed on its way: bytes and headers are passed on, and looked at aside.

mod carry;
pub mod command;
mod display;
mod existing;
mod flags;
mod journal;
mod relay;
pub mod stdio;
mod take_over;
mod upstream;

pub use flags::ProxyFlags;

use crate::recording::{Header, RecordError, Recorder, Unknown};
use csi_call::Endpoint;
use csi_call::endpoint::{ConnectOptions, EndpointError, socket_spelled_out};
use csi_call::listen::{ListenAddress, ListenError, Listener};
use csi_output::colour::{self, Brush};
use csi_proto::faults::Faults;
use display::Display;
use existing::Existing;
use journal::CallJournal;
use relay::Relay;
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use take_over::TakeOver;
use thiserror::Error;
use upstream::Upstream;

/// A proxy that cannot begin.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// The proxy cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The driver is not one that can be connected to, whenever it is tried.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The proxy cannot record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The proxy would be its own driver.
    #[error("--listen and --to both name {0}: calls would go round in circles")]
    Circle(String),
    /// There is no thread for what is shown.
    #[error("the output cannot be prepared")]
    Output(#[source] io::Error),
}

/// The options for showing calls.
#[derive(Clone, Copy, Debug)]
pub struct Show {
    /// Whether each call is shown as one JSON object.
    pub json: bool,
    /// With their metadata.
    pub metadata: bool,
}

/// A proxy that listens.
pub struct Proxy {
    relay: Arc<Relay>,
    listener: Listener,
    taken: Option<TakeOver>,
    /// The address of the proxy.
    pub place: String,
    /// The connections to the driver that existed before its socket was taken over.
    pub existing: Existing,
    /// Whether others than processes of this machine can reach it.
    pub is_public: bool,
    drain: std::time::Duration,
}

/// The path that the driver of a socket moves to when the socket is taken over.
///
/// # Errors
/// When its path cannot be used.
pub fn aside(socket: &str) -> Result<String, ListenError> {
    let taken = TakeOver::new(socket_path(socket)?.as_path())?;
    Ok(socket_spelled_out(taken.aside()))
}

fn socket_path(text: &str) -> Result<std::path::PathBuf, ListenError> {
    match ListenAddress::parse(text) {
        Ok(ListenAddress::Unix(path)) => Ok(path),
        Err(_) if !text.is_empty() && !text.contains(':') => Ok(text.into()),
        _ => Err(ListenError::Syntax {
            text: text.to_owned(),
            problem: "only a socket in the file system can be taken over".to_owned(),
        }),
    }
}

impl Proxy {
    /// A proxy for `driver` that has its place. Needs a runtime.
    ///
    /// # Errors
    /// When it cannot have it, or cannot record.
    pub fn start(
        flags: &ProxyFlags,
        driver: &Endpoint,
        options: &ConnectOptions,
        show: Show,
    ) -> Result<Self, ProxyError> {
        let upstream = Upstream::new(driver, options)?;
        let place = flags
            .listen
            .as_deref()
            .map(ListenAddress::parse)
            .transpose()?;
        let is_own = |place: &ListenAddress| {
            Endpoint::parse(&place.to_string()).is_ok_and(|own| own.names_the_same(driver))
        };
        if let Some(place) = place.as_ref().filter(|place| is_own(place)) {
            return Err(ProxyError::Circle(place.to_string()));
        }
        let header = Header {
            target: driver.without_credentials(),
            started: SystemTime::now(),
        };
        let record = |path: &Path| Recorder::begin(path, flags.overwrite, &header);
        let display = Display {
            json: show.json,
            metadata: show.metadata,
            unknown: match flags.show_unknown {
                true => Unknown::Fields,
                false => Unknown::Size,
            },
            brush: Brush(!show.json && colour::is_wanted()),
        };
        let taken = match &flags.take_over {
            Some(socket) => Some(TakeOver::new(&socket_path(socket)?)?),
            None => None,
        };
        let paths = taken.as_ref().map(|taken| [taken.path(), taken.aside()]);
        let existing = Existing::of(paths.into_iter().flatten());
        // The recording first: a socket that was taken would have to be given back.
        let recorder = flags.record.as_deref().map(record).transpose()?;
        let listening = match (&place, &taken) {
            (Some(place), _) => Listener::bind(place, flags.socket_mode),
            (None, Some(taken)) => taken.take(),
            (None, None) => Err(ListenError::nowhere()),
        };
        let listener = match listening {
            Ok(listener) => listener,
            Err(error) => {
                if let Some(recorder) = recorder {
                    recorder.discard();
                }
                return Err(error.into());
            }
        };
        let shown = match (&place, &flags.take_over) {
            (Some(place), _) => listener.place(place).to_string(),
            (None, socket) => {
                let path = socket.as_deref().map(socket_path).transpose()?;
                socket_spelled_out(&path.unwrap_or_default())
            }
        };
        let display = (!flags.quiet).then_some(display);
        let journal = CallJournal::new(display, recorder).map_err(ProxyError::Output)?;
        let faults = Faults::new(flags.faults.rules());
        Ok(Self {
            relay: Arc::new(Relay::new(upstream, faults, journal)),
            listener,
            taken,
            place: shown,
            existing,
            is_public: place.is_some_and(|place| place.is_public()),
            drain: flags.drain,
        })
    }

    /// Works until `stop` ends, and a little longer for the calls that run then. Returns how many calls the
    /// recording lacks.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> u64 {
        self.relay
            .serve(self.listener, self.taken, stop, self.drain)
            .await
    }
}
