//! The controller: checks requests, finds the share that they mean, runs the work, and makes the answers. Owns no state that a
//! restart would lose. `service` says which function answers which RPC.

mod addresses;
pub(crate) mod answer;
mod background;
mod background_tasks;
mod capacity;
mod changing;
pub mod config;
mod copies;
mod copying;
mod creation;
pub(crate) mod deadline;
pub mod error;
mod known;
pub(crate) mod lists;
mod looks;
mod measured;
mod measuring;
mod neighbours;
mod observed;
pub(crate) mod options;
pub(crate) mod outcome;
#[expect(clippy::disallowed_methods, reason = "at the start, and in a thread")]
mod remembered;
mod service;
pub(crate) mod shares;
pub(crate) mod sizes;
pub(crate) mod snapshots;
mod twins;
mod upstream;
pub(crate) mod validation;
pub(crate) mod volumes;

pub use config::{ControllerConfig, NamedShare, Pace, Role};

use shares::Shares;
use std::sync::Arc;

/// The Controller service. Cheap to clone; the clones are one controller.
#[derive(Clone)]
pub struct Controller {
    pub(crate) shares: Arc<Shares>,
}

impl Controller {
    /// A controller that does as `config` says. No share is looked at before it is needed, or [`Controller::start`] is
    /// called.
    pub fn new(config: ControllerConfig) -> Self {
        Self {
            shares: Arc::new(Shares::new(config)),
        }
    }

    /// Finishes in the background what an earlier process has left on the shares that were named at the start, looks again at
    /// those on which something was found that somebody has to see to, and keeps the limits of volumes, where this process sets them.
    pub fn start(&self) {
        self.shares.recover_configured();
        self.shares.look_again();
        self.keep_sizes();
    }

    /// Ends the copies that run, where they are, and those that are begun later.
    pub fn stop_copies(&self) {
        self.shares.copies.stop_all();
    }
}
