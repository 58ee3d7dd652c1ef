//! Two controllers of one share, and who kills them: the process alone or with its helpers, one or both, at any moment. A long
//! run also stops one of them for longer than its claims live, so that the other takes its copies over while it is not dead.

use crate::support::dice::Dice;
use crate::support::driver::Driver;
use rustix::process::Signal;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
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

    /// Kills them until somebody says that it is over. Then both run.
    pub fn kill_until(&mut self, over: &Receiver<()>, mut dice: Dice, end: Instant) {
        let waits = |dice: &mut Dice, most: u64| {
            let pause = Duration::from_millis(dice.below(most));
            over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
        };
        while waits(&mut dice, 1200) {
            let one = dice.below(2) as usize;
            if dice.once_in(40) && Instant::now() + 2 * STOPPED < end {
                self.drivers[one].process().signal(Signal::STOP);
                let _ = over.recv_timeout(STOPPED);
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
            waits(&mut dice, 400);
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
