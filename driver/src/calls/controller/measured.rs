//! The words for what a volume takes on the disk, and the sums for metrics. Must not ask a share.

use crate::share::measures::{Measure, MeasureLook};
use csi_proto::duration;
use std::time::Duration;

/// What a volume of `size` takes, as people read it. A size of 0 is none.
pub(super) fn words(measure: &Measure, size: i64, age: Duration) -> String {
    let least = if measure.short.is_some() {
        "at least "
    } else {
        ""
    };
    let entries = measure.files.saturating_add(measure.folders);
    let mut words = format!(
        "{least}{} in {entries} files and folders",
        binary(measure.bytes)
    );
    if let Some(beyond) = beyond(measure, u64::try_from(size).unwrap_or_default()) {
        words = format!("{words}, {} beyond its size,", binary(beyond));
    }
    words = format!("{words} measured {} ago", duration::human(age));
    match &measure.short {
        Some(short) => format!("{words}: {short}"),
        None => words,
    }
}

/// How much more than its size a volume takes.
fn beyond(measure: &Measure, size: u64) -> Option<u64> {
    let beyond = measure.bytes.checked_sub(size).filter(|beyond| *beyond > 0);
    beyond.filter(|_| size > 0)
}

/// A number of bytes in the largest unit of which there is one, with a digit behind the point.
fn binary(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let place = usize::try_from(bytes.ilog2() / 10 - 1).unwrap_or_default();
    let unit = 1_u128 << (10 * (place + 1));
    // Rounded, which may make one of the next unit.
    let tenths = (u128::from(bytes) * 10 + unit / 2) / unit;
    match UNITS.get(place + 1) {
        Some(next) if tenths >= 10_240 => format!("1.0 {next}"),
        _ => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[place]),
    }
}

/// What is known of the measures of one share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MeasuredShare {
    /// Volumes with a measure.
    pub(super) volumes: usize,
    /// What they take together.
    pub(super) bytes: u64,
    /// Those that take more than their sizes.
    pub(super) beyond: usize,
    /// When the oldest measure ended, in seconds since 1970.
    pub(super) oldest: Option<u64>,
}

/// What a process remembers of the measures of one share.
#[derive(Default)]
pub(super) struct KnownMeasures {
    /// What they add up to.
    pub(super) sum: MeasuredShare,
    /// Why there is not one of each volume, as was told last.
    pub(super) told: String,
}

impl MeasuredShare {
    /// Adds a volume that was looked at.
    pub(super) fn add(&mut self, look: &MeasureLook) {
        let Some(measure) = &look.measure else { return };
        self.volumes += 1;
        self.bytes = self.bytes.saturating_add(measure.bytes);
        self.beyond += usize::from(beyond(measure, look.size).is_some());
        let oldest = self.oldest.unwrap_or(u64::MAX);
        self.oldest = Some(oldest.min(measure.ended));
    }

    /// All of two shares.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            volumes: self.volumes + other.volumes,
            bytes: self.bytes.saturating_add(other.bytes),
            beyond: self.beyond + other.beyond,
            oldest: self.oldest.into_iter().chain(other.oldest).min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::token::Nonce;

    fn measure(bytes: u64, ended: u64, short: Option<&str>) -> Measure {
        let text = serde_json::json!({
            "format": 2, "bytes": bytes, "files": 339, "folders": 1, "ended": ended, "took_ms": 5, "short": short,
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn what_a_volume_takes_in_words() {
        const GIB: u64 = 1 << 30;
        let beyond = "in 340 files and folders, 1.0 GiB beyond its size, measured 5m ago";
        for (bytes, size, short, expected) in [
            (
                GIB * 6 / 5,
                0,
                None,
                "1.2 GiB in 340 files and folders measured 5m ago",
            ),
            (
                GIB,
                1 << 30,
                None,
                "1.0 GiB in 340 files and folders measured 5m ago",
            ),
            (2 * GIB, 1 << 30, None, &format!("2.0 GiB {beyond}")),
            (
                4096,
                1 << 30,
                Some("a folder in it lies too deep"),
                "at least 4.0 KiB in 340 files and folders measured 5m ago: a folder in it lies too deep",
            ),
        ] {
            let words = words(&measure(bytes, 0, short), size, Duration::from_secs(300));
            assert_eq!(words, expected);
        }
    }

    #[test]
    fn amounts_are_rounded_to_a_tenth() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (1 << 20, "1.0 MiB"),
            ((1 << 40) - (1 << 29), "1023.5 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(binary(bytes), expected);
        }
    }

    #[test]
    fn measures_are_summed_up() {
        let look = |size, measure| MeasureLook {
            nonce: Nonce::random().unwrap(),
            size,
            measure,
            is_due: false,
        };
        let mut one = MeasuredShare::default();
        one.add(&look(10, Some(measure(11, 100, None))));
        one.add(&look(0, Some(measure(500, 300, None))));
        one.add(&look(10, None));
        let mut other = MeasuredShare::default();
        other.add(&look(10, Some(measure(10, 200, None))));
        let expected = MeasuredShare {
            volumes: 3,
            bytes: 521,
            beyond: 1,
            oldest: Some(100),
        };
        assert_eq!(one.and(other), expected);
        assert_eq!(one.and(MeasuredShare::default()), one);
    }
}
