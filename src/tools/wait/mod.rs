//! `csi wait`: waits until a volume or a snapshot is as it should be.
//!
//! Owns the command and the asking again. `condition.rs` decides by which RPC a driver is asked, and whether what it says is
//! what was waited for; `driver.rs` asks.

mod condition;
mod driver;

use clap::{ArgMatches, Args, Command};
use condition::{Condition, Kind, State, Verdict, may_mend, surer_way, way};
use csi_call::Advertised;
use csi_call::wait::Polling;
use csi_error::{Error, ErrorKind};
use csi_invocation::connect::with_driver;
use csi_invocation::parse::{self, with_flags, word_of};
use csi_invocation::{Defaults, Globals};
use csi_output::json;
use csi_proto::escaped;
use csi_rpc::facts::ControllerCapability;
use driver::Driver;
use serde_json::json as object;
use std::time::Duration;
use tonic::Code;

/// How long to wait after the first look, and at most: nobody tells when something has changed.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

#[derive(Args)]
struct WaitFlags {
    /// What the id names
    #[arg(value_enum, value_name = "KIND")]
    kind: Kind,
    /// The volume's or snapshot's id
    #[arg(value_name = "ID")]
    id: String,
    /// What to wait for
    #[arg(
        long = "for",
        value_enum,
        value_name = "CONDITION",
        default_value = "ready"
    )]
    condition: Condition,
}

pub fn command() -> Command {
    Command::new("wait")
        .about("Wait until a volume or a snapshot is ready, healthy, abnormal or gone")
        .after_help(
            "Asks the driver again and again; --timeout is how long in all. A volume is ready when the driver has it, a snapshot \
             when it is ready to use; only volumes are healthy or abnormal.\n\n\
             Exit codes: 0 it is so; 68 it was not in time; 69 there is no such thing (and that was not waited for); 76 the driver \
             lacks a capability for it.\n\n\
             Examples:\n  csi wait snapshot snap-1 --timeout 10m\n  csi wait volume vol-1 --for gone",
        )
        .defer(with_flags::<WaitFlags>)
}

/// Waits.
///
/// # Errors
/// That it cannot be known, that there is no such thing, or that it was not in time.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = parse::flags::<WaitFlags>(matches)?;
    let is_json = globals.json_or_lines("it prints a line, or JSON with -o json")?;
    if flags.kind == Kind::Snapshot && flags.condition.is_of_volumes() {
        return Err(Error::usage(
            "only volumes are healthy or abnormal: wait for a snapshot to be ready or gone",
        ));
    }
    with_driver(globals, defaults, async |driver| {
        let waited = flags.wait(&mut Driver(driver), globals.timeout()).await;
        waited.map_err(|error| error.doing(format!("wait {} {}", word_of(&flags.kind), flags.id)))
    })?;
    let (kind, id, condition) = (word_of(&flags.kind), &flags.id, word_of(&flags.condition));
    let mut text = format!("{kind} {} is {condition}\n", escaped(id)).into_bytes();
    if is_json {
        text.clear();
        let met = object!({"kind": kind, "id": id, "condition": condition});
        json::line(&met, &mut text)?;
    }
    csi_output::print(&text)
}

impl WaitFlags {
    async fn wait(&self, driver: &mut Driver<'_>, limit: Option<Duration>) -> Result<(), Error> {
        let mut ways = None;
        let mut polling = Polling::within(limit, PAUSES);
        let mut last = String::new();
        loop {
            match polling.once(self.look(driver, &mut ways)).await {
                None => {}
                Some(Err(error)) if matches!(error.kind(), ErrorKind::Rpc(code) if may_mend(code)) =>
                {
                    last = error.first_line();
                }
                Some(Err(error)) => return Err(error),
                Some(Ok(state)) => match self.condition.verdict(&state) {
                    Verdict::Met => return Ok(()),
                    Verdict::NotYet(why) => last = why,
                    Verdict::Never => {
                        let message = format!("there is no such {}", word_of(&self.kind));
                        return Err(Error::rpc(Code::NotFound, message));
                    }
                },
            }
            if !polling.again().await {
                let limit = limit.unwrap_or_default();
                let condition = word_of(&self.condition);
                let because = if last.is_empty() { "no answer" } else { &last };
                let message = format!("not {condition} within {limit:?}: {because}");
                return Err(Error::rpc(Code::DeadlineExceeded, message)
                    .hint("--timeout is how long to wait in all"));
            }
        }
    }

    /// What the driver says now. The ways to ask it are found by the first look that it answers.
    async fn look(
        &self,
        driver: &mut Driver<'_>,
        ways: &mut Option<(ControllerCapability, Option<ControllerCapability>)>,
    ) -> Result<State, Error> {
        let (way, surer) = match *ways {
            Some(known) => known,
            None => {
                let mut advertised = Advertised::default();
                advertised.ask_controller(driver).await?;
                let has = |one| advertised.controller(one);
                let way = way(self.kind, self.condition, has)?;
                (way, surer_way(way, self.condition, has))
            }
        };
        *ways = Some((way, surer));
        let state = driver.look(way, &self.id).await?;
        let (Some(other), State::Present { .. }) = (surer, &state) else {
            return Ok(state);
        };
        // A driver may answer for anything.
        if driver.answers_for_any_id().await? {
            *ways = Some((other, None));
            return driver.look(other, &self.id).await;
        }
        *ways = Some((way, None));
        Ok(state)
    }
}
