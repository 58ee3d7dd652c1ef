//! The flag by which volumes are measured, of the driver and of an agent. Owns its words and where it means nothing.

use crate::process::config::{self, ConfigError, Mode};
use clap::Args;
use std::time::Duration;

/// How often volumes are measured.
#[derive(Args, Debug)]
pub struct MeasuringFlags {
    /// Measure in the background, once in this time, the disk usage of each volume whose size nobody enforces
    #[arg(long, env = "CSI_NFS_MEASURE", value_name = "INTERVAL",
          value_parser = config::parse_interval)]
    measure: Option<Duration>,
}

impl MeasuringFlags {
    /// The interval, for who works on shares.
    pub fn interval(&self) -> Option<Duration> {
        self.measure
    }

    /// The interval, for a driver in that mode.
    ///
    /// # Errors
    /// When nothing would be measured.
    pub(super) fn interval_in(&self, mode: Mode) -> Result<Option<Duration>, ConfigError> {
        match self.measure {
            Some(_) if !mode.controller() => Err(ConfigError::NoEffect(
                "--measure",
                "with --mode node: volumes are measured by controllers, or by an agent on the server; give it to one of these and leave it out here",
            )),
            interval => Ok(interval),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::process::config::ConfigError;
    use crate::process::flags::Flags;
    use clap::Parser;
    use std::time::Duration;

    #[test]
    fn what_measures_nothing_is_refused() {
        let told = |line: &str| {
            let flags = Flags::parse_from(line.split(' '));
            flags.resolve().map(|(_, config, _)| config.measure)
        };
        let hour = Some(Duration::from_secs(3600));
        assert_eq!(told("x --endpoint /x").unwrap(), None);
        assert_eq!(told("x --endpoint /x --measure 1h").unwrap(), hour);
        let controller = "x --endpoint /x --mode controller --measure 1h";
        assert_eq!(told(controller).unwrap(), hour);
        match told("x --endpoint /x --mode node --measure 1h") {
            Err(ConfigError::NoEffect(flag, _)) => assert_eq!(flag, "--measure"),
            other => panic!("{other:?}"),
        }
    }
}
