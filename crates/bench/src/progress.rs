//! Shows the progress of a load on a terminal: one line on stderr, drawn anew. It shows nothing where stderr is no
//! terminal.

use super::pace::Limits;
use super::tally::Tally;
use csi_output::load::{count, per_second};
use csi_proto::{duration, lock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(200);

/// Parts of the bar.
const WHOLE: u64 = 1000;

/// The line.
pub(crate) struct LoadProgress {
    bar: ProgressBar,
    now: Mutex<Option<Watched>>,
}

/// The part of the load that is shown at the moment.
struct Watched {
    what: String,
    tally: Arc<Mutex<Tally>>,
    limits: Limits,
    begun: Instant,
    /// Steps of a cycle.
    steps: u64,
    last: (Instant, u64),
}

impl LoadProgress {
    /// A line on the terminal behind stderr.
    pub fn new() -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(WHOLE), target);
        // Shorter than the line: a terminal that shows ^C behind it must not break it, or it could not be taken away.
        let style = ProgressStyle::with_template("{bar:10} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            bar,
            now: Mutex::new(None),
        }
    }

    /// Shows a stretch from now on.
    pub fn watch(&self, what: &str, tally: &Arc<Mutex<Tally>>, limits: Limits, steps: usize) {
        let now = Instant::now();
        *lock(&self.now) = Some(Watched {
            what: what.to_owned(),
            tally: Arc::clone(tally),
            limits,
            begun: now,
            steps: steps.max(1) as u64,
            last: (now, 0),
        });
    }

    /// Draws for ever; to be dropped.
    pub async fn draw(&self) {
        loop {
            tokio::time::sleep(EVERY).await;
            if self.bar.is_hidden() {
                continue;
            }
            if let Some(watched) = lock(&self.now).as_mut() {
                let (part, line) = watched.line();
                self.bar.set_position((part * WHOLE as f64) as u64);
                self.bar.set_message(line);
            }
        }
    }

    /// Takes the line away; what is printed next stands in its place.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watched {
    /// The part that is done, and the line.
    fn line(&mut self) -> (f64, String) {
        let (calls, failed) = lock(&self.tally).totals();
        let now = Instant::now();
        let since = now.duration_since(self.last.0).as_secs_f64();
        let rate = calls.saturating_sub(self.last.1) as f64 / since.max(1e-9);
        self.last = (now, calls);
        let elapsed = now.duration_since(self.begun);
        let (part, left) = progress(&self.limits, calls / self.steps, elapsed);
        let mut line = format!(
            "{}{} calls, {}/s, {} failed, {}",
            self.what,
            count(calls),
            per_second(rate),
            count(failed),
            duration::human(elapsed),
        );
        if let Some(left) = left {
            line.push_str(&format!(", {} left", duration::human(left)));
        }
        (part, line)
    }
}

/// The part of a load that is done, 0 to 1, and how long the rest will take.
fn progress(limits: &Limits, cycles: u64, elapsed: Duration) -> (f64, Option<Duration>) {
    let by_time = limits
        .duration
        .map(|all| elapsed.as_secs_f64() / all.as_secs_f64());
    let by_count = limits.count.map(|all| cycles as f64 / all.max(1) as f64);
    let part = by_time
        .unwrap_or_default()
        .max(by_count.unwrap_or_default());
    let part = part.min(1.0);
    let left = elapsed.as_secs_f64() * (1.0 - part) / part;
    // Centuries say nothing.
    let left = Duration::try_from_secs_f64(left).ok();
    (part, left.filter(|left| left.as_secs() < 1 << 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_comes_first() {
        let seconds = Duration::from_secs;
        let limits = |count, duration: Option<u64>| Limits {
            count,
            duration: duration.map(seconds),
            rate: None,
        };
        for (limits, expected) in [
            (limits(Some(100), None), (0.25, Some(seconds(15)))),
            (limits(None, Some(10)), (0.5, Some(seconds(5)))),
            (limits(Some(100), Some(10)), (0.5, Some(seconds(5)))),
            (limits(Some(25), Some(10)), (1.0, Some(seconds(0)))),
        ] {
            assert_eq!(progress(&limits, 25, seconds(5)), expected);
        }
        assert_eq!(progress(&limits(Some(9), None), 0, seconds(5)), (0.0, None));
    }
}
