//! The words for what a volume takes on the disk. Must not ask a share.

use csi_nfs_store::share::measures::Measure;
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
    if let Some(beyond) = measure.beyond(size) {
        words = format!("{words}, {} beyond its size,", binary(beyond));
    }
    words = format!("{words} measured {} ago", duration::human(age));
    match &measure.short {
        Some(short) => format!("{words}: {short}"),
        None => words,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(bytes: u64, short: Option<&str>) -> Measure {
        let text = serde_json::json!({
            "format": 2, "bytes": bytes, "files": 339, "folders": 1, "ended": 0, "took_ms": 5, "short": short,
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
            let words = words(&measure(bytes, short), size, Duration::from_secs(300));
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
}
