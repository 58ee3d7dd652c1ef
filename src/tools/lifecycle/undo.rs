//! What takes back each step of a lifecycle: in which order, what must stay when something else could not be undone, how
//! long it may take and how often it is tried.
//!
//! What is said about that which stays is in `left.rs`.

use super::calls::{Driver, step_name};
use super::{Lifecycle, say, text};
use crate::error::{Error, Kind, code_name};
use crate::output::steps::Outcome;
use crate::rpc::validation::Checks;
use csi_proto::{Request, v1};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tonic::Code;

/// How long undoing a step may take at least, with all its tries. The user's --timeout may be meant to fail.
const AT_LEAST: Duration = Duration::from_secs(30);

/// How long a single try may take at least, also of what else takes something back.
pub(crate) const TRY_AT_LEAST: Duration = Duration::from_secs(10);

/// The pauses between its tries.
pub(crate) const PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(1000),
    Duration::from_millis(2000),
];

/// How long to wait for the writer, which looks at its flag between two chunks.
const WRITER_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// One thing to take back.
#[derive(Clone, Debug)]
pub enum Undo {
    /// A folder of ours. Only ever removed when it is empty: a volume may still be mounted below it.
    Folder(PathBuf),
    /// A volume whose creation was asked for and never confirmed.
    Create(v1::CreateVolumeRequest),
    /// A volume.
    Volume(String),
    /// A volume published to a node by the controller.
    ControllerPublish { volume: String, node: String },
    /// A staged volume.
    Stage { volume: String, staging: String },
    /// A published volume.
    Publish { volume: String, target: String },
}

impl Undo {
    /// Whether this must stay as long as `later`, which was done after it, is not undone: a volume in use is not taken
    /// from the node or deleted, nor is a folder removed below which it may be mounted.
    fn must_stay_with(&self, later: &Self) -> bool {
        match later {
            Self::Publish { .. } | Self::Stage { .. } => true,
            Self::ControllerPublish { .. } => matches!(self, Self::Volume(_)),
            Self::Folder(_) => matches!(self, Self::Folder(_)),
            Self::Create(_) | Self::Volume(_) => false,
        }
    }
}

impl<W: Write> Lifecycle<'_, W> {
    /// Undoes everything in reverse. Every part is tried that may be; what fails, and what has to stay because of it, is
    /// said at once.
    pub(super) async fn down(&mut self) -> Result<(), Error> {
        self.stop_writing().await;
        let mut first = None;
        let mut stuck: Vec<Undo> = Vec::new();
        while let Some(last) = self.undo.last().cloned() {
            let stays = stuck.iter().any(|later| last.must_stay_with(later));
            let result = match stays {
                true => Ok(None),
                false => self.undo_one(&last).await,
            };
            self.undo.pop();
            match result {
                Ok(next) => self.undo.extend(next),
                Err(error) => {
                    let _ = io::stderr().write_all(error.render(self.settings.style).as_bytes());
                    first.get_or_insert(error.reported());
                    self.say_left(&last);
                    stuck.push(last);
                    continue;
                }
            }
            if stays {
                self.say_left(&last);
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Ends what still writes to the volume, which would be busy otherwise.
    async fn stop_writing(&mut self) {
        if let Some((writer, target)) = &mut self.writer {
            if !writer.stop(WRITER_ENDS_WITHIN).await {
                let target = std::mem::take(target);
                self.say_writer_left(&target);
            }
            self.writer = None;
        }
    }

    /// Takes one thing back; returns what is to be taken back next because of that.
    async fn undo_one(&mut self, undo: &Undo) -> Result<Option<Undo>, Error> {
        match undo {
            Undo::Folder(path) => match fs::remove_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::because(
                        format!("the folder {} cannot be removed", text(path)),
                        &error,
                    ));
                }
                _ => {}
            },
            Undo::Create(request) => {
                let driver = self.controller.clone();
                // The same name and arguments lead to the same volume.
                let why = "once more, to learn the id";
                let reply = self.take_back(&driver, request, why).await?;
                let id = reply.volume.unwrap_or_default().volume_id;
                if id.is_empty() {
                    let problem = "the reply has no volume id, which the specification requires";
                    return Err(
                        Error::local(problem).doing(step_name(v1::CreateVolumeRequest::METHOD))
                    );
                }
                return Ok(Some(Undo::Volume(id)));
            }
            Undo::Volume(id) => {
                let mut request = v1::DeleteVolumeRequest {
                    volume_id: id.clone(),
                    ..Default::default()
                };
                self.context.add_secrets(&mut request.secrets);
                let driver = self.controller.clone();
                self.take_back(&driver, &request, "").await?;
            }
            Undo::ControllerPublish { volume, node } => {
                let mut request = v1::ControllerUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    node_id: node.clone(),
                    ..Default::default()
                };
                self.context.add_secrets(&mut request.secrets);
                let driver = self.controller.clone();
                self.take_back(&driver, &request, "").await?;
            }
            Undo::Stage { volume, staging } => {
                let request = v1::NodeUnstageVolumeRequest {
                    volume_id: volume.clone(),
                    staging_target_path: staging.clone(),
                };
                let driver = self.node.clone();
                self.take_back(&driver, &request, "").await?;
            }
            Undo::Publish { volume, target } => {
                let request = v1::NodeUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    target_path: target.clone(),
                };
                let driver = self.node.clone();
                self.take_back(&driver, &request, "").await?;
            }
        }
        Ok(None)
    }

    /// One step of the way down: tried again after what may pass, within a bound of its own. Nothing is checked: what is
    /// there has to go, whatever it looks like.
    async fn take_back<Q: Request>(
        &mut self,
        driver: &Driver,
        request: &Q,
        text: &str,
    ) -> Result<Q::Reply, Error> {
        let name = step_name(Q::METHOD);
        let started = Instant::now();
        // Without a limit of the user's a try has none either; Ctrl-C ends it.
        let one = driver.session.timeout();
        let one = one.map(|limit| limit.max(TRY_AT_LEAST));
        let all = one.unwrap_or_default().max(AT_LEAST);
        let unchecked = Checks::default();
        let mut pauses = PAUSES.into_iter();
        let result = loop {
            let left = all.saturating_sub(started.elapsed());
            let driver = Driver {
                session: driver
                    .session
                    .clone()
                    .with_timeout(one.map(|limit| limit.min(left))),
                endpoint: driver.endpoint.clone(),
            };
            let tried = self.attempt(&driver, request, &unchecked);
            let error = match tried.await {
                Ok(reply) => break Ok(reply),
                Err(failure) => failure.error,
            };
            let pause = pauses
                .next()
                .filter(|pause| started.elapsed() + *pause < all);
            match (may_pass(&error), pause) {
                (Some(code), Some(pause)) => {
                    say(&format!("note: {name}: {}, trying again", code_name(code)));
                    tokio::time::sleep(pause).await;
                }
                _ => break Err(error),
            }
        };
        let (outcome, text) = match result {
            Ok(_) => (Outcome::Done, text),
            Err(_) => (Outcome::Failed, ""),
        };
        // A stdout that cannot be written stops nothing here: the volume has to go.
        let _ = self.print(&name, outcome, text, started.elapsed());
        result
    }
}

/// The code of a failure that may pass by itself.
fn may_pass(error: &Error) -> Option<Code> {
    match error.kind() {
        Kind::Rpc(code @ (Code::Aborted | Code::Unavailable | Code::DeadlineExceeded)) => {
            Some(code)
        }
        _ => None,
    }
}
