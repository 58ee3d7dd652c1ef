//! Takes back what a load has made. At the end it takes back everything, several items at a time, until no more can be
//! taken back; during the load, the leftovers of failed cycles, one item at a time behind each worker.
//!
//! Owns when that begins and ends, and the lines that say what stays. How it is done is `undo`.

use super::side::{ItemNumbers, Side};
use bytes::Bytes;
use csi_call::CallError;
use csi_error::code_name;
use csi_proto::{Method, escaped, lock};
use csi_undo::Item;
use csi_undo::left::Commands;
use csi_undo::order::waves;
use csi_undo::taking_back::{Called, TakingBack, Tool, Why};
use csi_undo::tries::Tries;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tonic::Code;

/// The number of items that are taken back at a time, unless the load had more workers.
pub const AT_A_TIME: usize = 8;

/// The items that stay.
#[derive(Default)]
pub(crate) struct CleanUp {
    /// The lines that say it.
    pub lines: Vec<String>,
    /// Whether it stays because nothing went any more.
    pub gave_up: bool,
}

/// One side while its items are taken back.
struct Cleaning<'a> {
    side: &'a Side,
    /// The time at which the last item was taken back.
    last: Mutex<Instant>,
    /// Why items stay.
    reasons: Mutex<HashMap<u64, String>>,
}

/// Takes everything back, so many items at a time; returns what stays. Ends when nothing was taken back for as long as
/// `give_up` says; never without it.
pub async fn clean(
    side: &Side,
    at_a_time: usize,
    give_up: Option<Duration>,
    secrets_file: Option<&str>,
) -> CleanUp {
    let cleaning = Cleaning::of(side);
    let taking_back = TakingBack::new(&cleaning, &side.made, Tries::within(side.node.timeout()));
    let gave_up = tokio::select! {
        () = taking_back.all(at_a_time) => false,
        () = still_for(give_up, &cleaning.last) => true,
    };
    CleanUp {
        lines: left(side, &lock(&cleaning.reasons), secrets_file),
        gave_up,
    }
}

/// Returns when the last item went so long ago.
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
pub async fn behind(side: Arc<Side>, mut failed: UnboundedReceiver<ItemNumbers>) {
    let cleaning = Cleaning::of(&side);
    while let Some(open) = failed.recv().await {
        let tries = Tries::within(side.node.timeout());
        TakingBack::new(&cleaning, &side.made, tries)
            .these(&open)
            .await;
    }
}

/// The lines that say what is there, without having tried to take it back.
pub fn untouched(side: &Side, secrets_file: Option<&str>) -> Vec<String> {
    left(side, &HashMap::new(), secrets_file)
}

/// The lines that say what is there, and why as far as that is known.
fn left(side: &Side, reasons: &HashMap<u64, String>, secrets_file: Option<&str>) -> Vec<String> {
    let commands = Commands {
        node: &side.node.endpoint,
        controller: &side.controller.endpoint,
        secrets_file,
    };
    let made = side.made();
    let all = waves(made.all()).into_iter().flatten();
    let lines = all.filter_map(|number| {
        let item = made.get(number)?;
        let perhaps = match item {
            Item::Asked { .. } => "perhaps ",
            _ => "",
        };
        let noun = item.thing()?.noun().0;
        let command = commands.take_back(item);
        let reason = reasons.get(&number).map_or("", String::as_str);
        Some(format!("left: {perhaps}a {noun}: {command}{reason}"))
    });
    lines.collect()
}

impl<'a> Cleaning<'a> {
    fn of(side: &'a Side) -> Self {
        Self {
            side,
            last: Mutex::new(Instant::now()),
            reasons: Mutex::default(),
        }
    }
}

impl Tool for Cleaning<'_> {
    async fn call(
        &self,
        worker: u64,
        method: &'static Method,
        request: Bytes,
        limit: Option<Duration>,
    ) -> Result<Bytes, CallError> {
        let worker = usize::try_from(worker).unwrap_or_default();
        let client = self.side.client(method);
        client.call_within(limit, worker, method, request).await
    }

    fn called(&self, call: &Called<'_>) {
        let code = call.error.map_or(Code::Ok, |error| error.status.code());
        if !call.asks && matches!(code, Code::Ok | Code::NotFound) {
            self.side.unstaged(call.method, call.request);
            *lock(&self.last) = Instant::now();
        }
    }

    fn stays(&self, number: u64, _item: &Item, why: Why) {
        let reason = match why {
            Why::Failed(error) => {
                let outcome = self.side.client(error.method).outcome(&error);
                let (rpc, code) = (error.method.name, code_name(outcome.code));
                format!("; {rpc}: {code}: {}", escaped(&outcome.message))
            }
            Why::NoId(method) => format!("; {}: the reply has no id", method.name),
            Why::InUse => "; not tried: it may still be published".to_owned(),
            Why::Silent | Why::NotRemoved(_) => String::new(),
        };
        lock(&self.reasons).insert(number, reason);
    }
}
