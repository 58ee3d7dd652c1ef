//! How calls are answered: to their end, never two at once that would meet, with the right codes, and counted. And what
//! the specification says of names and lists everywhere. Knows no service.

use crate::storage::StorageError;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::{Code, Request, Response, Status};

/// What a service answers with.
pub type Reply<T> = Result<Response<T>, Status>;

/// How long a reader of metrics may take, so that none stays for ever.
const METRICS_TIMEOUT: Duration = Duration::from_secs(5);

/// The calls of this process. Clones are the same.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// What calls work with now.
    held: Vec<(String, Access)>,
    /// The calls that have ended, by name and code.
    ended: BTreeMap<(&'static str, &'static str), Sum>,
}

/// What a call does to what it holds.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    Changes,
    // with node or snapshots
    Reads,
    // end
}

#[derive(Default)]
struct Sum {
    calls: u64,
    time: Duration,
}

impl Calls {
    /// Answers a call with what the `work` of a service makes of its request.
    ///
    /// The work may block: it has a thread of its own, and comes to its end also when its caller has gone.
    pub async fn answer<S, Q, R>(
        &self,
        service: &S,
        rpc: &'static str,
        request: Request<Q>,
        work: fn(&S, Q) -> Result<R, Status>,
    ) -> Reply<R>
    where
        S: Clone + Send + 'static,
        Q: Send + 'static,
        R: Send + 'static,
    {
        let (calls, service, request) = (self.clone(), service.clone(), request.into_inner());
        let working = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let result = work(&service, request);
            calls.note(rpc, result.as_ref().err(), began.elapsed());
            result
        });
        match working.await {
            Ok(result) => result.map(Response::new),
            Err(_) => Err(Status::internal(format!("{rpc} came to no end"))),
        }
    }

    /// Keeps something for a call that changes it. A call that meets it is ABORTED; orchestrators try again.
    pub fn hold(&self, what: &str) -> Result<Held, Status> {
        self.keep(what, Access::Changes)
    }

    // with node or snapshots
    /// Keeps something for a call that reads it: others may read it too, and none may change it.
    pub fn share(&self, what: &str) -> Result<Held, Status> {
        self.keep(what, Access::Reads)
    }

    // end
    fn keep(&self, what: &str, access: Access) -> Result<Held, Status> {
        let mut state = self.state();
        let meets = |(other, theirs): &(String, Access)| {
            other == what && [access, *theirs].contains(&Access::Changes)
        };
        if state.held.iter().any(meets) {
            return Err(Status::aborted(format!("another call works with {what}")));
        }
        let hold = (what.to_owned(), access);
        state.held.push(hold.clone());
        Ok(Held(self.clone(), hold))
    }

    /// Counts a call, and writes a line about it. Messages of this driver hold no secrets.
    fn note(&self, rpc: &'static str, error: Option<&Status>, time: Duration) {
        let code = name(error.map_or(Code::Ok, Status::code));
        match error {
            Some(error) => {
                eprintln!(
                    "{rpc} {code} {time:.1?}: {}",
                    error.message().escape_debug()
                );
            }
            None => eprintln!("{rpc} {code} {time:.1?}"),
        }
        let mut state = self.state();
        let sum = state.ended.entry((rpc, code)).or_default();
        sum.calls += 1;
        sum.time += time;
    }

    /// Serves the counts in Prometheus' text format, at any path.
    pub async fn serve_metrics(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let text = self.metrics();
                    tokio::spawn(tokio::time::timeout(METRICS_TIMEOUT, send(stream, text)));
                }
                // Of descriptors, mostly: there may be some later.
                Err(_) => tokio::time::sleep(METRICS_TIMEOUT).await,
            }
        }
    }

    fn metrics(&self) -> String {
        let state = self.state();
        let mut text = "# TYPE csi_call_seconds summary\n".to_owned();
        for ((rpc, code), Sum { calls, time }) in &state.ended {
            let labels = format!("{{method=\"{rpc}\",code=\"{code}\"}}");
            // A string takes every text.
            let _ = writeln!(text, "csi_call_seconds_count{labels} {calls}");
            let _ = writeln!(text, "csi_call_seconds_sum{labels} {}", time.as_secs_f64());
        }
        text
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers one HTTP request, whatever it asks for.
async fn send(mut stream: TcpStream, text: String) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && request.len() < 8192 {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all((head + &text).as_bytes()).await?;
    stream.shutdown().await
}

/// What a call keeps as long as this lives.
pub struct Held(Calls, (String, Access));

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(place) = state.held.iter().position(|hold| *hold == self.1) {
            state.held.swap_remove(place);
        }
    }
}

/// A text that the specification requires.
pub fn required<'a>(value: &'a str, field: &str) -> Result<&'a str, Status> {
    match value.is_empty() {
        true => Err(Status::invalid_argument(format!("{field} is missing"))),
        false => Ok(value),
    }
}

// with controller
/// A name that the specification allows: any text but control characters.
pub fn valid_name(name: &str) -> Result<&str, Status> {
    let is_banned = |c: char| c.is_control() && !['\t', '\n', '\r'].contains(&c);
    if name.len() > 128 || name.contains(is_banned) {
        let message = "the name has more than 128 bytes, or control characters";
        return Err(Status::invalid_argument(message));
    }
    required(name, "name")
}

/// One page of a list, in the order of ids, and the token of the next one.
///
/// A token names the last id that was seen, so what comes and goes between two pages moves nothing else.
pub fn page<T>(
    mut all: Vec<T>,
    id: impl Fn(&T) -> &String,
    max_entries: i32,
    starting_token: &str,
) -> Result<(Vec<T>, String), Status> {
    let Ok(max) = usize::try_from(max_entries) else {
        return Err(Status::invalid_argument("max_entries is negative"));
    };
    if !starting_token.is_empty() {
        let last = starting_token
            .strip_prefix("after ")
            .ok_or_else(|| Status::aborted("starting_token is none of this driver"))?;
        all.retain(|one| id(one).as_str() > last);
    }
    all.sort_by(|one, other| id(one).cmp(id(other)));
    if max == 0 || all.len() <= max {
        return Ok((all, String::new()));
    }
    all.truncate(max);
    let token = all.last().map(|last| format!("after {}", id(last)));
    Ok((all, token.unwrap_or_default()))
}

// end
impl From<StorageError> for Status {
    fn from(error: StorageError) -> Self {
        let message = error.to_string();
        match error {
            StorageError::NotFound(_) => Self::not_found(message),
            // with controller
            StorageError::Refused(_) => Self::invalid_argument(message),
            StorageError::Full => Self::resource_exhausted(message),
            // end
            // Not INTERNAL, which an orchestrator takes for the end: the work may be half done, and another try
            // finishes it.
            StorageError::Failed(_) => Self::unavailable(message),
        }
    }
}

/// A code as the specification writes it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_changes_no_other_call_has() {
        let calls = Calls::default();
        let held = calls.hold("a").expect("nobody has it");
        let refused = calls.hold("a").err().map(|status| status.code());
        assert_eq!(refused, Some(Code::Aborted));
        assert!(calls.hold("b").is_ok());
        drop(held);
        assert!(calls.hold("a").is_ok());
    }

    // with node or snapshots
    #[test]
    fn what_calls_read_none_changes() {
        let calls = Calls::default();
        let (one, other) = (calls.share("a").ok(), calls.share("a").ok());
        drop(one);
        assert!(other.is_some() && calls.hold("a").is_err());
        drop(other);
        assert!(calls.hold("a").is_ok());
    }

    // end
    #[test]
    fn metrics_count_calls_by_name_and_code() {
        let calls = Calls::default();
        calls.note("Probe", None, Duration::from_millis(500));
        calls.note("Probe", None, Duration::from_millis(250));
        let text = calls.metrics();
        assert!(text.contains("csi_call_seconds_count{method=\"Probe\",code=\"OK\"} 2\n"));
        assert!(text.contains("csi_call_seconds_sum{method=\"Probe\",code=\"OK\"} 0.75\n"));
    }
    // with controller

    #[test]
    fn pages_follow_each_other_while_the_list_changes() {
        let list = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let (first, token) = page(list(&["c", "a", "b"]), |id| id, 2, "").expect("a page");
        assert_eq!(first, ["a", "b"]);
        let (rest, end) = page(list(&["d", "c", "a"]), |id| id, 2, &token).expect("a page");
        assert_eq!((rest, end), (list(&["c", "d"]), String::new()));
        let refused = page(list(&["a"]), |id| id, 0, "7").expect_err("no token of ours");
        assert_eq!(refused.code(), Code::Aborted);
    }
    // end
}
