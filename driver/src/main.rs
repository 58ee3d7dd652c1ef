//! `csi-nfs`: parse, serve, exit.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use csi_nfs::mount::helper;
use csi_nfs::process::commands;
use csi_nfs::process::config::Config;
use csi_nfs::process::disk_thread;
use csi_nfs::process::driver::Driver;
use csi_nfs::process::flags::{Flags, Serving};
use csi_nfs::process::http::{self, HttpAddress, Watched};
use csi_nfs::process::log::{self, Level, Log};
use csi_nfs::process::privileges::Needs;
use csi_nfs::process::registration::Registration;
use csi_nfs::process::server::{self, Ended, Listener, StopSignals};
use csi_nfs::process::start;
use csi_nfs_store::files::descriptors;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

fn main() -> ExitCode {
    if let Some(code) = helper::run_if_child() {
        return code;
    }
    if let Some(code) = commands::run_if_named() {
        return code;
    }
    // Like every other flag that cannot be used: with the usage, and 2.
    let (serving, config, log) = Flags::parse().resolve().unwrap_or_else(|error| {
        Flags::command()
            .error(ErrorKind::ValueValidation, error)
            .exit()
    });
    let code = match run(serving, config, log) {
        Ok(Ended::Drained) => ExitCode::SUCCESS,
        Ok(Ended::Late | Ended::Forced) => ExitCode::FAILURE,
        Err(error) => {
            log::tell(&format!("csi-nfs: {error}"));
            ExitCode::FAILURE
        }
    };
    log::flush();
    code
}

fn run(serving: Serving, config: Config, log: Log) -> Result<Ended, Box<dyn Error>> {
    let runtime = start::prepare(Needs::of(&config), log)?;
    let ended = runtime.block_on(async {
        let fields = [
            ("driver", config.driver_name.clone().into()),
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("node", config.node_id.clone().into()),
            ("open-files", descriptors::limit().into()),
        ];
        // Before anybody can see the socket: a signal from then on means an orderly end, also while a folder hangs.
        let mut signals = StopSignals::watch(config.bounds.drain)?;
        let starting = async {
            let (place, remedy) = (&serving.endpoint, "choose another --endpoint");
            let shown = place.to_string();
            let listener = Listener::bind(place, &shown, serving.socket_mode, remedy).await?;
            let http = match &serving.http {
                Some(address) => Some(http::listen(address).await?),
                None => None,
            };
            let work_dir = config.work_dir.display().to_string();
            let mut making = spawn_blocking(move || Driver::new(config, log));
            let made = match timeout(disk_thread::BOUND, &mut making).await {
                Ok(made) => made,
                // Calls are not answered before it is known what is published.
                Err(_) => {
                    let fields = [("folder", work_dir.into())];
                    log.event(Level::Warn, "waiting for the work folder's disk", &fields);
                    making.await
                }
            };
            let driver = made??;
            tokio::spawn(driver.clone().housekeeping());
            let mut fields = fields.to_vec();
            if let Some(endpoint) = listener.endpoint() {
                fields.insert(0, ("endpoint", endpoint.to_string().into()));
            }
            if let Some(place) = http.as_ref().and_then(Listener::endpoint) {
                fields.push(("http", HttpAddress(place).to_string().into()));
            }
            log.event(Level::Info, "serving", &fields);
            // The socket listens: the kubelet may call as soon as it knows of it.
            let missing = driver.health().missing_client().await;
            let held = missing.map(|why| (why, driver.health().clone().client_found(log)));
            let registration = match (&serving.kubelet, held) {
                (Some(kubelet), held) => {
                    Some(Registration::begin(kubelet, driver.name(), log, held).await?)
                }
                (None, Some((_, found))) => {
                    tokio::spawn(found);
                    None
                }
                (None, None) => None,
            };
            Ok::<_, Box<dyn Error>>((listener, http, driver, registration))
        };
        let (listener, http, driver, registration) = tokio::select! {
            started = starting => started?,
            _ = signals.next() => return Ok(Ended::Drained),
        };
        let ending = Arc::new(AtomicBool::new(false));
        let answers = http.map(|listener| {
            let watched = Watched {
                driver: driver.clone(),
                registration: registration.as_ref().map(Registration::progress),
                ending: Arc::clone(&ending),
            };
            tokio::spawn(http::serve(listener, watched, log))
        });
        let give_up = || {
            ending.store(true, Ordering::Relaxed);
            driver.give_up();
        };
        let stopped = driver.stopped();
        let routes = driver.routes();
        let place = serving.endpoint.to_string();
        let health = driver.health().clone();
        let tell_of_socket = move |lost: Option<&str>| {
            let (level, what) = match lost {
                Some(_) => (Level::Warn, "the driver's socket is lost"),
                None => (Level::Info, "serving again"),
            };
            let mut fields = vec![("endpoint", place.clone().into())];
            fields.extend(lost.map(|why| ("error", why.into())));
            log.event(level, what, &fields);
            health.note_socket(lost.map(|why| format!("{place}: {why}")));
        };
        let ended = server::serve(
            listener,
            routes,
            log,
            signals,
            give_up,
            stopped,
            tell_of_socket,
        )
        .await?;
        let held_up = match registration {
            Some(registration) => registration.end().await,
            None => None,
        };
        if let Some(answers) = answers {
            answers.abort();
            // It was aborted, which is an error; its socket is gone then.
            let _ = answers.await;
        }
        // The last line, which Kubernetes shows as the container's termination message.
        held_up.map_or(Ok(ended), |why| Err(why.into()))
    });
    // Threads that hang on a file system must not keep the process.
    runtime.shutdown_background();
    ended
}
