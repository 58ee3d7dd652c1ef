//! Takes back what a load has made: in an order in which nothing is taken from under something else, again after what may
//! pass. At the end all of it, several at a time, until nothing goes any more; and says what stays, with the command lines
//! that take it back. While the load goes on what failed cycles have left, one thing at a time behind each worker.

use super::client::Outcome;
use super::made::{Key, MAKERS, Maker, Thing, contents};
use super::side::{Open, Side, lock};
use crate::output::json;
use crate::output::shell_word::word;
use crate::tools::lifecycle::left::{csi, subject};
use crate::tools::lifecycle::undo::{PAUSES, TRY_AT_LEAST};
use bytes::Bytes;
use csi_proto::schema::Method;
use csi_proto::text::escaped;
use csi_proto::value::Secrets;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tonic::Code;

/// How many are taken back at a time, unless the load had more workers.
pub const AT_A_TIME: usize = 8;

/// Why something stays: the RPC that failed, its code and the driver's words.
type Reason = String;

type Reasons = Mutex<BTreeMap<Key, Reason>>;

/// How everything is taken back.
#[derive(Clone, Copy)]
pub struct Cleaning<'a> {
    /// How many things at a time.
    pub at_a_time: usize,
    /// It ends when nothing was taken back for this long; never without it.
    pub give_up: Option<Duration>,
    /// The file of the secrets, for the commands that take back what stays.
    pub secrets_file: Option<&'a str>,
}

/// What stays after the clean-up.
#[derive(Default)]
pub struct Left {
    /// The lines that say it.
    pub lines: Vec<String>,
    /// Whether the clean-up ended because nothing went any more.
    pub gave_up: bool,
}

impl Cleaning<'_> {
    /// Takes everything back; returns what stays.
    pub async fn clean(self, side: &Arc<Side>) -> Left {
        let reasons = Arc::default();
        let last = Arc::new(Mutex::new(Instant::now()));
        let gave_up = tokio::select! {
            () = self.all(side, &reasons, &last) => false,
            () = still_for(self.give_up, &last) => true,
        };
        let reasons = std::mem::take(&mut *lock(&reasons));
        Left {
            lines: left(side, &reasons, self.secrets_file),
            gave_up,
        }
    }

    async fn all(&self, side: &Arc<Side>, reasons: &Arc<Reasons>, last: &Arc<Mutex<Instant>>) {
        let stuck: Arc<Mutex<BTreeSet<Bytes>>> = Arc::default();
        for maker in 0..MAKERS.len() {
            let waiting = Arc::new(Mutex::new(side.made().of(maker)));
            let mut all = JoinSet::new();
            for lane in 0..self.at_a_time {
                let (side, waiting, last) =
                    (Arc::clone(side), Arc::clone(&waiting), Arc::clone(last));
                let (stuck, reasons) = (Arc::clone(&stuck), Arc::clone(reasons));
                all.spawn(async move {
                    loop {
                        let next = lock(&waiting).pop();
                        let Some((key, thing)) = next else { return };
                        match take_back(&side, lane, &key, &thing, &stuck).await {
                            Ok(()) => {
                                side.gone(&key);
                                *lock(&last) = Instant::now();
                            }
                            Err(reason) => {
                                lock(&stuck).extend(volumes(&MAKERS[key.0], &key.1));
                                lock(&reasons).insert(key, reason);
                            }
                        }
                    }
                });
            }
            while all.join_next().await.is_some() {}
        }
    }
}

/// Returns when the last thing went so long ago.
async fn still_for(limit: Option<Duration>, last: &Mutex<Instant>) {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    loop {
        let passed = lock(last).elapsed();
        match limit.checked_sub(passed) {
            None | Some(Duration::ZERO) => return,
            Some(more) => tokio::time::sleep(more).await,
        }
    }
}

/// Takes back what failed cycles of a worker have left, as it comes to know of them. What does not go is for the end.
pub async fn behind(side: Arc<Side>, worker: usize, mut failed: UnboundedReceiver<Open>) {
    while let Some(mut keys) = failed.recv().await {
        keys.sort_by_key(|(maker, _)| *maker);
        for key in keys {
            let thing = side.made().at_rest(&key);
            let Some(thing) = thing else { continue };
            match take_back(&side, worker, &key, &thing, &Mutex::default()).await {
                Ok(()) => side.gone(&key),
                // The next may be what this one uses.
                Err(_) => break,
            }
        }
    }
}

/// The lines that say what is there, without having tried to take it back.
pub fn untouched(side: &Side, secrets_file: Option<&str>) -> Vec<String> {
    left(side, &BTreeMap::new(), secrets_file)
}

/// The lines that say what is there, and why as far as that is known.
fn left(side: &Side, reasons: &BTreeMap<Key, Reason>, secrets_file: Option<&str>) -> Vec<String> {
    let made = side.made();
    let all = (0..MAKERS.len()).flat_map(|maker| made.of(maker));
    let all: Vec<_> = all.collect();
    drop(made);
    let lines = all.iter().map(|(key, thing)| {
        let reason = reasons.get(key).map_or("", String::as_str);
        format!("{}{reason}", line(side, key, thing, secrets_file))
    });
    lines.collect()
}

/// The volume that a thing belongs to.
fn volumes(maker: &Maker, request: &Bytes) -> Vec<Bytes> {
    contents(maker.method.request, request, "volume_id")
}

async fn take_back(
    side: &Side,
    lane: usize,
    key: &Key,
    thing: &Thing,
    stuck: &Mutex<BTreeSet<Bytes>>,
) -> Result<(), Reason> {
    let maker = &MAKERS[key.0];
    let mut reply = thing.reply.clone();
    if maker.needs_reply() && reply.is_none() {
        // The same name and arguments lead to the same thing.
        let outcome = patiently(side, lane, maker.method, &key.1).await;
        match outcome.code {
            Code::Ok => {
                // Known from now on, also to what is said when it cannot be taken back.
                side.made().asked(key.clone());
                side.made().answered(key, Code::Ok, &outcome.reply);
                reply = Some(outcome.reply);
            }
            code if says_no(code) => return Ok(()),
            _ => return Err(reason(maker.method, &outcome)),
        }
    }
    let Some(request) = maker.undoing(&key.1, reply.as_ref()) else {
        return Err(format!("; {}: the reply has no id", maker.method.name));
    };
    let in_use = contents(maker.undo.request, &request, "volume_id");
    if in_use.iter().any(|volume| lock(stuck).contains(volume)) {
        return Err("; not tried: it may still be published".to_owned());
    }
    let outcome = patiently(side, lane, maker.undo, &request).await;
    match outcome.code {
        // What is not there needs not to be taken back.
        Code::Ok | Code::NotFound => Ok(()),
        _ => {
            lock(stuck).extend(in_use);
            Err(reason(maker.undo, &outcome))
        }
    }
}

/// Whether the code of a repeated call tells that nothing was made.
fn says_no(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented | Code::NotFound
    )
}

fn reason(method: &Method, outcome: &Outcome) -> Reason {
    let code = crate::error::code_name(outcome.code);
    format!("; {}: {code}: {}", method.name, escaped(&outcome.message))
}

/// One call, again after what may pass.
async fn patiently(side: &Side, lane: usize, method: &'static Method, message: &Bytes) -> Outcome {
    let client = side.client(method);
    let limit = client.timeout().map(|limit| limit.max(TRY_AT_LEAST));
    let mut pauses = PAUSES.into_iter();
    loop {
        let outcome = client
            .call_within(limit, lane, method, message.clone())
            .await;
        let passes = matches!(
            outcome.code,
            Code::Aborted | Code::Unavailable | Code::DeadlineExceeded
        );
        match pauses.next().filter(|_| passes) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return outcome,
        }
    }
}

/// What stays, with the command that takes it back.
fn line(side: &Side, key: &Key, thing: &Thing, secrets_file: Option<&str>) -> String {
    let maker = &MAKERS[key.0];
    match maker.undoing(&key.1, thing.reply.as_ref()) {
        Some(request) => format!(
            "left: a {}: {}",
            maker.noun.0,
            command(side, maker.undo, &request, secrets_file)
        ),
        None => {
            let document = json::Document {
                message: maker.method.request,
                bytes: &key.1,
                secrets: Secrets::Omit,
            };
            let mut text = Vec::new();
            // A vector takes every byte, and the request was made here.
            let _ = json::line(&document, &mut text);
            let text = String::from_utf8_lossy(&text);
            let ask = begin(side, maker.method, secrets_file);
            let ask = format!("{ask} --request {}", word(text.trim_end()));
            let undo = begin(side, maker.undo, secrets_file);
            let noun = maker.noun.0;
            match maker.needs_ids() {
                // The ids of what is in a group are in the reply alone.
                true => format!("left: perhaps a {noun}: {ask} tells its ids, {undo} deletes it"),
                false => format!("left: perhaps a {noun}: {undo} \"$({ask} -o name)\""),
            }
        }
    }
}

/// The beginning of a command that calls `method`.
fn begin(side: &Side, method: &'static Method, secrets_file: Option<&str>) -> String {
    let takes_secrets = method.request.field("secrets").is_some();
    let mut command = csi(
        &side.client(method).endpoint,
        secrets_file.filter(|_| takes_secrets),
    );
    if let Some((group, rpc)) = crate::rpc::of_method(method) {
        let _ = write!(command, " {} {}", group.name, rpc.verb());
    }
    command
}

/// The command that sends a request whose fields are texts.
fn command(
    side: &Side,
    method: &'static Method,
    request: &Bytes,
    secrets_file: Option<&str>,
) -> String {
    let mut command = begin(side, method, secrets_file);
    let mut subjects = String::new();
    for field in method.request.fields.iter().filter(|field| !field.secret) {
        let contents = contents(method.request, request, field.name);
        for content in contents {
            let text = String::from_utf8_lossy(&content);
            match field.name {
                "volume_id" | "snapshot_id" | "group_snapshot_id" => {
                    let _ = write!(subjects, " {}", subject(&text));
                }
                name => {
                    let _ = write!(command, " --{} {}", name.replace('_', "-"), word(&text));
                }
            }
        }
    }
    command + &subjects
}
