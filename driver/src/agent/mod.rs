//! `csi-nfs agent`: the process on the NFS server that makes copies and purges the trash where the folder lies, and
//! enforces the sizes of volumes. Owns its start and its end.
//!
//! It is a controller that no call reaches: the same recovery, over the same records, by the same rules for who copies
//! (`controller::Role::Agent`). What a controller does once, at its first use of a share, the agent does all the time, as soon
//! as something appears there (`watch`). So it needs no port and no protocol, may die at any moment, and two of it do no harm.

mod attendance;
pub mod flags;
pub mod take_in;
mod watch;

use crate::calls::controller::{Controller, ControllerConfig, Pace, Role};
use crate::process::config::LocalShare;
use crate::process::log::Level;
use crate::process::privileges::Needs;
use crate::process::server::{Ended, StopSignals};
use crate::process::start;
use attendance::ShareSession;
use csi_nfs_store::files::admission::Admission;
use csi_nfs_store::files::descriptors;
use csi_nfs_store::files::roots::local::LocalRoots;
use flags::AgentFlags;
use std::error::Error;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Works as an agent of these shares until a signal ends it.
///
/// # Errors
/// When the system refuses what it needs to begin.
pub fn run(flags: &AgentFlags, shares: &[LocalShare]) -> Result<Ended, Box<dyn Error>> {
    let runtime = start::prepare(Needs::of_agent(flags.quotas), flags.log())?;
    let ended = runtime.block_on(attend(flags, shares));
    // Threads that hang on a file system must not keep the process.
    runtime.shutdown_background();
    ended
}

async fn attend(flags: &AgentFlags, shares: &[LocalShare]) -> Result<Ended, Box<dyn Error>> {
    let log = flags.log();
    let mut signals = StopSignals::watch(flags.drain_timeout)?;
    // From now on it ends no process: each attendance takes it for the word to compare now.
    drop(signal(SignalKind::hangup())?);
    let local = shares.iter().map(|it| (it.export.clone(), it.path.clone()));
    let roots = LocalRoots::new(local);
    let controller = Controller::new(ControllerConfig {
        role: Role::Agent,
        quotas: flags.quotas,
        admission: Admission::default(),
        measure: flags.measure.map(Pace::every),
        other_exports: shares.iter().map(|it| it.export.clone()).collect(),
        notice: Arc::new(move |text| log.event(Level::Info, "agent", &[("notice", text.into())])),
        debug: Arc::new(move |text| log.event(Level::Debug, "agent", &[("notice", text.into())])),
        ..ControllerConfig::new(Arc::new(roots))
    });
    let fields = [
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("shares", shares.len().into()),
        ("open-files", descriptors::limit().into()),
    ];
    log.event(Level::Info, "attending", &fields);
    controller.measure();
    let mut attendances = JoinSet::new();
    for share in shares {
        let attendance = ShareSession::new(controller.clone(), share.export.clone(), log);
        attendances.spawn(attendance.go_on());
    }
    let name = signals.next().await;
    log.event(Level::Info, "draining", &[("signal", name.into())]);
    // Its presence ends first: nothing more is left to it.
    attendances.shutdown().await;
    controller.stop_copies();
    let ended = tokio::select! {
        () = controller.settle() => Ended::Drained,
        () = tokio::time::sleep(signals.drain) => Ended::Late,
        _ = signals.next() => Ended::Forced,
    };
    let how = format!("{ended:?}").to_lowercase();
    log.event(Level::Info, "ended", &[("how", how.into())]);
    Ok(ended)
}
