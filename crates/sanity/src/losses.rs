//! The calls of a run in which the driver went away, and which cases may have led to that.

use super::own_driver::DriverDeath;
use super::verdict::Failure;
use csi_proto::schema::Method;
use std::time::{Duration, Instant};

/// The time within which a driver that a call takes down is expected to be gone, where nobody waits for the answer.
pub const SOON: Duration = Duration::from_millis(250);

/// The longest look at a driver that nobody calls, unless it was there for longer before, and then.
const IDLE_AT_MOST: Duration = Duration::from_secs(6);
const LONGER_AT_MOST: Duration = Duration::from_secs(60);

/// A call that was cut off.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The case that made it.
    pub(super) case: String,
    pub(super) method: &'static Method,
    /// Whether it was answered before.
    pub(super) answered: bool,
    /// What the case says of that.
    pub(super) failure: Failure,
}

/// A time that the driver went away.
#[derive(Debug, Default)]
pub struct Absence {
    /// The calls that were cut off; never empty.
    pub(super) calls: Vec<Loss>,
    /// The calls that their callers had just given up.
    given_up: Vec<GivenUp>,
    /// How it ended by itself, where the run has started it.
    pub(super) death: Option<DriverDeath>,
}

/// A call that its caller gave up: the driver may still have worked on it.
#[derive(Debug)]
struct GivenUp {
    case: String,
    method: &'static str,
    when: Instant,
}

/// The calls in which the driver went away.
#[derive(Debug, Default)]
pub struct Losses {
    times: Vec<Absence>,
    /// The calls that were given up since the driver came back.
    given_up: Vec<GivenUp>,
    /// How often it went away.
    count: usize,
    /// The cases that have led to it alone.
    killers: Vec<String>,
    /// Whether it has come back since the last of them, and when.
    is_back: bool,
    back: Option<Instant>,
    /// How long it was there before the last of them; `None` where it had not gone away before.
    was_there: Option<Duration>,
    /// The longest of the longer looks in which it stayed.
    stayed: Duration,
}

impl Losses {
    /// A call was cut off.
    pub(super) fn note(&mut self, loss: Loss) {
        if self.times.is_empty() || std::mem::take(&mut self.is_back) {
            let mut given_up = std::mem::take(&mut self.given_up);
            given_up.retain(|one| one.when.elapsed() < SOON);
            self.times.push(Absence {
                given_up,
                ..Absence::default()
            });
            self.count += 1;
            self.was_there = self.back.map(|back| back.elapsed());
        }
        if let Some(last) = self.times.last_mut() {
            last.calls.push(loss);
        }
    }

    /// A case gave up a call.
    pub(super) fn gave_up(&mut self, case: &str, method: &'static str) {
        self.given_up.push(GivenUp {
            case: case.to_owned(),
            method,
            when: Instant::now(),
        });
    }

    /// A case knows more of how the driver went away.
    pub(super) fn tell(&mut self, case: &str, failure: &Failure) {
        let all = self.times.iter_mut().flat_map(|one| &mut one.calls);
        if let Some(last) = all.filter(|one| one.case == case).last() {
            last.failure.clone_from(failure);
        }
    }

    /// How often the driver has gone away until now.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The driver of the run's own has ended by itself.
    pub(super) fn died(&mut self, death: DriverDeath) {
        if let Some(last) = self.times.last_mut().filter(|_| !self.is_back) {
            last.death = Some(death);
        }
    }

    /// The driver answers again.
    pub(super) fn came_back(&mut self) {
        let was_away = !std::mem::replace(&mut self.is_back, true);
        if was_away || self.back.is_none() {
            self.back = Some(Instant::now());
        }
        self.given_up.clear();
    }

    /// The driver has gone away where nobody called it.
    pub(super) fn gone_idle(&mut self) {
        self.back = None;
    }

    /// For how long nobody is to call the driver, to see whether it goes away without a call as well.
    pub(super) fn idle_look(&self) -> Duration {
        idle_look(self.was_there, self.stayed)
    }

    /// It did not, in that time.
    pub(super) fn stayed_idle(&mut self, time: Duration) {
        if time > IDLE_AT_MOST {
            self.stayed = self.stayed.max(time);
        }
    }

    /// A case has led to it alone: every time that it ran is explained.
    pub(super) fn explain(&mut self, case: &str) {
        self.times.retain(|lost| {
            let gave_up = lost.given_up.iter().any(|one| one.case == case);
            !gave_up && lost.calls.iter().all(|one| one.case != case)
        });
        self.killers.push(case.to_owned());
        // What is noted next is of another time.
        self.is_back = true;
    }

    /// The cases that have led to it alone.
    pub(super) fn killers(&self) -> &[String] {
        &self.killers
    }

    /// The times that no case alone has led to again.
    pub(super) fn unexplained(&self) -> &[Absence] {
        &self.times
    }
}

impl Absence {
    /// The calls that were under way, or just given up, when the driver went away, in words.
    pub(super) fn suspects(&self) -> String {
        let calls = self.calls.iter().map(|one| match &*one.case {
            "" => format!("{} before the cases", one.method.name),
            case => format!("{} of {case}", one.method.name),
        });
        let given_up = self.given_up.iter();
        let given_up = given_up.map(|one| format!("{} of {} (given up)", one.method, one.case));
        Vec::from_iter(calls.chain(given_up)).join(", ")
    }
}

/// The time of a look at a driver that nobody calls, which was there for so long before it went away for the last time, and has stayed
/// that long in a look before.
fn idle_look(was_there: Option<Duration>, stayed: Duration) -> Duration {
    let Some(time) = was_there else {
        return IDLE_AT_MOST;
    };
    // What ends it after a while comes sooner or later each time, more so on a busy machine.
    let usual = (3 * time + SOON).min(IDLE_AT_MOST);
    // What ends it after that time would have done so in that look. The look itself is in the time, so that looks get longer without this.
    match time <= stayed + stayed / 10 {
        true => usual,
        false => usual.max((time + SOON).min(LONGER_AT_MOST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::Request as _;
    use csi_proto::v1::DeleteVolumeRequest;

    #[test]
    fn a_call_that_was_given_up_is_a_suspect_until_the_driver_is_another_one() {
        let lost = |case: &str| Loss {
            case: case.to_owned(),
            method: DeleteVolumeRequest::METHOD,
            answered: false,
            failure: Failure::new("", ""),
        };
        let mut losses = Losses::default();
        losses.gave_up("gives/up", "CreateVolume");
        losses.note(lost("beside/it"));
        let told = "DeleteVolume of beside/it, CreateVolume of gives/up (given up)";
        assert_eq!(losses.unexplained()[0].suspects(), told);
        losses.note(lost("in/the/same/moment"));
        assert_eq!((losses.count(), losses.unexplained().len()), (1, 1));
        losses.note(lost(""));
        let told = losses.unexplained()[0].suspects();
        assert!(told.contains(", DeleteVolume before the cases, "), "{told}");
        losses.explain("gives/up");
        assert_eq!(losses.killers(), ["gives/up"]);
        assert!(losses.unexplained().is_empty());
        // What comes after that is of another time.
        losses.note(lost("a"));
        losses.came_back();
        losses.note(lost("b"));
        assert_eq!((losses.count(), losses.unexplained().len()), (3, 2));
        losses.explain("a");
        losses.explain("b");
        losses.gave_up("gives/up", "CreateVolume");
        losses.came_back();
        losses.note(lost("beside/it"));
        assert_eq!(
            losses.unexplained()[0].suspects(),
            "DeleteVolume of beside/it"
        );
    }

    #[test]
    fn nobody_calls_a_driver_for_longer_than_it_was_there_until_it_has_stayed_for_that() {
        let ms = Duration::from_millis;
        for (was_there, stayed, expected) in [
            (None, 0, 6_000),
            (Some(100), 0, 550),
            (Some(3_000), 0, 6_000),
            (Some(7_500), 0, 7_750),
            (Some(90_000), 0, 60_000),
            (Some(8_000), 7_750, 6_000),
            (Some(60_500), 60_000, 6_000),
            // Some other thing may end it after that time.
            (Some(20_000), 7_750, 20_250),
        ] {
            let time = idle_look(was_there.map(ms), ms(stayed));
            assert_eq!(time, ms(expected), "{was_there:?}, {stayed}");
        }
        // A short one tells nothing of a longer time.
        let mut losses = Losses::default();
        losses.stayed_idle(IDLE_AT_MOST);
        assert_eq!(losses.stayed, Duration::ZERO);
        losses.stayed_idle(ms(7_750));
        losses.stayed_idle(ms(7_000));
        assert_eq!(losses.stayed, ms(7_750));
    }
}
