//! `csi sanity` as a command: settings from flags and file, a run that signals stop, its output and its end.

use super::flags::SanityFlags;
use super::report::instance_name;
use super::settings::Access;
use super::{Case, Report, Settings, config, junit, run_watched};
use crate::error::Error;
use crate::invocation::defaults::Defaults;
use crate::invocation::globals::Globals;
use crate::invocation::interrupt::Signals;
use crate::invocation::parse::{self, with_flags};
use crate::invocation::{connect, request};
use crate::output::shell_word::word;
use crate::output::{Format, stdout, terminal};
use crate::tools::sanity::shown::{Progress, Shown, list};
use clap::{ArgMatches, Command};
use std::io::Write as _;
use std::time::Duration;

/// The command.
pub fn command() -> Command {
    Command::new("sanity")
        .about("Check that a driver keeps the contract of the specification")
        .after_help(
            "Examples:\n  csi -e embedded: sanity\n  \
             csi -e unix:///csi/csi.sock sanity --params server=10.0.0.4,share=/export --filter controller/ --junit sanity.xml\n\n\
             Exit codes: 0 every case passed, 3 some failed, others: it could not be run.",
        )
        .defer(with_flags::<SanityFlags>)
}

/// Runs it.
///
/// # Errors
/// When the run could not be made, or the driver failed.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = &parse::flags::<SanityFlags>(matches)?;
    let output = globals.output(false);
    for (given, flag) in [
        (!output.columns.is_empty(), "--columns"),
        (output.sort_by.is_some(), "--sort-by"),
    ] {
        if given {
            let problem = format!("{flag} has no meaning here: the results are no table");
            return Err(Error::usage(problem).hint("-o json prints all of them with every detail"));
        }
    }
    let shown = match output.format {
        Format::Json => Shown::Json,
        Format::Jsonl => Shown::Jsonl,
        _ => Shown::Text,
    };
    // What holds where neither flags nor file say anything.
    let mut settings = Settings::of("");
    if let Some(path) = &flags.config {
        let read = config::read(path, &mut settings);
        read.map_err(|error| Error::usage(format!("--config: {error}")))?;
    }
    flags.fill(&mut settings);
    if settings
        .filter
        .iter()
        .any(|pattern| pattern.trim_matches('!').is_empty())
    {
        return Err(Error::usage(
            "--filter: an empty pattern would select every case: leave it out",
        ));
    }
    if settings.volume_id.is_some() && !settings.read_only {
        return Err(Error::usage(
            "--volume-id names a volume for --read-only to ask about: give both",
        )
        .hint("without --read-only the cases create and delete volumes of their own"));
    }
    let cases = selected(&settings)?;
    if flags.list {
        return crate::output::print(list(&cases, output.format).as_bytes());
    }
    let mut globals = globals.clone();
    if globals.endpoint.is_none() && !settings.endpoint.is_empty() {
        globals.endpoint = Some(settings.endpoint.clone());
    }
    let globals = &globals;
    let endpoint = connect::endpoint(globals)?;
    settings.endpoint = endpoint.to_string();
    settings.timeout = globals.timeout().unwrap_or(NO_LIMIT);
    settings.metadata = globals.metadata();
    settings.connect = globals.connect_options();
    settings.connection_flags = globals.connection_flags();
    let file = settings
        .secrets_file
        .clone()
        .or_else(|| defaults.secrets_file.clone());
    settings.secrets = request::secrets(file.as_deref(), &[])?.reveal().clone();
    settings.secrets_file = file;
    check(&settings)?;
    if let Some(path) = &flags.junit {
        // Now, and not when all cases have run.
        std::fs::File::create(path).map_err(|error| {
            Error::usage(format!(
                "--junit: {} cannot be written: {error}",
                path.display()
            ))
        })?;
    }
    if !defaults.in_shell {
        connect::private_mounts(&endpoint)?;
    }
    let live = terminal::width().is_some();
    let mut progress = Progress::new(stdout(), shown, live);
    let runtime = connect::runtime()?;
    let ran = runtime.block_on(async {
        let mut signals = Signals::watch();
        let (asks, asked) = tokio::sync::watch::channel(0);
        let wait = globals.wait;
        if wait.is_some() {
            tokio::select! {
                ready = connect::session(&endpoint, globals) => drop(ready?),
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
                            // Over the line about what runs, where there is one.
                            let clear = if live { "\r\x1b[K" } else { "" };
                            let _ = writeln!(std::io::stderr(), "{clear}note: taking down what the cases made; Ctrl-C again stops that too");
                        }
                    }
                }
            }
        };
        if let Some(path) = &flags.junit {
            std::fs::write(path, junit::document(&report)).map_err(|error| {
                Error::because(format!("--junit: {} cannot be written", path.display()), &error)
            })?;
        }
        progress.finish(&report).map_err(|error| Error::because("stdout cannot be written", &error))?;
        Ok(report)
    });
    runtime.shutdown_background();
    judged(&ran?)
}

/// A day: calls without a limit must still end some time.
const NO_LIMIT: Duration = Duration::from_secs(86_400);

/// Refuses settings that contradict each other.
fn check(settings: &Settings) -> Result<(), Error> {
    for access in Access::ALL {
        let of_it = settings
            .capabilities
            .iter()
            .filter(|one| Access::of(one) == access);
        if of_it.count() > 1 {
            let problem = format!(
                "--cap is given twice with the access type {}",
                access.name()
            );
            return Err(Error::usage(problem));
        }
    }
    if settings.volume_size < 1 {
        return Err(Error::usage("--volume-size must be at least one byte"));
    }
    if settings.jobs == 0 {
        return Err(Error::usage("--jobs must be at least 1"));
    }
    if settings.restart_between_steps > 0 {
        if settings.restart_command.is_none() {
            let problem = "--restart-between-steps needs --restart-command to restart the driver";
            return Err(Error::usage(problem));
        }
        if settings.read_only {
            let problem = "--restart-between-steps restarts the driver, and --read-only lets it be";
            return Err(Error::usage(problem).hint("give one of them"));
        }
    }
    if settings.case_limit.is_zero() {
        return Err(
            Error::usage("--case-limit must be longer than 0: no case could end in time")
                .hint("a long one, such as 24h, is as good as none"),
        );
    }
    Ok(())
}

/// The cases that the settings select, whatever their access type: at least one.
fn selected(settings: &Settings) -> Result<Vec<&'static Case>, Error> {
    let cases: Vec<_> = super::cases()
        .filter(|case| {
            let block = instance_name(case, Access::Block);
            settings.selects(case.name) || settings.selects(&block)
        })
        .collect();
    if cases.is_empty() {
        let patterns = settings.filter.iter().map(|pattern| word(pattern));
        let patterns: Vec<_> = patterns.collect();
        let problem = format!("--filter: no case matches {}", patterns.join(" "));
        return Err(Error::usage(problem).hint("csi sanity --list shows the names of all cases"));
    }
    Ok(cases)
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
