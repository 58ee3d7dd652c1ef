//! The driver that is served: an executable, what it can do, what it has done, and its calls. Owns the rule that a call goes
//! on when its caller has gone.

use super::answer::{Answer, CallOutError, Capabilities};
use super::call_out::CallOuts;
use super::error::{FlexError, shown};
use super::options::texts_of;
use super::paths::Bounds;
use super::request;
use super::state::Store;
use super::taken::{Running, Taken};
use bytes::Bytes;
use csi_error::note;
use csi_proto::value::secret_values;
use csi_proto::{Request, contents};
use prost::Message as _;
use std::sync::Arc;
use tokio::time::Instant;
use tonic::Status;

/// Whether a driver can do it, as it says itself or as it is said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// It attaches and detaches, and mounts for the node before it mounts for workloads.
    pub attaches: bool,
    /// The use of its volumes can be asked of their file system.
    pub has_stats: bool,
    /// It gives the files to a group by itself.
    pub takes_group: bool,
    /// It makes volumes larger.
    pub expands: bool,
}

impl Abilities {
    /// What init has said, and what flags add to it.
    pub fn of(said: Capabilities, attaches: bool, expands: bool) -> Self {
        Self {
            attaches: said.attach.unwrap_or(attaches),
            has_stats: said.supports_metrics,
            takes_group: said.fs_group == Some(false),
            expands: said.requires_fs_resize || expands,
        }
    }
}

/// Who the driver is.
pub struct Identity {
    /// Its name in CSI.
    pub name: String,
    /// The node's id.
    pub node_id: String,
    /// Whether each call-out is told on stderr.
    pub is_verbose: bool,
}

/// A driver.
pub struct Flex {
    /// Who it is.
    pub identity: Identity,
    /// What it can do.
    pub abilities: Abilities,
    /// Its executable.
    pub call_outs: CallOuts,
    /// What it has done.
    pub store: Store,
    /// The calls that have a volume.
    pub running: Running,
}

/// The aspects of a volume: itself, and a question about it, which is answered also while the volume is taken.
pub const VOLUME: &str = "";
pub const QUESTION: &str = "\0question";

/// A call as it has come.
pub struct Asked {
    /// The driver.
    pub flex: Arc<Flex>,
    /// The request.
    pub message: Bytes,
    /// When its caller no longer waits.
    pub deadline: Option<Instant>,
}

/// A call that runs and has its volume.
pub struct Call {
    /// The driver.
    pub flex: Arc<Flex>,
    /// The volume's id.
    pub volume: String,
    taken: Taken,
    deadline: Option<Instant>,
    secrets: Vec<String>,
}

impl Asked {
    /// Answers what is known without the executable.
    pub fn known<Q: Request>(&self, reply: Q::Reply) -> Result<Vec<u8>, Status> {
        self.request::<Q>().map(|_| reply.encode_to_vec())
    }

    fn request<Q: Request>(&self) -> Result<Q, Status> {
        let request = Q::decode(self.message.clone());
        request.map_err(|error| Status::internal(error.to_string()))
    }

    /// Carries out the request while no other one has that aspect of its volume. The work goes on when the caller has gone: what
    /// has been begun is to be noted.
    ///
    /// # Errors
    /// The work's own; ABORTED when another call has it.
    pub async fn carried_out<Q: Request, W>(
        self,
        aspect: &str,
        work: impl FnOnce(Call, Q) -> W,
    ) -> Result<Vec<u8>, Status>
    where
        W: Future<Output = Result<Q::Reply, FlexError>> + Send + 'static,
    {
        let of = Q::METHOD.request;
        let volume = contents(of, &self.message, "volume_id").pop();
        let volume = String::from_utf8_lossy(volume.unwrap_or_default()).into_owned();
        let secrets = texts_of(&secret_values(of, &self.message));
        let request = self.request()?;
        let running = async {
            let volume = request::name(&volume, "volume_id")?;
            let key = format!("{volume}{aspect}");
            let taken = Taken::take(&self.flex.running, key, Q::METHOD.name)?;
            let call = Call {
                flex: self.flex.clone(),
                volume,
                taken,
                deadline: self.deadline,
                secrets: secrets.clone(),
            };
            let done = tokio::spawn(work(call, request)).await;
            done.unwrap_or(Err(FlexError::Died))
        };
        let done = running.await.map(|reply| reply.encode_to_vec());
        done.map_err(|error| error.status(&secrets))
    }
}

impl Call {
    /// Runs a call-out for the volume.
    pub async fn out(
        &self,
        call: &'static str,
        arguments: &[&str],
    ) -> Result<Answer, CallOutError> {
        let began = Instant::now();
        let call_outs = &self.flex.call_outs;
        let answer = call_outs.run(call, arguments, self.deadline, &self.taken);
        let answer = answer.await;
        if self.flex.identity.is_verbose {
            let outcome = match &answer {
                Ok(_) => "Success".to_owned(),
                Err(error) => error.problem.to_string(),
            };
            let took = began.elapsed().as_secs_f64();
            self.note(&format!("{call} in {took:.1} s: {outcome}"));
        }
        answer
    }

    /// Runs a call-out that drivers may be without: then nothing is answered.
    ///
    /// # Errors
    /// When it is there and does not succeed.
    pub async fn out_if_supported(
        &self,
        call: &'static str,
        arguments: &[&str],
    ) -> Result<Option<Answer>, CallOutError> {
        match self.out(call, arguments).await {
            Err(error) if error.is_not_supported() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// What bounds the next work at a path, which may take as long as a call-out.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            deadline: self.flex.call_outs.deadline(self.deadline),
            taken: self.taken.clone(),
        }
    }

    /// Tells on stderr what no answer tells.
    pub fn note(&self, text: &str) {
        let text = format!("{}: {text}", self.volume);
        note!("note: {}", shown(&text, &self.secrets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_can_do_what_it_says_and_what_is_said_of_it() {
        let silent = Capabilities::default();
        let says = |attach, fs_group| Capabilities {
            attach,
            fs_group,
            ..silent
        };
        for (said, attaches, expands, expected) in [
            (silent, false, false, [false; 4]),
            (silent, true, true, [true, false, false, true]),
            // What a driver says of itself counts more.
            (
                says(Some(false), Some(true)),
                true,
                false,
                [false, false, false, false],
            ),
            (
                says(Some(true), Some(false)),
                false,
                false,
                [true, false, true, false],
            ),
        ] {
            let found = Abilities::of(said, attaches, expands);
            let found = [
                found.attaches,
                found.has_stats,
                found.takes_group,
                found.expands,
            ];
            assert_eq!(found, expected, "{said:?}");
        }
    }
}
