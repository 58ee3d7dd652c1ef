//! One driver under load: carries out a step, notes what it makes, and learns from its reply.
//!
//! What a step is stands in `scenario.rs`, how workers do one after the other in `workers.rs`.

use super::client::{CallOutcome, Client};
use super::scenario::{CycleStep, Scenario};
use super::template::{Filling, Knowledge};
use bytes::Bytes;
use csi_error::say;
use csi_invocation::run_folder;
use csi_proto::schema::Message;
use csi_proto::{Method, contents, lock};
use csi_rpc::facts::{Making, Thing};
use csi_undo::Made;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, Once};
use tonic::Code;

/// A driver, what is done to it, and what is there because of that.
pub(crate) struct Side {
    /// The connections for calls of Node and Identity.
    pub node: Arc<Client>,
    /// The connections for the other calls; the same client unless another endpoint was named.
    pub controller: Arc<Client>,
    /// The scenario of the load.
    pub scenario: Scenario,
    /// The run id, which is part of all names.
    pub run: String,
    /// The seed of `{random}`.
    pub seed: u64,
    /// Whether what failed cycles have made stays.
    pub keeps: bool,
    /// The items that this run has made.
    pub made: Mutex<Made>,
    /// Staging folders of this run.
    pub folders: Mutex<BTreeSet<PathBuf>>,
    /// Says once that such a folder could not be made.
    pub no_folder: Once,
    /// The values that each worker learned in the setup.
    pub knowledge: Mutex<Vec<Knowledge>>,
    /// The number of the next call.
    pub next: AtomicU64,
}

/// The numbers of what a cycle has made so far.
pub(crate) type ItemNumbers = Vec<u64>;

impl Side {
    /// Which client serves an RPC.
    pub fn client(&self, method: &Method) -> &Client {
        match csi_rpc::is_at_node(method) {
            true => &self.node,
            false => &self.controller,
        }
    }

    /// The items that this run has made.
    pub fn made(&self) -> MutexGuard<'_, Made> {
        lock(&self.made)
    }

    /// Makes one call of the cycle.
    pub async fn step(
        &self,
        step: &CycleStep,
        number: u64,
        worker: usize,
        known: &mut Knowledge,
        open: &mut ItemNumbers,
    ) -> CallOutcome {
        let method = step.method;
        let request = step.request(number).fill(&Filling {
            number,
            worker,
            run: &self.run,
            seed: self.seed,
            known,
        });
        let made = match step.undone {
            true => self.made().asked(method, &request),
            false => None,
        };
        if made.is_some() {
            self.make_staging_folder(method, &request);
        }
        let outcome = self
            .client(method)
            .call(worker, method, request.clone())
            .await;
        if let Some(made) = made {
            let mut list = self.made();
            open.extend(match outcome.is_sent {
                true => list.answered(made, &request, outcome.code, &outcome.reply),
                false => list.withdrawn(made),
            });
            if list.get(made).is_none() {
                // It was refused, and the driver has nothing in its folder.
                self.remove_staging_folder(csi_rpc::making(method), method, &request);
            }
        }
        if outcome.code == Code::Ok {
            for (what, path) in &step.learns {
                let found = contents(method.response, &outcome.reply, path);
                let found = found.into_iter().map(|one| outcome.reply.slice_ref(one));
                known.set(*what, found.collect());
            }
            self.made().undone(method, &request);
            self.unstaged(method, &request);
        }
        outcome
    }

    /// Removes the staging folder of this run whose volume was unstaged.
    pub fn unstaged(&self, method: &Method, request: &Bytes) {
        let making = csi_rpc::maker_of(method).map(|(_, making)| making);
        self.remove_staging_folder(making, method, request);
    }

    fn remove_staging_folder(&self, making: Option<&Making>, method: &Method, request: &Bytes) {
        if let Some(making) = making
            && let Some(folder) = staging_folder(making.thing, method.request, request)
            && lock(&self.folders).remove(&folder)
        {
            // Only when it is empty: something may still be mounted below it.
            let _ = fs::remove_dir(folder);
        }
    }

    /// Staging paths are made by who calls. Where the driver sees other folders this does no harm.
    fn make_staging_folder(&self, method: &Method, request: &Bytes) {
        if let Some(making) = csi_rpc::making(method)
            && let Some(folder) = staging_folder(making.thing, method.request, request)
        {
            match fs::create_dir(&folder) {
                Ok(()) => {
                    run_folder::mark(&folder, &self.node.endpoint);
                    lock(&self.folders).insert(folder);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => self.no_folder.call_once(|| {
                    let folder = folder.display();
                    say!("warning: the staging folder {folder} cannot be made here: {error}");
                }),
            }
        }
    }
}

fn staging_folder(thing: Thing, message: &'static Message, request: &Bytes) -> Option<PathBuf> {
    if thing != Thing::StagedVolume {
        return None;
    }
    let path = contents(message, request, "staging_target_path").pop()?;
    Some(PathBuf::from(std::str::from_utf8(path).ok()?))
}
