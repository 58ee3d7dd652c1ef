//! `csi sanity` as a command: settings from flags and file, a run that signals stop, its output and its end.

use super::flags::SanityFlags;
use super::{Report, Settings, run_watched};
use crate::cli::Globals;
use crate::error::Error;
use crate::interrupt::Signals;
use crate::output::sanity::{Progress, Shown, list};
use crate::output::{self, Format};
use crate::run::{self, Ground};
use std::io::Write as _;

/// Runs it.
///
/// # Errors
/// When the run could not be made, or the driver failed.
pub fn sanity(flags: &SanityFlags, globals: &Globals, ground: &Ground) -> Result<(), Error> {
    let shown = match globals.output(false).format {
        Format::Json => Shown::Json,
        Format::Jsonl => Shown::Jsonl,
        _ => Shown::Text,
    };
    if flags.list {
        let mut settings = Settings::of("");
        flags.fill(&mut settings);
        let cases: Vec<_> = super::cases()
            .filter(|case| settings.selects(case.name))
            .collect();
        return run::print(list(&cases, shown != Shown::Text).as_bytes());
    }
    let endpoint = run::endpoint(globals)?;
    let mut settings = Settings::of(endpoint.to_string());
    flags.fill(&mut settings);
    settings.timeout = globals.timeout().unwrap_or(settings.timeout);
    settings.metadata = globals.metadata();
    settings.connect = run::connect_options(globals);
    settings.connection_flags = globals.connection_flags();
    let file = settings
        .secrets_file
        .clone()
        .or_else(|| ground.secrets_file.clone());
    settings.secrets = run::secrets(file.as_deref(), &[])?.reveal().clone();
    settings.secrets_file = file;
    if !ground.in_shell {
        run::private_mounts(&endpoint)?;
    }
    let live = output::terminal::width().is_some();
    let mut progress = Progress::new(output::stdout(), shown, live);
    let runtime = run::runtime()?;
    let ran = runtime.block_on(async {
        let mut signals = Signals::watch();
        let (asks, asked) = tokio::sync::watch::channel(0);
        let wait = globals.wait;
        if wait.is_some() {
            tokio::select! {
                ready = run::session(&endpoint, globals) => drop(ready?),
                () = signals.next() => return Err(Error::interrupted()),
            }
        }
        let report = {
            let mut running = std::pin::pin!(run_watched(settings, &mut progress, asked));
            let mut begun = 0;
            loop {
                tokio::select! {
                    report = &mut running => break report.map_err(super::CannotRun::into_error)?,
                    () = signals.next() => {
                        begun += 1;
                        if asks.send(begun).is_err() || begun > 2 {
                            return Err(Error::interrupted());
                        }
                        if begun == 1 {
                            let _ = writeln!(std::io::stderr(), "note: taking down what the cases made; Ctrl-C again stops that too");
                        }
                    }
                }
            }
        };
        progress.finish(&report).map_err(|error| Error::because("stdout cannot be written", &error))?;
        Ok(report)
    });
    runtime.shutdown_background();
    judged(&ran?)
}

/// The end of the process: what came of the run.
fn judged(report: &Report) -> Result<(), Error> {
    match &report.cut_short {
        Some(reason) if reason == "interrupted" => Err(Error::interrupted().reported()),
        _ if report.is_success() => Ok(()),
        _ => {
            let counts = report.counts();
            Err(Error::failed(format!(
                "{} of {} cases failed",
                counts.failed,
                report.results.len()
            ))
            .reported())
        }
    }
}
