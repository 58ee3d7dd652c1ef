//! The command `csi sanity`: settings from flags and file, a run that signals stop, its output and its end.

use super::report_files::ReportFile;
use super::settings::Access;
use super::{
    Case, Report, Settings, cases, config, junit, kept, known_failures, page, report_files,
    run_watched,
};
use crate::print::{CLEAR, Detail, Progress, Shown, list};
use clap::builder::PossibleValue;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};
use csi_arguments::text::text_of;
use csi_call::endpoint::Endpoint;
use csi_error::{Error, OrError, say};
use csi_invocation::connect;
use csi_invocation::contexts::chosen::{Chosen, Selection};
use csi_invocation::defaults::{self, Defaults};
use csi_invocation::globals::Globals;
use csi_invocation::interrupt::{Signals, UNWATCHED};
use csi_invocation::parse::Offered;
use csi_invocation::parse::{self, with_flags};
use csi_output::colour::{self, Brush};
use csi_output::page::{PageFile, Readers};
use csi_output::shell_word::word;
use csi_output::{Format, stdout, terminal};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const REPORT: &str = "Report";

/// The advice where a name is that of no case.
const LIST_SHOWS: &str = "csi sanity --list shows the names of all cases";

/// The flags that are no settings of a run.
#[derive(Args, Debug)]
struct SanityFlags {
    /// Take all of this from a TOML file, whose keys are the names of the flags; flags count more
    #[arg(long, value_name = "FILE", display_order = 0, help_heading = super::settings::DRIVER)]
    config: Option<PathBuf>,
    /// Show the failures and the end alone
    #[arg(short, long, help_heading = REPORT)]
    quiet: bool,
    /// List the cases instead of running them
    #[arg(long, help_heading = REPORT)]
    list: bool,
    /// Write the results to a file as JUnit XML
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    junit: Option<PathBuf>,
    /// Draw the results on a page for a browser too: cases by group, with evidence and commands
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    html: Option<PathBuf>,
    /// Count failures that this file names as known: they do not fail the run. One case a line, # begins a comment
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    known_failures: Option<PathBuf>,
    /// Write the names of the cases that fail to a file, for --known-failures of later runs
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    write_known_failures: Option<PathBuf>,
}

/// The flags of `csi sanity explain`.
#[derive(Args, Debug)]
struct ExplainFlags {
    /// Its name
    #[arg(value_name = "CASE", value_parser = Offered(names_of_cases), hide_possible_values = true)]
    case: String,
    /// Of the run in this file, which -o json wrote; without the flag the last run in which the case was tried
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
}

const EXPLAIN: &str = "explain";

/// The command.
pub fn command() -> Command {
    Command::new("sanity")
        .about("Check that a driver keeps the contract of the specification")
        .after_help(
            "Examples:\n  csi -e embedded: sanity\n  \
             csi -e unix:///csi/csi.sock sanity --params server=10.0.0.4,share=/export --filter controller/ --junit sanity.xml\n  \
             csi sanity -- my-driver --endpoint {}\n\n\
             The last 10 runs are kept for `csi sanity explain CASE`. -v shows each case when it ends.\n\n\
             Exit codes: 0 every case passed, 3 some failed, 4 none failed, but something could not be tried or is left, others: it could not be run.",
        )
        .defer(|command| {
            let command = with_flags::<SanityFlags>(with_flags::<Settings>(command));
            let explain = Command::new(EXPLAIN)
                .about("Show what a run has found in a case, and the commands that show it again");
            let command = command.subcommand(with_flags::<ExplainFlags>(explain));
            command.mut_arg("filter", |filter| {
                filter.value_parser(Offered(names_of_cases)).hide_possible_values(true)
            })
        })
}

/// The names of the cases, which are patterns too.
fn names_of_cases() -> Vec<PossibleValue> {
    let name = |case: &'static Case| PossibleValue::new(case.name.as_str()).help(&case.sentence);
    super::cases().map(name).collect()
}

/// Runs it.
///
/// # Errors
/// When the run could not be made, or the driver failed.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    if let Some((EXPLAIN, matches)) = matches.subcommand() {
        return explain(&parse::flags::<ExplainFlags>(matches)?, globals);
    }
    let flags = parse::flags::<SanityFlags>(matches)?;
    let mut globals = globals.clone();
    let settings = settings(&flags, matches, &mut globals)?;
    match decide(settings, flags.list, flags.quiet, &globals)? {
        Task::List(cases, format) => csi_output::print(list(&cases, format).as_bytes()),
        Task::Run(settings, shown) => {
            judged(&execute(*settings, shown, &flags, &globals, defaults)?)
        }
    }
}

/// Shows what was found in a case.
fn explain(flags: &ExplainFlags, globals: &Globals) -> Result<(), Error> {
    globals.tool_format(&[Format::Table], "it is text; -o json of the run has all")?;
    let name = &flags.case;
    let Some(case) = cases::named(name) else {
        return Err(Error::usage(format!("no case has the name {}", word(name))).hint(LIST_SHOWS));
    };
    let text = kept::explained(case, name, flags.run.as_deref())?;
    csi_output::print(text.as_bytes())
}

/// The settings from a command line and from the file that it names. Flags take precedence; a context that nobody named
/// yields to a file that names a driver.
fn settings(
    flags: &SanityFlags,
    matches: &ArgMatches,
    globals: &mut Globals,
) -> Result<Settings, Error> {
    let mut settings = match &flags.config {
        Some(path) => {
            config::read(path).map_err(|error| Error::usage(format!("--config: {error}")))?
        }
        None => Settings::default(),
    };
    let taken = settings.take(matches);
    taken.map_err(|error| Error::usage(error.to_string()))?;
    let is_implied = |chosen: &Chosen| chosen.selection != Selection::Flag;
    if !settings.command.is_empty() {
        return with_own_driver(settings, matches, globals);
    }
    if !settings.endpoint.is_empty() && globals.chosen.as_ref().is_some_and(is_implied) {
        globals.name_driver(&settings.endpoint);
    }
    if let Some(endpoint) = &globals.endpoint {
        settings.endpoint.clone_from(endpoint);
    }
    if settings.parameters.is_empty() {
        settings.parameters = globals.parameters();
    }
    if let (Some(chosen), true) = (&globals.chosen, settings.capabilities.is_empty()) {
        settings.capabilities.extend(chosen.capability.clone());
    }
    Ok(settings)
}

/// The settings of a run that starts the driver. A driver that runs is another one: flags count more than the file, and
/// of two equals neither does.
fn with_own_driver(
    mut settings: Settings,
    matches: &ArgMatches,
    globals: &mut Globals,
) -> Result<Settings, Error> {
    let is_asked_for = matches.value_source("command") == Some(ValueSource::CommandLine);
    let names_driver = match &globals.chosen {
        Some(chosen) => chosen.selection == Selection::Flag,
        None => globals.endpoint.is_some(),
    };
    let problem = match (is_asked_for, names_driver) {
        (true, true) => {
            "-- COMMAND starts a driver, and --endpoint or --context names one that runs"
        }
        (false, true) => {
            settings.command.clear();
            settings.endpoint = globals.endpoint.clone().unwrap_or_default();
            return Ok(settings);
        }
        (false, false) if !settings.endpoint.is_empty() => {
            "--config: command starts a driver, and endpoint names one that runs"
        }
        _ => {
            globals.name_driver("");
            settings.endpoint.clear();
            return Ok(settings);
        }
    };
    Err(Error::usage(problem).hint("give one of them"))
}

/// The task of a command line.
#[derive(Debug)]
enum Task {
    /// Print these cases.
    List(Vec<&'static Case>, Format),
    /// Run the cases that the settings select.
    Run(Box<Settings>, Format),
}

/// Decides what is to be done, and refuses what has no meaning or contradicts itself.
fn decide(settings: Settings, lists: bool, quiet: bool, globals: &Globals) -> Result<Task, Error> {
    let own = if lists { Format::Name } else { Format::Github };
    let known = [Format::Table, Format::Json, Format::Jsonl, own];
    let prints = "the results are no table; -o json prints all of them with every detail";
    let format = globals.tool_format(&known, prints)?;
    let is_empty = |pattern: &String| pattern.trim_matches('!').is_empty();
    if settings.filter.iter().any(is_empty) {
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
    if lists {
        return Ok(Task::List(cases, format));
    }
    if quiet && globals.verbose > 0 {
        return Err(Error::usage(
            "--quiet shows less and -v more: give one of them",
        ));
    }
    check(&settings)?;
    Ok(Task::Run(Box::new(settings), format))
}

/// Connects, runs the cases, and writes what came of them.
fn execute(
    mut settings: Settings,
    format: Format,
    flags: &SanityFlags,
    globals: &Globals,
    defaults: &Defaults,
) -> Result<Report, Error> {
    let mut globals = globals.clone();
    globals.endpoint = Some(settings.endpoint).filter(|endpoint| !endpoint.is_empty());
    let endpoint = match settings.command.is_empty() {
        true => Some(connect::endpoint_named_for("sanity", &globals)?),
        false => None,
    };
    settings.endpoint = endpoint
        .as_ref()
        .map(Endpoint::to_string)
        .unwrap_or_default();
    settings.start_limit = globals.wait.unwrap_or(settings.start_limit);
    settings.timeout = globals.timeout().unwrap_or(NO_LIMIT);
    settings.metadata = globals.metadata();
    settings.connect = globals.connect_options();
    settings.connection_flags = globals.connection_flags();
    settings.secrets_file = defaults.secrets_file(&settings.secrets_file, &globals);
    let secrets = defaults::secrets(settings.secrets_file.as_deref(), &[])?;
    settings.secrets = secrets.reveal().clone();
    let known = match &flags.known_failures {
        Some(path) => known(path)?,
        None => BTreeSet::new(),
    };
    report_files::differ([&flags.junit, &flags.write_known_failures, &flags.html])?;
    let junit = ReportFile::asked("--junit", flags.junit.as_ref())?;
    let list = flags.write_known_failures.as_ref();
    let list = ReportFile::asked("--write-known-failures", list)?;
    junit.as_ref().map_or(Ok(()), ReportFile::forget)?;
    let html = PageFile::asked(flags.html.as_ref(), Readers::Umask)?;
    if let Some(endpoint) = &endpoint {
        connect::private_mounts(endpoint, defaults)?;
    }
    let shown = Shown {
        format,
        detail: match (flags.quiet, globals.verbose) {
            (true, _) => Detail::Quiet,
            (false, 0) => Detail::Usual,
            (false, _) => Detail::Each,
        },
        columns: terminal::width(),
        brush: Brush(colour::is_wanted()),
    };
    let mut progress = Progress::new(stdout(), shown, known.clone());
    let runtime = connect::runtime()?;
    let ran = runtime.block_on(async {
        let mut signals = Signals::watch_each(defaults.in_shell).or_because(UNWATCHED)?;
        if let (Some(endpoint), true) = (&endpoint, globals.wait.is_some()) {
            tokio::select! {
                ready = connect::session(endpoint, &globals) => drop(ready?),
                () = signals.next() => return Err(Error::interrupted()),
            }
        }
        let mut report = followed(settings, &mut progress, &mut signals, shown.is_live()).await?;
        report.knows(known);
        if let Some(file) = junit {
            file.write(&junit::document(&report))?;
        }
        if let Some(file) = list {
            file.write(&known_failures::written(&report))?;
        }
        if let Some(html) = html {
            html.write(&page::page(&report))?;
        }
        let kept = kept::keep(&report);
        // A run is as good without, but `explain` shows an older one then.
        let kept = kept.inspect_err(|error| say!("note: this run is not kept: {error}"));
        let kept = kept.ok();
        progress
            .finish(&report, kept.as_deref())
            .map_err(|error| Error::because("stdout cannot be written", &error))?;
        Ok(report)
    });
    runtime.shutdown_background();
    ran
}

/// The known failures in a file. Says which of its lines name no case.
fn known(path: &Path) -> Result<BTreeSet<String>, Error> {
    let file = path.display();
    let text = text_of(path)
        .map_err(|error| Error::usage(format!("--known-failures: {file}: {error}")))?;
    let at = |line| format!("--known-failures: {file}:{line}");
    let (known, gone) = known_failures::parse(&text).map_err(|(line, name)| {
        let problem = format!("{}: {} is no name of a case", at(line), word(&name));
        Error::usage(problem).hint(LIST_SHOWS)
    })?;
    for (line, name) in gone {
        // A list outlives the version that it was written for. A failure whose name is misspelt in it is a new one.
        say!(
            "note: {}: this version has no case {name}: take the line out, or mend the name ({LIST_SHOWS})",
            at(line)
        );
    }
    Ok(known)
}

/// Runs the cases. The first signal stops them, the second the taking down of what they made, the third everything.
async fn followed<W: Write>(
    settings: Settings,
    progress: &mut Progress<W>,
    signals: &mut Signals,
    live: bool,
) -> Result<Report, Error> {
    let (asks, asked) = tokio::sync::watch::channel(0);
    let mut running = std::pin::pin!(run_watched(settings, progress, asked));
    let mut heard = 0;
    loop {
        tokio::select! {
            report = &mut running => return report.map_err(super::CannotRun::into_error),
            () = signals.next() => heard += 1,
        }
        if asks.send(heard).is_err() || heard > 2 {
            return Err(Error::interrupted());
        }
        if heard == 1 {
            // Over the line about what runs, where there is one.
            let clear = if live { CLEAR } else { "" };
            let note = "note: taking down what the cases made; Ctrl-C again stops that too";
            say!("{clear}{note}");
        }
    }
}

/// A day: calls without a limit must still end some time.
const NO_LIMIT: Duration = Duration::from_secs(86_400);

/// Refuses settings that contradict each other.
fn check(settings: &Settings) -> Result<(), Error> {
    for access in Access::ALL {
        let all = settings.capabilities.iter();
        if all.filter(|one| Access::of(one) == access).count() > 1 {
            return Err(Error::usage(format!(
                "--cap is given twice with the access type {}",
                access.name()
            )));
        }
    }
    let starts = !settings.command.is_empty();
    let restarts = starts || settings.restart_command.is_some();
    let between = settings.restart_between_steps > 0;
    let one_of_them = Some("give one of them");
    let checks = [
        (
            settings.volume_size.is_some_and(|size| size < 1),
            "--volume-size must be at least one byte",
            None,
        ),
        (settings.jobs == 0, "--jobs must be at least 1", None),
        (
            between && !restarts,
            "--restart-between-steps needs --restart-command or -- COMMAND to restart the driver",
            None,
        ),
        (
            between && settings.read_only,
            "--restart-between-steps restarts the driver, and --read-only lets it be",
            one_of_them,
        ),
        (
            starts && settings.restart_command.is_some(),
            "-- COMMAND restarts the driver that it starts, and --restart-command another way",
            one_of_them,
        ),
        (
            settings.case_limit.is_zero(),
            "--case-limit must be longer than 0: no case could end in time",
            Some("a long one, such as 24h, is as good as none"),
        ),
    ];
    match checks.into_iter().find(|(is_wrong, ..)| *is_wrong) {
        None => Ok(()),
        Some((_, problem, None)) => Err(Error::usage(problem)),
        Some((_, problem, Some(hint))) => Err(Error::usage(problem).hint(hint)),
    }
}

/// The cases that the settings select, whatever their access type: at least one.
fn selected(settings: &Settings) -> Result<Vec<&'static Case>, Error> {
    let cases: Vec<_> = super::cases()
        .filter(|case| {
            let block = case.name_for(Access::Block);
            settings.selects(&case.name) || settings.selects(&block)
        })
        .collect();
    if cases.is_empty() {
        let patterns = settings.filter.iter().map(|pattern| word(pattern));
        let patterns: Vec<_> = patterns.collect();
        let problem = format!("--filter: no case matches {}", patterns.join(" "));
        return Err(Error::usage(problem).hint(LIST_SHOWS));
    }
    Ok(cases)
}

/// The end of the process: what came of the run.
fn judged(report: &Report) -> Result<(), Error> {
    let error = match &report.cut_short {
        Some(reason) if reason == "interrupted" => Error::interrupted(),
        _ if report.new_failures().next().is_some() => {
            let (failed, all) = (report.counts().failed, report.results.len());
            Error::failed(format!("{failed} of {all} cases failed"))
        }
        _ if report.is_complete() => return Ok(()),
        _ => Error::incomplete("something could not be tried, or is left"),
    };
    Err(error.reported())
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_error::Style;

    /// The task of a command line as text: `runs ENDPOINT`, the number of listed cases, or the first line of the error.
    fn outcome(line: &str, file: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sanity.toml");
        std::fs::write(&path, file).expect("a file");
        let line = line.replace("FILE", &path.display().to_string());
        let root = Globals::augment_args(Command::new("csi")).subcommand(command());
        let words = ["csi", "sanity"].into_iter().chain(line.split_whitespace());
        let matches = root.try_get_matches_from(words).expect("a command line");
        let globals = <Globals as clap::FromArgMatches>::from_arg_matches(&matches);
        let mut globals = globals.expect("global flags");
        let (_, matches) = matches.subcommand().expect("a command");
        let flags = parse::flags::<SanityFlags>(matches).expect("flags");
        let task = settings(&flags, matches, &mut globals)
            .and_then(|settings| decide(settings, flags.list, flags.quiet, &globals));
        match task {
            Ok(Task::Run(settings, shown)) => format!("runs {} {shown:?}", settings.endpoint),
            Ok(Task::List(cases, _)) => format!("lists {}", cases.len()),
            Err(error) => {
                let text = error.render(Style::Text);
                text.lines().next().unwrap_or_default().to_owned()
            }
        }
    }

    #[test]
    fn a_command_line_and_a_file_come_to_one_task() {
        let mut wrong = Vec::new();
        for (line, file, expected) in [
            ("", "", "runs  Table"),
            ("-e /a -o json", "", "runs /a Json"),
            ("--config FILE -o jsonl", "endpoint = '/b'", "runs /b Jsonl"),
            ("--config FILE -e /a", "endpoint = '/b'", "runs /a Table"),
            (
                "--list --filter identity/plugin-info/is-constant",
                "",
                "lists 1",
            ),
            // It cannot run, but it can be shown.
            (
                "--list --jobs 0 --filter identity/plugin-info/is-constant",
                "",
                "lists 1",
            ),
            ("--columns a", "", "error: --columns has no meaning here"),
            ("--sort-by a", "", "error: --sort-by has no meaning here"),
            ("-o wide", "", "error: -o wide has no meaning here"),
            ("-o name", "", "error: -o name has no meaning here"),
            ("--list -o csc", "", "error: -o csc has no meaning here"),
            ("--list -o github", "", "error: -o github has no meaning"),
            ("--list -o name --filter probe/answers-ready", "", "lists 1"),
            ("--filter !", "", "error: --filter: an empty pattern would"),
            (
                "--filter nothing",
                "",
                "error: --filter: no case matches nothing",
            ),
            ("--volume-id v", "", "error: --volume-id names a volume"),
            ("--volume-id v --read-only", "", "runs  Table"),
            (
                "--config FILE --volume-id v",
                "read-only = true",
                "runs  Table",
            ),
            (
                "--config FILE --read-only=false",
                "read-only = true\nvolume-id = 'v'",
                "error: --volume-id names",
            ),
            (
                "--cap 1,mount --cap 5,mount",
                "",
                "error: --cap is given twice with the access type mount",
            ),
            ("--cap 1,mount --cap 5,block", "", "runs  Table"),
            ("--volume-size 0", "", "error: --volume-size must be"),
            ("--jobs 0", "", "error: --jobs must be at least 1"),
            (
                "--config FILE",
                "jobs = 0",
                "error: --jobs must be at least 1",
            ),
            ("--config FILE --jobs 2", "jobs = 0", "runs  Table"),
            (
                "--case-limit 0s",
                "",
                "error: --case-limit must be longer than 0",
            ),
            (
                "--restart-between-steps",
                "",
                "error: --restart-between-steps needs",
            ),
            (
                "--restart-between-steps=3 --restart-command r",
                "",
                "runs  Table",
            ),
            (
                "--restart-between-steps --restart-command r --read-only",
                "",
                "error: --restart-between-steps restarts",
            ),
            ("--config FILE", "job = 2", "error: --config: "),
        ] {
            let outcome = outcome(line, file);
            if !outcome.starts_with(expected) {
                wrong.push(format!("{line} with {file:?}: {outcome}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
