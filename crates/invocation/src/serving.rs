//! Serving calls as a process: the place, the signals and the end of a command that is a driver.

use super::connect;
use super::defaults::Defaults;
use super::globals::Globals;
use super::interrupt::{self, Signals};
use super::parse;
use clap::Args;
use csi_call::listen::{ListenAddress, Listener, socket_mode};
use csi_error::{Error, OrError, note};
use csi_mock::{Answers, Ended, Server};
use csi_proto::duration;
use futures_util::stream;
use std::time::Duration;

/// What the help of a command that serves says of its place.
pub const SERVED_ENDPOINT_HELP: &str = "--endpoint, or CSI_ENDPOINT, says where it serves: unix:///PATH, unix-abstract:NAME or tcp://ADDRESS:PORT.";

/// The flags of a command that serves.
#[derive(Args, Clone, Debug)]
pub struct ServingFlags {
    /// Permissions of the socket, in octal
    #[arg(long, value_name = "MODE", default_value = "0660", value_parser = socket_mode)]
    socket_mode: u32,
    /// How long calls may take to be answered after the driver is told to end
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    drain: Duration,
}

/// An endpoint to serve on that was named and is not taken yet.
pub struct ServedEndpoint {
    address: ListenAddress,
    flags: ServingFlags,
}

impl ServedEndpoint {
    /// The endpoint that `--endpoint` or `CSI_ENDPOINT` names, as for every driver.
    ///
    /// # Errors
    /// When there is none, or nobody can listen there.
    pub fn named(
        flags: &ServingFlags,
        globals: &Globals,
        defaults: &Defaults,
    ) -> Result<Self, Error> {
        if defaults.in_shell {
            return Err(Error::usage(parse::NOT_IN_A_SHELL));
        }
        let text = connect::named(globals).ok_or_else(|| {
            Error::usage("no place to serve: give --endpoint, or set CSI_ENDPOINT")
                .hint("--endpoint unix:///tmp/csi.sock")
        })?;
        Ok(Self {
            address: ListenAddress::parse(&text).or_usage().map_err(|error| {
                error.hint("--endpoint says where it serves, or without it CSI_ENDPOINT")
            })?,
            flags: flags.clone(),
        })
    }

    /// Serves there until a signal asks to stop, and all calls are answered.
    pub fn serve<A: Answers>(self, who: &str, server: &Server<A>) -> Result<(), Error> {
        let ServingFlags { socket_mode, drain } = self.flags;
        let runtime = connect::runtime()?;
        runtime.block_on(async {
            // The socket must not stay behind, whenever the second signal comes.
            let mut signals = Signals::watch_first().or_because(interrupt::UNWATCHED)?;
            let listener = Listener::bind(&self.address, socket_mode);
            let listener = listener.or_because("nothing can be served")?;
            note!("note: {who} serves on {}", listener.place(&self.address));
            if self.address.is_public() {
                note!("note: everybody who reaches this port commands the driver");
            }
            let connections = stream::unfold(listener, |listener| async {
                let connection = listener.accept().await;
                Some((connection, listener))
            });
            let served = server.serve(connections, signals.next(), drain).await;
            if let Ended::CutOff(left) = served.or_because("serving ended")? {
                note!(
                    "note: calls that were not answered within {drain:?} and are cut off: {left}"
                );
            }
            Ok::<_, Error>(())
        })?;
        runtime.shutdown_background();
        Ok(())
    }
}
