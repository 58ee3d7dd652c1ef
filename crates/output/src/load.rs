//! The result of a load: tables and a histogram for people, one JSON object for scripts.
//!
//! Owns how it looks. What it says is measured elsewhere.

use super::columns::{Columns, aligned};
use super::reply::Format;
use super::terminal::columns_of;
use super::{OutputError, figure, json};
use csi_proto::escaped;
use serde::Serialize;
use serde_json::{Value as Json, json as object};
use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

/// The report of a load.
pub struct LoadReport {
    /// The run id, which is part of the names of all volumes that the load made.
    pub run: String,
    /// The load, as on the command line.
    pub what: String,
    /// Calls, or cycles, at a time.
    pub concurrency: usize,
    /// Connections to each driver.
    pub connections: usize,
    /// The rate that was asked for.
    pub rate: Option<f64>,
    /// Whether it ended before its time.
    pub interrupted: bool,
    /// The results of one driver, or of two that are compared.
    pub sides: Vec<SideReport>,
    /// The ratios of the second driver to the first.
    pub ratios: Vec<Ratio>,
}

/// The result of one driver.
pub struct SideReport {
    /// The endpoint, as on the command line.
    pub endpoint: String,
    /// The time during which calls were made.
    pub elapsed: Duration,
    /// Calls that were due and never begun.
    pub unsent: u64,
    /// One row for each RPC, and where there are several, one for the whole cycle.
    pub rows: Vec<LoadRow>,
    /// The failed calls, by their errors.
    pub errors: Vec<FailedCalls>,
}

/// The calls of one RPC.
pub struct LoadRow {
    /// The RPC, or `cycle`.
    pub name: String,
    /// The number of calls.
    pub calls: u64,
    /// The number of failed calls.
    pub failed: u64,
    /// Minimum, mean, 50, 90, 99, 99.9 percent, maximum; absent without calls.
    pub latency: Option<[Duration; 7]>,
    /// How many calls took longer than the bar before and at most this long.
    pub bars: Vec<(Duration, u64)>,
    /// Parts of all calls, 0 to 1, and the latency that each did not exceed; rising.
    pub parts: Vec<(f64, Duration)>,
    /// How it went on; nothing where nobody asked for it.
    pub moments: Vec<LoadMoment>,
    /// The length of a moment.
    pub moment_width: Duration,
}

/// The calls that ended in a short time of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadMoment {
    /// The time between the beginning of the load and that of the moment.
    pub at: Duration,
    /// The number of calls, one at least.
    pub calls: u64,
    /// The number of failed calls.
    pub failed: u64,
    /// What half of the calls did not exceed.
    pub p50: Duration,
    /// What all but a hundredth of the calls did not exceed.
    pub p99: Duration,
    /// The longest.
    pub most: Duration,
}

/// Calls that failed with one code.
#[derive(Serialize)]
pub struct FailedCalls {
    /// The RPC.
    pub rpc: &'static str,
    /// The code's name.
    pub code: &'static str,
    /// The number of calls.
    pub calls: u64,
    /// The message of one such error; untrusted text of the driver.
    pub example: String,
}

/// One measure of the second driver in proportion to the first's.
pub struct Ratio {
    /// The RPC, or `cycle`.
    pub name: String,
    /// The measure.
    pub measure: &'static str,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// The second's part of the first's: the median of all pairs of turns.
    pub median: f64,
    /// The lowest of a pair.
    pub lowest: f64,
    /// The highest of a pair.
    pub highest: f64,
    /// The number of pairs.
    pub pairs: usize,
}

/// The heads and names of a row's latencies.
pub(super) const LATENCIES: [(&str, &str); 7] = [
    ("MIN", "min"),
    ("MEAN", "mean"),
    ("P50", "p50"),
    ("P90", "p90"),
    ("P99", "p99"),
    ("P99.9", "p99.9"),
    ("MAX", "max"),
];

/// Spaces between two columns.
const GAP: u16 = 2;

/// The width of the whole where nobody says another.
const WIDTH: usize = 80;

impl Ratio {
    /// The verdict on the pairs: a difference only where they agree on it.
    pub(super) fn verdict(&self) -> &'static str {
        match (self.lowest > 1.0, self.highest < 1.0, self.more_is_better) {
            (true, _, true) | (_, true, false) => "better",
            (_, true, true) | (true, _, false) => "worse",
            _ => "not told apart",
        }
    }
}

impl LoadRow {
    /// Calls that succeeded in a second.
    pub(super) fn per_second(&self, elapsed: Duration) -> f64 {
        figure::ratio((self.calls - self.failed) as f64 / elapsed.as_secs_f64())
    }
}

/// Writes the tables and histograms; lines fit `columns` where they can.
pub fn tables(
    report: &LoadReport,
    columns: Option<usize>,
    out: &mut impl Write,
) -> Result<(), OutputError> {
    let mut text = String::new();
    let columns = columns.unwrap_or(WIDTH);
    for (index, side) in report.sides.iter().enumerate() {
        if report.sides.len() > 1 {
            let letter = ["A", "B"].get(index).unwrap_or(&"?");
            let _ = writeln!(text, "{letter}: {}\n", escaped(&side.endpoint));
        }
        rates(side, &mut text);
        text.push('\n');
        latencies(side, &mut text);
        if let Some(row) = side.rows.last().filter(|row| row.calls > 0) {
            text.push('\n');
            histogram(row, columns, &mut text);
        }
        if !side.errors.is_empty() {
            text.push('\n');
            errors(&side.errors, &mut text);
        }
        if side.unsent > 0 {
            let _ = writeln!(
                text,
                "\n{} due and never begun: all {} workers waited for answers.",
                calls_were(side.unsent),
                report.concurrency
            );
        }
        if index + 1 < report.sides.len() {
            text.push('\n');
        }
    }
    if !report.ratios.is_empty() {
        text.push('\n');
        compared(&report.ratios, &mut text);
    }
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn rates(side: &SideReport, text: &mut String) {
    let mut cells = ["RPC", "CALLS", "FAILED", "PER SECOND", "IN"]
        .map(str::to_owned)
        .to_vec();
    for row in &side.rows {
        cells.extend([
            row.name.clone(),
            count(row.calls),
            count(row.failed),
            per_second(row.per_second(side.elapsed)),
            time(side.elapsed),
        ]);
    }
    text.push_str(&aligned(Columns::new(5, GAP).right_from(1), &cells));
}

fn latencies(side: &SideReport, text: &mut String) {
    let mut cells = vec!["LATENCY".to_owned()];
    cells.extend(LATENCIES.iter().map(|(head, _)| (*head).to_owned()));
    let columns = Columns::new(cells.len(), GAP).right_from(1);
    for row in &side.rows {
        cells.push(row.name.clone());
        match &row.latency {
            Some(all) => cells.extend(all.iter().map(|latency| time(*latency))),
            None => cells.extend(LATENCIES.iter().map(|_| "-".to_owned())),
        }
    }
    text.push_str(&aligned(columns, &cells));
}

/// Bars in eighths of a letter.
fn histogram(row: &LoadRow, columns: usize, text: &mut String) {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let largest = row.bars.iter().map(|(_, calls)| *calls).max().unwrap_or(0);
    let mut cells = vec![format!("{} UP TO", row.name), "CALLS".to_owned()];
    for (to, calls) in &row.bars {
        cells.extend([time(*to), count(*calls)]);
    }
    let table = aligned(Columns::new(2, GAP).right_from(0), &cells);
    let used = table.lines().map(columns_of).max().unwrap_or(0) + 2;
    let room = columns.saturating_sub(used).clamp(8, 100);
    for (index, line) in table.lines().enumerate() {
        text.push_str(line);
        if let Some((_, calls)) = index.checked_sub(1).and_then(|index| row.bars.get(index)) {
            let eighths =
                (*calls as f64 / largest.max(1) as f64 * room as f64 * 8.0).round() as usize;
            // What is there is seen.
            let eighths = eighths.max(usize::from(*calls > 0));
            if eighths > 0 {
                text.extend(std::iter::repeat_n(' ', used - columns_of(line)));
                text.extend(std::iter::repeat_n('█', eighths / 8));
                text.push_str(EIGHTHS[eighths % 8]);
            }
        }
        text.push('\n');
    }
}

fn errors(errors: &[FailedCalls], text: &mut String) {
    let mut cells = ["ERROR", "CALLS", "RPC", "EXAMPLE"]
        .map(str::to_owned)
        .to_vec();
    for failure in errors {
        cells.extend([
            failure.code.to_owned(),
            count(failure.calls),
            failure.rpc.to_owned(),
            escaped(&failure.example).into_owned(),
        ]);
    }
    text.push_str(&aligned(Columns::new(4, GAP), &cells));
}

fn compared(ratios: &[Ratio], text: &mut String) {
    let head = [
        "B TO A", "MEASURE", "RATIO", "LOWEST", "HIGHEST", "PAIRS", "B IS",
    ];
    let mut cells = head.map(str::to_owned).to_vec();
    for ratio in ratios {
        let times = |ratio: f64| format!("{ratio:.2}×");
        cells.extend([
            ratio.name.clone(),
            ratio.measure.to_owned(),
            times(ratio.median),
            times(ratio.lowest),
            times(ratio.highest),
            ratio.pairs.to_string(),
            ratio.verdict().to_owned(),
        ]);
    }
    text.push_str(&aligned(Columns::new(head.len(), GAP), &cells));
}

/// A time in three digits with its unit, such as `1.23ms`.
pub fn time(time: Duration) -> String {
    let nanoseconds = time.as_nanos() as f64;
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    // 999.6 would be written as 1000.
    let unit = units.iter().find(|(_, scale)| nanoseconds / scale < 999.5);
    let (unit, scale) = unit.unwrap_or(&("s", 1e9));
    let number = nanoseconds / scale;
    let digits = match number {
        _ if *unit == "ns" => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$}{unit}")
}

/// The beginning of a sentence about calls in the past.
pub(crate) fn calls_were(number: u64) -> String {
    match number {
        1 => "1 call was".to_owned(),
        _ => format!("{} calls were", count(number)),
    }
}

/// A number with commas.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rate: whole where it is large.
pub fn per_second(rate: f64) -> String {
    match rate {
        ..10.0 => format!("{rate:.2}"),
        ..100.0 => format!("{rate:.1}"),
        _ => count(rate.round() as u64),
    }
}

/// Writes one JSON object in `format`: over several lines, or on one.
pub fn object(
    report: &LoadReport,
    format: Format,
    out: &mut impl Write,
) -> Result<(), OutputError> {
    let mut all = object!({
        "run": report.run,
        "load": report.what,
        "concurrency": report.concurrency,
        "connections": report.connections,
        "rate": report.rate,
        "interrupted": report.interrupted,
        "drivers": report.sides.iter().map(side).collect::<Vec<_>>(),
    });
    if !report.ratios.is_empty() {
        let ratios = report.ratios.iter().map(|ratio| {
            object!({
                "rpc": ratio.name, "measure": ratio.measure, "ratio": figure::ratio(ratio.median),
                "lowest": figure::ratio(ratio.lowest), "highest": figure::ratio(ratio.highest), "pairs": ratio.pairs, "secondIs": ratio.verdict(),
            })
        });
        all["ratios"] = ratios.collect();
    }
    out.write_all(json::in_format(&all, format)?.as_bytes())?;
    Ok(out.flush()?)
}

fn side(side: &SideReport) -> Json {
    let rows = side.rows.iter().map(|row| {
        let mut all = object!({
            "rpc": row.name, "calls": row.calls, "failed": row.failed, "perSecond": row.per_second(side.elapsed),
        });
        if let Some(latency) = &row.latency {
            for ((_, name), latency) in LATENCIES.iter().zip(latency) {
                all["latencySeconds"][*name] = object!(figure::exact_seconds(*latency));
            }
            let bars = row.bars.iter();
            all["histogram"] = bars
                .map(|(to, calls)| object!({"upToSeconds": figure::exact_seconds(*to), "calls": calls}))
                .collect();
        }
        all
    });
    object!({
        "endpoint": side.endpoint,
        "seconds": figure::seconds(side.elapsed),
        "unsent": side.unsent,
        "rpcs": rows.collect::<Vec<_>>(),
        "errors": side.errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (nanoseconds, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.00µs"),
            (9_994, "9.99µs"),
            (9_996, "10.0µs"),
            (123_456, "123µs"),
            (999_600, "1.00ms"),
            (12_345_678, "12.3ms"),
            (1_234_567_890, "1.23s"),
            (123_456_789_000, "123s"),
            (9_999_000_000_000, "9999s"),
        ] {
            assert_eq!(time(Duration::from_nanos(nanoseconds)), text);
        }
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(per_second(1.234), "1.23");
        assert_eq!(per_second(25_031.4), "25,031");
    }

    #[test]
    fn a_result_is_tables_and_bars_that_fit() {
        let row = LoadRow {
            name: "GetPluginInfo".to_owned(),
            calls: 1000,
            failed: 1,
            latency: Some([1, 2, 3, 4, 5, 6, 7].map(Duration::from_millis)),
            bars: vec![
                (Duration::from_millis(2), 800),
                (Duration::from_millis(5), 0),
                (Duration::from_millis(10), 200),
            ],
            parts: Vec::new(),
            moments: Vec::new(),
            moment_width: Duration::ZERO,
        };
        let failure = FailedCalls {
            rpc: "GetPluginInfo",
            code: "INTERNAL",
            calls: 1,
            example: "\x1b[31mfire".to_owned(),
        };
        let side = |endpoint: &str| SideReport {
            endpoint: endpoint.to_owned(),
            elapsed: Duration::from_secs(2),
            unsent: 0,
            rows: Vec::new(),
            errors: Vec::new(),
        };
        let mut report = LoadReport {
            run: "r1".to_owned(),
            what: "identity plugin-info".to_owned(),
            concurrency: 8,
            connections: 1,
            rate: None,
            interrupted: false,
            sides: vec![SideReport {
                rows: vec![row],
                errors: vec![failure],
                ..side("unix:///s")
            }],
            ratios: Vec::new(),
        };
        let mut out = Vec::new();
        tables(&report, Some(40), &mut out).unwrap();
        let expected = "\
RPC            CALLS  FAILED  PER SECOND     IN
GetPluginInfo  1,000       1         500  2.00s

LATENCY           MIN    MEAN     P50     P90     P99   P99.9     MAX
GetPluginInfo  1.00ms  2.00ms  3.00ms  4.00ms  5.00ms  6.00ms  7.00ms

GetPluginInfo UP TO  CALLS
             2.00ms    800  ████████████
             5.00ms      0
             10.0ms    200  ███

ERROR     CALLS  RPC            EXAMPLE
INTERNAL  1      GetPluginInfo  \\u{1b}[31mfire
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);

        report.sides.push(side("unix:///t"));
        report.ratios.push(Ratio {
            name: "GetPluginInfo".to_owned(),
            measure: "p50",
            more_is_better: false,
            median: 0.5,
            lowest: 0.4,
            highest: 1.1,
            pairs: 3,
        });
        let mut out = Vec::new();
        object(&report, Format::Jsonl, &mut out).unwrap();
        let json: Json = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            json["drivers"][0]["rpcs"][0]["latencySeconds"]["p99.9"],
            0.006
        );
        assert_eq!(json["drivers"][0]["errors"][0]["code"], "INTERNAL");
        assert_eq!(json["ratios"][0]["secondIs"], "not told apart");
        let mut out = Vec::new();
        tables(&report, None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains(
                "GetPluginInfo  p50      0.50×  0.40×   1.10×    3      not told apart\n"
            ),
            "{text}"
        );
    }
}
