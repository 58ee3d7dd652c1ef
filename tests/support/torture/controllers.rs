//! Two controllers of one share, and who kills them: the process alone or with its helpers, one or both, at any moment. A long
//! run also stops one of them for longer than its claims live, so that the other takes its copies over while it is not dead.

use crate::support::dice::Dice;
use crate::support::driver::Driver;
use crate::support::storm::Extent;
use rustix::process::Signal;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Longer than anybody waits for a sign of life from whoever has claimed a copy.
const STOPPED: Duration = Duration::from_secs(30);

/// How much of a log is kept over the deaths of its writer.
const KEPT: usize = 20_000;

/// Two controllers of one share.
pub struct Controllers {
    drivers: [Driver; 2],
    /// The ends of what they wrote before they were killed.
    past: [String; 2],
    /// How many times one was killed.
    pub kills: usize,
    /// How many times one was stopped for long.
    pub stops: usize,
    /// The first line of a log that tells of a panic.
    pub panic: Option<String>,
}

impl Controllers {
    pub fn new(drivers: [Driver; 2]) -> Self {
        Self {
            drivers,
            past: [const { String::new() }; 2],
            kills: 0,
            stops: 0,
            panic: None,
        }
    }

    /// Their endpoints.
    pub fn endpoints(&self) -> [String; 2] {
        self.drivers.each_ref().map(Driver::endpoint)
    }

    /// Kills them, each time after some more has been done, until nobody does anything any more. Then both run.
    pub fn kill_during(&mut self, work: &Receiver<()>, mut dice: Dice, extent: Extent) {
        loop {
            // On any machine some of the work gets done between two deaths.
            for _ in 0..dice.below(80) {
                if work.recv().is_err() {
                    return;
                }
            }
            pause(work, Duration::from_millis(dice.below(60)));
            let one = dice.below(2) as usize;
            let is_long =
                matches!(extent, Extent::Until(end) if Instant::now() + 2 * STOPPED < end);
            if dice.once_in(30) && is_long {
                self.drivers[one].process().signal(Signal::STOP);
                pause(work, STOPPED);
                self.drivers[one].process().signal(Signal::CONT);
                self.stops += 1;
                continue;
            }
            let both = dice.once_in(6);
            let doomed = [one, 1 - one];
            let doomed = if both { &doomed[..] } else { &doomed[..1] };
            for number in doomed {
                self.kill(*number, dice.once_in(3));
            }
            pause(work, Duration::from_millis(dice.below(400)));
            for number in doomed {
                self.drivers[*number].restart();
            }
        }
    }

    fn kill(&mut self, number: usize, alone: bool) {
        if alone {
            self.drivers[number].process().signal(Signal::KILL);
            self.drivers[number].wait_for_death();
        } else {
            self.drivers[number].kill();
        }
        self.kills += 1;
        self.keep_log(number);
    }

    fn keep_log(&mut self, number: usize) {
        let log = self.drivers[number].log();
        let mut lines = log.lines();
        let panic = lines.find(|line| line.contains("panicked at"));
        self.panic = self.panic.take().or(panic.map(str::to_owned));
        let past = &mut self.past[number];
        past.push_str(&log);
        past.push_str("\n--- killed\n");
        let from = past.ceil_char_boundary(past.len().saturating_sub(KEPT));
        past.drain(..from);
    }

    /// Kills both and starts them again.
    pub fn restart(&mut self) {
        for number in 0..2 {
            self.kill(number, false);
            self.drivers[number].restart();
        }
    }

    /// The ends of both logs.
    pub fn logs(&self) -> String {
        let logs = (0..2).map(|number| {
            let log = format!("{}{}", self.past[number], self.drivers[number].log());
            let from = log.ceil_char_boundary(log.len().saturating_sub(KEPT));
            format!("=== controller {number}\n{}\n", &log[from..])
        });
        logs.collect()
    }
}

/// Lets time pass while others work; no longer than they do.
fn pause(work: &Receiver<()>, time: Duration) {
    let end = Instant::now() + time;
    let left = || end.saturating_duration_since(Instant::now());
    while work.recv_timeout(left()).is_ok() {}
}
