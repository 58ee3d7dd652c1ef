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

use crate::recording::{Header, RecordError, Recorder};
use csi_call::Endpoint;
use csi_call::endpoint::{ConnectOptions, EndpointError};
use csi_call::listen::{ListenAddress, ListenError, Listener};
use csi_proto::faults::Faults;
use display::Display;
use existing::Existing;
use journal::CallJournal;
use relay::Relay;
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

/// A proxy that listens.
pub(crate) struct Proxy {
    /// What carries the calls.
    pub relay: Arc<Relay>,
    /// Where they come in.
    pub listener: Listener,
    /// The driver's socket, where that was taken over.
    pub taken: Option<TakeOver>,
    /// The address of the proxy.
    pub place: ListenAddress,
    /// The connections to the driver that existed before its socket was taken over.
    pub existing: Existing,
}

impl Proxy {
    /// A proxy for `driver` that has its place, where it takes the driver's socket that one. Needs a runtime.
    ///
    /// # Errors
    /// When it cannot have it, or cannot record.
    pub(crate) fn start(
        flags: &ProxyFlags,
        taken: Option<TakeOver>,
        driver: &Endpoint,
        options: &ConnectOptions,
        display: Option<Display>,
    ) -> Result<Self, ProxyError> {
        let upstream = Upstream::new(driver, options)?;
        let place = match &taken {
            Some(taken) => ListenAddress::Unix(taken.path.clone()),
            None => ListenAddress::parse(flags.listen.as_deref().unwrap_or_default())?,
        };
        if Endpoint::parse(&place.to_string()).is_ok_and(|own| own.names_the_same(driver)) {
            return Err(ProxyError::Circle(place.to_string()));
        }
        let header = Header {
            target: driver.without_credentials(),
            started: SystemTime::now(),
        };
        let record = |path: &Path| Recorder::begin(path, flags.overwrite, &header);
        let paths = taken.as_ref().map(|taken| [&*taken.path, &*taken.aside]);
        let existing = Existing::of(paths.into_iter().flatten());
        // The recording first: a socket that was taken would have to be given back.
        let recorder = flags.record.as_deref().map(record).transpose()?;
        let listening = match &taken {
            Some(taken) => taken.take(),
            None => Listener::bind(&place, flags.socket_mode),
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
        let journal = CallJournal::new(display, recorder).map_err(ProxyError::Output)?;
        let faults = Faults::new(flags.faults.rules());
        Ok(Self {
            relay: Arc::new(Relay::new(upstream, faults, journal)),
            place: listener.place(&place),
            listener,
            taken,
            existing,
        })
    }
}
