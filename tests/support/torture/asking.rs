//! One call, repeated as an orchestrator repeats it, to controllers that die under it.
//!
//! A call that was not answered may still go on in the controller that it was made to, for as long as that lives: it is
//! repeated there. When the controller has died, the other one may be asked as well, or nobody for some time.

use crate::support::calls::{Calls, HOUR, may_be_repeated};
use crate::support::patience::Patience;
use std::error::Error as _;
use std::time::Duration;
use tonic::{Code, Status};

/// How a call is made.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// Which controller is asked first.
    pub first: usize,
    /// Whether the other may be asked when that has died.
    pub may_move: bool,
    /// Whether the caller gives up for now when it has died.
    pub may_leave: bool,
    /// The first deadline.
    pub deadline: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Asked {
    /// The final answer; nothing when the caller gave up.
    pub answer: Option<Result<String, Status>>,
    /// Each try, for people.
    pub tries: Vec<String>,
    /// How many tries a death has cut off.
    pub cut_off: usize,
}

/// Whether the answer came from this side, not from a controller.
fn is_ours(status: &Status) -> bool {
    // Only statuses that were made on this side have a cause. Those of a deadline have one too.
    let by_deadline = matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded);
    status.source().is_some() && !by_deadline
}

impl Asking {
    /// Makes the call. The error is the last answer of a call that does not settle.
    pub async fn ask(
        self,
        controllers: &[Calls; 2],
        call: &impl AsyncFn(Calls) -> Result<String, Status>,
    ) -> Result<Asked, Status> {
        let mut patience = Patience::default();
        let mut asked = Asked {
            answer: None,
            tries: Vec::new(),
            cut_off: 0,
        };
        let (mut at, mut deadline) = (self.first, self.deadline);
        loop {
            let answer = call(controllers[at].within(Some(deadline))).await;
            let status = match &answer {
                Ok(_) => {
                    asked.tries.push(format!("{at}: OK"));
                    asked.answer = Some(answer);
                    return Ok(asked);
                }
                Err(status) => status,
            };
            // Nobody was there to take it.
            let was_sent = !(is_ours(status) && status.code() == Code::Unavailable);
            if was_sent {
                asked
                    .tries
                    .push(format!("{at}: {:?} {}", status.code(), status.message()));
            }
            if is_ours(status) {
                asked.cut_off += usize::from(was_sent);
                if self.may_leave && was_sent {
                    return Ok(asked);
                }
                if self.may_move {
                    at = 1 - at;
                }
            } else if !may_be_repeated(status) {
                asked.answer = Some(answer);
                return Ok(asked);
            }
            if !patience.lasts() {
                return Err(status.clone());
            }
            deadline = HOUR;
            // Not an event: an orchestrator repeats after some time.
            tokio::time::sleep(patience.pause()).await;
        }
    }
}
