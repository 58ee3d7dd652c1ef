//! The flags of `csi bench`: those of every load, and those of the named cycles.

use super::pace::Limits;
use clap::Args;
use csi_arguments::capability;
use csi_arguments::request::{self, RequestSource};
use csi_invocation::volume_flags::VolumeFlags;
use csi_proto::{duration, v1};
use std::path::PathBuf;
use std::time::Duration;

/// How long a load goes on for which neither a count nor a duration was given.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Workers at a fixed rate, where calls must be able to begin while others are not answered.
const WORKERS_AT_RATE: usize = 64;

/// How long a clean-up goes on in which nothing goes.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);

/// The flags of every load.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchFlags {
    /// Calls, or cycles, at a time [default: 1, with --rate 64]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = LOAD)]
    concurrency: Option<u32>,
    /// Connections to the driver, over which the calls are spread
    #[arg(long, global = true, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000), help_heading = LOAD)]
    pub(super) connections: u32,
    /// Begin this many calls, or cycles, a second, whatever the answers do; latency counts from when each was due
    #[arg(long, global = true, value_name = "PER SECOND", value_parser = rate, help_heading = LOAD)]
    pub(super) rate: Option<f64>,
    /// Make this many calls, or cycles
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = LOAD)]
    count: Option<u64>,
    /// Begin calls for this long [default: 10s, unless there is a --count]
    #[arg(long, global = true, value_name = "DURATION", value_parser = positive, help_heading = LOAD)]
    duration: Option<Duration>,
    /// Before that, go on for this long, or make this many calls, which are not counted
    #[arg(long, global = true, value_name = "DURATION|N", value_parser = warm_up, help_heading = LOAD)]
    warm_up: Option<WarmUp>,
    /// Do the same to a second driver, in turns, and print how it compares
    #[arg(long, global = true, value_name = "ENDPOINT", help_heading = LOAD)]
    pub(super) compare: Option<String>,
    /// With --compare: the turns that each driver has
    #[arg(long, global = true, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(2..=1_000), requires = "compare", help_heading = LOAD)]
    pub(super) turns: u32,
    /// Exit with success as long as not more than this many calls failed, or this part of them
    #[arg(long, global = true, value_name = "N|P%", default_value = "0", value_parser = max_errors, help_heading = LOAD)]
    pub(super) max_errors: MaxErrors,
    /// Draw the results on a page for a browser too, with the latency over time
    #[arg(long, global = true, value_name = "FILE", help_heading = LOAD)]
    pub(super) html: Option<PathBuf>,
    /// Leave what the load makes
    #[arg(long, global = true, help_heading = LOAD)]
    pub(super) keep: bool,
    /// End the clean-up when nothing could be taken back for this long, and say what stays; 0 for no limit [default: 1m, or
    /// --timeout where that is longer]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "keep", help_heading = LOAD)]
    cleanup_timeout: Option<Duration>,
    /// Allow calls that change or delete what this run did not make
    #[arg(long, global = true, help_heading = LOAD)]
    pub(super) yes: bool,
    /// The seed of {random}
    #[arg(long, global = true, value_name = "N", default_value = "0", help_heading = LOAD)]
    pub(super) seed: u64,
    /// The driver's controller, where that is another endpoint than the node's
    #[arg(long, global = true, value_name = "ENDPOINT", conflicts_with = "compare", help_heading = LOAD)]
    pub(super) controller_endpoint: Option<String>,
    /// The CreateVolume request, as JSON, of the volumes that {volume_id} stands for
    #[arg(long, global = true, value_name = "FILE|-|JSON", value_parser = request::parse, help_heading = LOAD)]
    pub(super) volume_request: Option<RequestSource>,
}

const LOAD: &str = "Load";

/// The flags of the named cycles.
#[derive(Args, Debug)]
pub(crate) struct CycleFlags {
    /// Capability of the volumes, MODE,TYPE[,FS[,FLAG…]] [default: SINGLE_NODE_WRITER,mount]
    #[arg(long, value_name = "MODE,TYPE[,FS[,FLAG…]]", value_parser = capability::parse)]
    pub(super) cap: Option<v1::VolumeCapability>,
    #[command(flatten)]
    pub(super) volume: VolumeFlags,
    /// Use this volume, which exists, instead of creating one for each worker; it is not deleted
    #[arg(long, value_name = "ID", conflicts_with_all = ["params", "req-bytes", "lim-bytes"])]
    pub(super) volume_id: Option<String>,
    /// Folder in which the staging and target paths are made; the driver must see it under the same path
    /// [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub(super) mount_parent: Option<PathBuf>,
    /// Secrets from a file, sent with every call that has such a field: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE")]
    pub(super) secrets_file: Option<String>,
}

/// The warm-up before the calls that count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WarmUp {
    /// So many calls.
    Calls(u64),
    /// So long.
    Time(Duration),
}

/// The number of calls that may fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MaxErrors {
    /// So many.
    Calls(u64),
    /// A share of all calls, in percent.
    Percent(f64),
}

impl BenchFlags {
    /// Calls at a time.
    pub(super) fn concurrency(&self) -> usize {
        let default = match self.rate {
            Some(_) => WORKERS_AT_RATE,
            None => 1,
        };
        self.concurrency.map_or(default, |number| number as usize)
    }

    /// For how long nothing has to be taken back until the clean-up ends; `timeout` is the deadline of a call.
    pub(super) fn give_up(&self, timeout: Option<Duration>) -> Option<Duration> {
        match self.cleanup_timeout {
            Some(limit) => Some(limit).filter(|limit| !limit.is_zero()),
            // A single call may take that long and be answered.
            None => timeout.map(|timeout| timeout.max(CLEANUP_TIMEOUT)),
        }
    }

    /// The limits of the calls that count: number, rate, duration.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            count: self.count,
            duration: match self.count {
                Some(_) => self.duration,
                None => Some(self.duration.unwrap_or(DEFAULT_DURATION)),
            },
            rate: self.rate,
        }
    }

    /// The limits of the warm-up's calls.
    pub(super) fn warm_up(&self) -> Option<Limits> {
        let (count, duration) = match self.warm_up? {
            WarmUp::Calls(0) => return None,
            WarmUp::Calls(count) => (Some(count), None),
            WarmUp::Time(time) if time.is_zero() => return None,
            WarmUp::Time(time) => (None, Some(time)),
        };
        Some(Limits {
            count,
            duration,
            rate: self.rate,
        })
    }
}

impl MaxErrors {
    /// Whether so many failures of so many calls are too many.
    pub(super) fn exceeded(self, failed: u64, calls: u64) -> bool {
        match self {
            Self::Calls(allowed) => failed > allowed,
            Self::Percent(allowed) => failed as f64 * 100.0 > allowed * calls as f64,
        }
    }
}

/// Writes the limit as the user wrote it.
impl std::fmt::Display for MaxErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Calls(calls) => write!(f, "{calls}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.001..=1e6).contains(&rate) => Ok(rate),
        _ => Err("write a number of calls a second, from 0.001 to 1000000".to_owned()),
    }
}

fn positive(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(time) if time.is_zero() => Err("it must be longer than nothing".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

fn warm_up(text: &str) -> Result<WarmUp, String> {
    match text.parse() {
        Ok(calls) => Ok(WarmUp::Calls(calls)),
        Err(_) => match duration::parse(text) {
            Ok(time) => Ok(WarmUp::Time(time)),
            Err(error) => Err(format!("{error}; a number alone counts calls")),
        },
    }
}

fn max_errors(text: &str) -> Result<MaxErrors, String> {
    let wrong = || "write a number of calls, or a part of them such as 0.1%".to_owned();
    match text.strip_suffix('%') {
        None => text.parse().map(MaxErrors::Calls).map_err(|_| wrong()),
        Some(number) => match number.parse() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(MaxErrors::Percent(percent)),
            _ => Err(wrong()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_calls_and_durations_are_times() {
        assert_eq!(warm_up("100"), Ok(WarmUp::Calls(100)));
        assert_eq!(warm_up("2s"), Ok(WarmUp::Time(Duration::from_secs(2))));
        assert!(warm_up("x").unwrap_err().contains("counts calls"));
        assert_eq!(max_errors("3"), Ok(MaxErrors::Calls(3)));
        assert_eq!(max_errors("0.5%"), Ok(MaxErrors::Percent(0.5)));
        for wrong in ["-1", "x", "101%", "%", "NaN%"] {
            assert!(max_errors(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "-1", "x", "inf", "NaN"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert!(positive("0").is_err());
    }

    #[test]
    fn errors_are_allowed_up_to_the_limit() {
        assert!(!MaxErrors::Calls(2).exceeded(2, 10));
        assert!(MaxErrors::Calls(2).exceeded(3, 10));
        assert!(!MaxErrors::Percent(10.0).exceeded(10, 100));
        assert!(MaxErrors::Percent(10.0).exceeded(11, 100));
        assert!(!MaxErrors::Calls(0).exceeded(0, 0));
    }
}
