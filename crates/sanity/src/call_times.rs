//! How long the driver took for the calls of a run: in all, and for each kind of call.

use bytes::Bytes;
use csi_proto::lock::lock;
use csi_proto::path::contents;
use csi_proto::schema::Method;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The sources of a new volume, which decide how long that takes, and the words for them.
const SOURCES: [(&str, &str); 2] = [
    ("volume_content_source.volume.volume_id", " of a clone"),
    (
        "volume_content_source.snapshot.snapshot_id",
        " from a snapshot",
    ),
];

/// A step is named where it took at least this part of the driver's time.
const NAMED: f64 = 0.2;

/// A step that is faster than this on average is not slow.
const SLOW: Duration = Duration::from_millis(500);

/// The calls that have ended, and those that are under way.
#[derive(Clone, Debug, Default)]
pub struct CallTimes {
    under_way: usize,
    /// When the first of those that are under way began.
    since: Option<Instant>,
    busy: Duration,
    steps: BTreeMap<String, StepTime>,
}

/// The calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTime {
    /// Their number.
    pub calls: u32,
    /// How long they took together, though some ran at the same time.
    pub spent: Duration,
}

/// A call under way. It has ended when this is dropped.
pub struct UnderWay<'a> {
    times: &'a Mutex<CallTimes>,
    what: String,
    begun: Instant,
}

impl CallTimes {
    /// A call begins.
    pub(super) fn begins<'a>(
        times: &'a Mutex<Self>,
        method: &'static Method,
        request: &Bytes,
    ) -> UnderWay<'a> {
        let mut sources = SOURCES.iter();
        let source = sources.find(|(path, _)| !contents(method.request, request, path).is_empty());
        let what = format!("{}{}", method.name, source.map_or("", |(_, words)| words));
        let begun = Instant::now();
        let mut all = lock(times);
        if all.under_way == 0 {
            all.since = Some(begun);
        }
        all.under_way += 1;
        UnderWay { times, what, begun }
    }

    /// How long at least one call was under way: the driver's time. The rest of a run's is not its own.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// The slow steps that much of the driver's time went into, the longest first, each with its part of that time.
    pub fn slow(&self) -> Vec<(&str, StepTime, f64)> {
        let all: Duration = self.steps.values().map(|step| step.spent).sum();
        let part = |step: &StepTime| step.spent.as_secs_f64() / all.as_secs_f64().max(1e-9);
        let is_slow = |step: &StepTime| step.spent / step.calls.max(1) >= SLOW;
        let steps = self.steps.iter();
        let steps = steps.filter(|(_, step)| is_slow(step) && part(step) >= NAMED);
        let mut named: Vec<_> = steps
            .map(|(what, step)| (what.as_str(), *step, part(step)))
            .collect();
        named.sort_by_key(|(_, step, _)| std::cmp::Reverse(step.spent));
        named
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut all = lock(self.times);
        let step = all.steps.entry(std::mem::take(&mut self.what)).or_default();
        step.calls += 1;
        step.spent += self.begun.elapsed();
        all.under_way -= 1;
        if all.under_way == 0 {
            let since = all.since.take();
            all.busy += since.map_or(Duration::ZERO, |since| since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::Request as _;
    use csi_proto::v1;
    use prost::Message as _;

    #[test]
    fn the_slow_steps_are_those_that_took_most_of_the_time() {
        let seconds = Duration::from_secs;
        let times = |steps: &[(&str, u32, u64)]| CallTimes {
            steps: steps
                .iter()
                .map(|(what, calls, spent)| {
                    let (calls, spent) = (*calls, seconds(*spent));
                    ((*what).to_owned(), StepTime { calls, spent })
                })
                .collect(),
            ..CallTimes::default()
        };
        for (steps, expected) in [
            (&[][..], &[][..]),
            (&[("a", 100, 10)], &[]),
            (&[("a", 8, 87), ("b", 100, 13)], &["a 87"]),
            (
                &[("a", 8, 40), ("b", 4, 50), ("c", 100, 10)],
                &["b 50", "a 40"],
            ),
            // What many short calls make up is not slow.
            (&[("a", 1000, 90), ("b", 2, 10)], &[]),
        ] {
            let times = times(steps);
            let named = times.slow().into_iter();
            let named: Vec<_> = named
                .map(|(what, _, part)| format!("{what} {:.0}", part * 100.0))
                .collect();
            assert_eq!(named, expected, "{steps:?}");
        }
    }

    #[test]
    fn a_new_volume_is_named_by_its_source_and_time_counts_once() {
        let times = Mutex::default();
        let source = v1::VolumeContentSource {
            r#type: Some(v1::volume_content_source::Type::Volume(
                v1::volume_content_source::VolumeSource {
                    volume_id: "v".into(),
                },
            )),
        };
        let clone = v1::CreateVolumeRequest {
            volume_content_source: Some(source),
            ..Default::default()
        };
        let requests = [clone, v1::CreateVolumeRequest::default()];
        let calls = requests.map(|request| {
            let request = Bytes::from(request.encode_to_vec());
            CallTimes::begins(&times, v1::CreateVolumeRequest::METHOD, &request)
        });
        let begun = calls[0].begun;
        drop(calls);
        let times = times.into_inner().unwrap();
        let kinds: Vec<_> = times.steps.keys().map(String::as_str).collect();
        assert_eq!(kinds, ["CreateVolume", "CreateVolume of a clone"]);
        assert!(times.busy() > Duration::ZERO && times.busy() <= begun.elapsed());
    }
}
