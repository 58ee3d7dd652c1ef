//! Runs a load from its first turn to its report.
//!
//! Owns the order: set up, warm up, measure, print, take back, judge; what is said meanwhile, and what a signal does in each.
//! Knows no RPC.

use super::compare;
use super::flags::BenchFlags;
use super::pace::{self, Pace};
use super::progress::LoadProgress;
use super::report;
use super::side::Side;
use super::taking_back::{self, clean, untouched};
use super::tally::Tally;
use super::tree::Bench;
use csi_error::{Error, code_number, say};
use csi_invocation::Globals;
use csi_invocation::interrupt::Signals;
use csi_output::figure::counted;
use csi_output::page::{self, PageFile};
use csi_output::{Format, load, terminal};
use csi_proto::{duration, lock};
use csi_rpc::facts::Thing;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::Code;

/// The time that calls under way have after the first Ctrl-C.
const GRACE: Duration = Duration::from_secs(1);

/// A load that runs.
pub(crate) struct LoadRun<'a> {
    bench: &'a Bench<'a>,
    sides: Vec<Arc<Side>>,
    /// The turns so far: the index of the side, and its tally.
    turns: Mutex<Vec<(usize, Arc<Mutex<Tally>>)>>,
    running: Mutex<Option<Arc<Pace>>>,
    stopped: AtomicBool,
    progress: LoadProgress,
    secrets_file: Option<String>,
}

impl<'a> LoadRun<'a> {
    /// A load at these drivers that has not begun; `secrets_file` is named in commands that are shown.
    pub fn new(bench: &'a Bench<'a>, sides: Vec<Arc<Side>>, secrets_file: Option<String>) -> Self {
        Self {
            bench,
            sides,
            turns: Mutex::default(),
            running: Mutex::new(None),
            stopped: AtomicBool::new(false),
            progress: LoadProgress::new(),
            secrets_file,
        }
    }

    fn flags(&self) -> &BenchFlags {
        &self.bench.flags
    }

    /// Everything from the first call to the last thing taken back.
    ///
    /// # Errors
    /// A call that must succeed first; that too many calls failed; that something could not be taken back; Ctrl-C.
    pub async fn all(
        &self,
        globals: &Globals,
        page: Option<PageFile>,
        signals: &mut Signals,
    ) -> Result<(), Error> {
        self.announce();
        let measured = self.measured(signals).await;
        self.progress.clear();
        let mut asked = measured.as_ref().map_or(0, |asked| *asked);
        // What stdout takes or not changes nothing about what has to be taken back.
        let printed = match &measured {
            Err(_) => Ok(()),
            Ok(asked) => self.print(globals, page, *asked > 0),
        };
        let cleaned = self.taken_back(signals, &mut asked).await;
        measured?;
        if asked > 0 {
            return Err(Error::interrupted());
        }
        printed?;
        cleaned?;
        self.judged()
    }

    /// Says what is about to happen.
    fn announce(&self) {
        let flags = self.flags();
        let names: Vec<String> = self
            .sides
            .iter()
            .flat_map(|side| report::names(side))
            .collect();
        let Some(side) = self.sides.first() else {
            return;
        };
        let steps = names.iter().take(side.scenario.cycle.len());
        let steps: Vec<&str> = steps.map(String::as_str).collect();
        let limits = flags.limits();
        let mut line = format!("note: run {}: {}", side.run, steps.join(", "));
        let ends: Vec<String> = self
            .sides
            .iter()
            .map(|side| side.node.endpoint.to_string())
            .collect();
        line.push_str(&format!(" at {}", ends.join(" and ")));
        match limits.rate {
            Some(rate) => line.push_str(&format!(
                ", {rate} a second, {} at a time at most",
                flags.concurrency()
            )),
            None => line.push_str(&format!(", {} at a time", flags.concurrency())),
        }
        match limits.count {
            Some(1) => line.push_str(", once"),
            Some(count) => line.push_str(&format!(", {} times", load::count(count))),
            None => {}
        }
        if let Some(duration) = limits.duration {
            line.push_str(&format!(", for {}", in_words(duration)));
        }
        let all = side.scenario.setup.iter().chain(&side.scenario.cycle);
        let mut makes = all.map(|step| csi_rpc::making(step.method).is_some());
        match makes.any(|makes| makes) {
            false => {}
            true if flags.keep => line.push_str(&format!(
                "; --keep: what it makes stays, named csi-bench-{}-…",
                side.run
            )),
            true => line.push_str("; what it makes is taken back at the end"),
        }
        say!("{line}");
    }

    /// Sets up, warms up and measures until the end or a signal; how many signals have come.
    async fn measured(&self, signals: &mut Signals) -> Result<u32, Error> {
        let mut work = pin!(self.measure());
        let mut drawing = pin!(self.progress.draw());
        tokio::select! {
            result = &mut work => return result.map(|()| 0),
            () = &mut drawing => {}
            () = signals.next() => {}
        }
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(pace) = &*lock(&self.running) {
            pace.stop();
        }
        self.progress.clear();
        say!("note: stopping; Ctrl-C again ends at once");
        tokio::select! {
            // A failure that comes now is the signal's doing.
            _ = &mut work => {}
            () = tokio::time::sleep(GRACE) => {}
            () = signals.next() => return Ok(2),
        }
        Ok(1)
    }

    async fn measure(&self) -> Result<(), Error> {
        let flags = self.flags();
        let workers = flags.concurrency();
        for side in &self.sides {
            side.set_up(workers).await?;
        }
        if let Some(limits) = flags.warm_up() {
            for side in &self.sides {
                let tally = self.tally(side);
                self.progress
                    .watch("warm-up: ", &tally, limits, side.scenario.cycle.len());
                self.stretch(side, limits, &tally).await?;
            }
        }
        let limits = flags.limits();
        if self.sides.len() < 2 {
            return self.turn(0, "", limits).await;
        }
        let turns = limits.count.map_or(u64::from(flags.turns), |count| {
            count.min(flags.turns.into())
        });
        for (turn, side) in compare::order(turns) {
            let letter = ["A", "B"].get(side).unwrap_or(&"?");
            let what = format!("{letter} {}/{turns}: ", turn + 1);
            self.turn(side, &what, limits.slice(turn, turns)).await?;
        }
        Ok(())
    }

    async fn turn(&self, index: usize, what: &str, limits: pace::Limits) -> Result<(), Error> {
        let Some(side) = self.sides.get(index) else {
            return Ok(());
        };
        let tally = self.tally(side);
        lock(&self.turns).push((index, Arc::clone(&tally)));
        self.progress
            .watch(what, &tally, limits, side.scenario.cycle.len());
        self.stretch(side, limits, &tally).await
    }

    async fn stretch(
        &self,
        side: &Arc<Side>,
        limits: pace::Limits,
        tally: &Arc<Mutex<Tally>>,
    ) -> Result<(), Error> {
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        side.stretch(self.flags().concurrency(), limits, tally, &self.running)
            .await
    }

    fn tally(&self, side: &Side) -> Arc<Mutex<Tally>> {
        let steps = side.scenario.cycle.len();
        Arc::new(Mutex::new(Tally::new(steps, self.flags().html.is_some())))
    }

    /// The tallies, by side.
    fn counted(&self) -> Vec<Vec<Tally>> {
        let turns = lock(&self.turns);
        let of = |side| {
            let mine = turns.iter().filter(move |(of, _)| *of == side);
            mine.map(|(_, tally)| lock(tally).clone()).collect()
        };
        (0..self.sides.len()).map(of).collect()
    }

    fn print(
        &self,
        globals: &Globals,
        page: Option<PageFile>,
        interrupted: bool,
    ) -> Result<(), Error> {
        let counted = self.counted();
        let Some(first) = self.sides.first() else {
            return Ok(());
        };
        let flags = self.flags();
        let report = load::LoadReport {
            run: first.run.clone(),
            what: report::names(first).join(" "),
            concurrency: flags.concurrency(),
            connections: flags.connections as usize,
            rate: flags.rate,
            interrupted,
            sides: report::sides(&self.sides, &counted),
            ratios: report::ratios(first, &counted),
        };
        let mut out = csi_output::stdout();
        let printed = match globals.output(false).format {
            format @ (Format::Json | Format::Jsonl) => load::object(&report, format, &mut out),
            _ => load::tables(&report, terminal::width(), &mut out),
        };
        if let Some(page) = page {
            page.write(&page::load::page(&report))?;
        }
        match printed {
            Err(error) if !error.is_broken_pipe() => Err(Error::local(error.to_string())),
            _ => Ok(()),
        }
    }

    /// Takes back what was made; a signal, or a second one after that which ended the load, stops it.
    async fn taken_back(&self, signals: &mut Signals, asked: &mut u32) -> Result<(), Error> {
        if self.flags().keep {
            return Ok(());
        }
        let things: usize = self
            .sides
            .iter()
            .map(|side| side.made().all().count())
            .sum();
        if things == 0 {
            return Ok(());
        }
        let secrets_file = self.secrets_file.as_deref();
        if *asked < 2 {
            say!("note: taking back {}", self.listed());
        }
        let cleaning = async {
            let mut lines = Vec::new();
            for side in &self.sides {
                let give_up = self.flags().give_up(side.node.timeout());
                let at_a_time = self.flags().concurrency().max(taking_back::AT_A_TIME);
                let left = clean(side, at_a_time, give_up, secrets_file).await;
                if let (true, Some(limit)) = (left.gave_up, give_up) {
                    let (limit, at) = (in_words(limit), &side.node.endpoint);
                    say!("warning: given up: nothing could be taken back at {at} for {limit}");
                }
                lines.extend(left.lines);
            }
            lines
        };
        let mut cleaning = pin!(cleaning);
        let left: Vec<String> = loop {
            if *asked > 1 {
                let sides = self.sides.iter();
                break sides
                    .flat_map(|side| untouched(side, secrets_file))
                    .collect();
            }
            tokio::select! {
                left = &mut cleaning => break left,
                () = signals.next() => {
                    *asked += 1;
                    if *asked < 2 {
                        say!("note: still taking back what was made; Ctrl-C again ends at once");
                    }
                }
            }
        };
        for line in &left {
            say!("{line}");
        }
        match left.len() {
            0 => Ok(()),
            count => Err(Error::local(format!(
                "{} that this run made, or asked for, could not be taken back",
                counted(count, "thing")
            ))),
        }
    }

    /// The items that exist, as text such as `3 published volumes, 1 volume`.
    fn listed(&self) -> String {
        let mut counts = BTreeMap::<Thing, u64>::new();
        for side in &self.sides {
            for thing in side.made().all().filter_map(|(_, item)| item.thing()) {
                *counts.entry(thing).or_default() += 1;
            }
        }
        let words = counts.into_iter().map(|(thing, count)| match count {
            1 => format!("1 {}", thing.noun().0),
            count => format!("{} {}", load::count(count), thing.noun().1),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Whether too many calls failed.
    fn judged(&self) -> Result<(), Error> {
        let mut all = (0, 0);
        let mut by_code = BTreeMap::<u8, (u64, String)>::new();
        for tally in self.counted().iter().flatten() {
            let (calls, failed) = tally.totals();
            all = (all.0 + calls, all.1 + failed);
            for ((_, code), failures) in &tally.errors {
                let entry = by_code
                    .entry(*code)
                    .or_insert_with(|| (0, failures.example.clone()));
                entry.0 += failures.calls;
            }
        }
        let worst = by_code
            .into_iter()
            .max_by_key(|(code, (calls, _))| (*calls, Reverse(*code)));
        let (calls, failed) = all;
        let exceeded = self.flags().max_errors.exceeded(failed, calls);
        let Some((code, (most, example))) = worst.filter(|_| exceeded) else {
            return Ok(());
        };
        let code = Code::from_i32(i32::from(code));
        debug_assert_ne!(code_number(code), 0);
        let problem = format!(
            "{} of {} calls failed, {} of them so: {example}",
            load::count(failed),
            load::count(calls),
            load::count(most),
        );
        Err(Error::rpc(code, problem).hint(format!(
            "--max-errors says how many may fail; it was {}",
            self.flags().max_errors
        )))
    }
}

/// A time that was asked for.
fn in_words(time: Duration) -> String {
    match time.subsec_nanos() {
        0 => duration::human(time),
        _ => load::time(time),
    }
}
