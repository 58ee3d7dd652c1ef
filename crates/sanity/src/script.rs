//! The command lines that repeat the steps of a case, for a shell.
//!
//! Each request is written as `--request` of the command for its RPC. Shell variables hold what the driver chooses, such as ids,
//! so that the lines also run against a driver that chooses otherwise. Secrets are left out; the file that they come from is
//! named.

mod ids;

use super::context::Context;
use super::own_driver::{OwnDriver, Restarter, VARIABLE};
use super::run::Run;
use super::steps::{Call, Step, TIDIES_UP, request_text};
use csi_call::session::Connection;
use csi_error::code_name;
use csi_output::shell_word::word;
use csi_proto::lock::lock;
use csi_proto::path::contents;
use csi_proto::schema::{Cardinality, Method};
use csi_proto::text::escaped;
use csi_proto::value::{Secrets, decode};
use csi_rpc::facts::{Making, Thing};
use csi_undo::made::leaves_it_open;
use ids::{holds, in_json, is_id, is_plain, texts_in, with_variable};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use tonic::Code;

impl Context {
    /// The steps that took down what the case has made.
    pub(super) fn take_tidied(&self) -> Vec<Step> {
        let mut steps = self.made.take_tidied();
        let run = word(&self.run.journal.folder().to_string_lossy());
        let in_it = |step: &Step| matches!(step, Step::Shell(line) if line.contains(&run));
        if steps.iter().any(in_it) {
            // The lines of another case may have something there.
            let line = format!("rmdir --ignore-fail-on-non-empty {run}");
            steps.push(Step::Shell(line));
        }
        steps
    }

    /// The lines that repeat the case.
    pub(super) fn script(&self, taken_down: &[Step]) -> Vec<String> {
        let steps = lock(&self.steps);
        with_driver(
            &self.run,
            script(&self.run, &self.case, steps.all(), taken_down),
        )
    }

    /// The same for the lines of another case, which start no driver, with words above the step of that number. The first
    /// step is 1.
    pub(super) fn script_with(
        &self,
        number: usize,
        words: &str,
        taken_down: &[Step],
    ) -> Vec<String> {
        let mut steps = lock(&self.steps).all().to_vec();
        let words = format!("# {} (in {}):", escaped(words), self.case);
        steps.insert(
            number.saturating_sub(1).min(steps.len()),
            Step::Shell(words),
        );
        script(&self.run, &self.case, &steps, taken_down)
    }
}

/// The lines for the steps of a case, and then for those that take down what it has made.
fn script(run: &Run, case: &str, steps: &[Step], taken_down: &[Step]) -> Vec<String> {
    let mut writer = ScriptWriter {
        run,
        case,
        chosen: Vec::new(),
        unheld: Vec::new(),
        lines: Vec::new(),
        set: 0,
        in_background: Vec::new(),
        answers: 0,
        makers: BTreeMap::new(),
    };
    writer.steps(steps, taken_down);
    if !taken_down.is_empty() || writer.answers > 0 {
        writer.lines.push(TIDIES_UP.to_owned());
        writer.steps(taken_down, &[]);
        writer.takes_back();
    }
    writer.lines
}

/// The variable for the folder with the answers of calls in the background.
const ANSWERS: &str = "answers";

/// The lines between those that start and end the driver, where the run has started it.
fn with_driver(run: &Run, lines: Vec<String>) -> Vec<String> {
    match run.own_driver.as_deref() {
        Some(own) if !lines.is_empty() => {
            let mut all = Vec::from(start_of(own));
            all.extend(lines);
            all.push("stop_driver".to_owned());
            all
        }
        _ => lines,
    }
}

fn start_of(own: &OwnDriver) -> [String; 4] {
    [
        format!("socket=/tmp/csi-driver-$$.sock; export {VARIABLE}=unix://$socket"),
        // Whether Probe succeeds is what some cases are about.
        format!(
            "start_driver() {{ {} & driver=$!; csi --wait 1m identity probe >/dev/null || :; }}",
            own.for_shell()
        ),
        // What stands after -- may have started the driver as its child.
        "stop_driver() { kill $driver $(ps -o pid= --ppid $driver); wait $driver; rm -f $socket; }"
            .to_owned(),
        "start_driver".to_owned(),
    ]
}

/// A text that the driver chose, and the variable that holds it.
struct Chosen {
    text: String,
    variable: String,
}

struct ScriptWriter<'a> {
    run: &'a Run,
    case: &'a str,
    chosen: Vec<Chosen>,
    /// Texts that the driver chose, too, and that no variable can hold.
    unheld: Vec<String>,
    lines: Vec<String>,
    /// How many of the variables are set.
    set: usize,
    /// The lines that set the others, once the calls in the background are over.
    in_background: Vec<String>,
    /// The number of files with answers.
    answers: usize,
    /// The RPCs that make something, some of whose answers are in these files.
    makers: BTreeMap<Thing, &'static Method>,
}

impl ScriptWriter<'_> {
    /// The lines for steps, of which others come later.
    fn steps(&mut self, steps: &[Step], later: &[Step]) {
        let mut beside = false;
        // How often the same call was made, one after the other.
        let mut times = 1;
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Shell(command) => self.lines.push(command.clone()),
                Step::Restart(Restarter::Command(command)) => {
                    let csi = self.csi(&self.run.node);
                    let ready = format!("{csi} --wait 1m identity probe");
                    self.lines.extend([command.clone(), ready]);
                }
                Step::Restart(Restarter::Own(_)) => {
                    self.lines.push("stop_driver; start_driver".to_owned());
                }
                Step::Call(call) => {
                    let next = steps.get(index + 1).and_then(Step::call);
                    if next.is_some_and(|next| call.is_aborted_again(next)) {
                        times += 1;
                        continue;
                    }
                    // What a case does between two calls at the same time is none of their steps.
                    let next = steps[index + 1..].iter().find_map(Step::call);
                    let overlaps = matches!((next, &call.ended), (Some(next), Some((end, _))) if next.began < *end);
                    let later = steps[index + 1..].iter().chain(later);
                    self.call(
                        call,
                        std::mem::replace(&mut times, 1),
                        overlaps || beside,
                        later,
                    );
                    if beside && !overlaps {
                        self.wait();
                    }
                    beside = overlaps;
                }
            }
        }
    }

    /// Waits for what is in the background.
    fn wait(&mut self) {
        // A driver that these lines have started is in the background, too.
        self.lines.push("wait $calls; calls=".to_owned());
        self.lines.append(&mut self.in_background);
        self.set = self.chosen.len();
    }

    /// The lines that take back whatever calls have made whose answers are in files: each time these may make more things, or
    /// other ones.
    fn takes_back(&mut self) {
        if self.answers == 0 {
            return;
        }
        for method in std::mem::take(&mut self.makers).into_values() {
            let (Some(making), Some((_, maker))) =
                (csi_rpc::making(method), csi_rpc::of_method(method))
            else {
                continue;
            };
            let Some((group, undoing)) = csi_rpc::of_method(making.undone_by) else {
                continue;
            };
            let csi = self.csi(self.run.peer(method));
            let secrets = self.secrets_flag(making.undone_by);
            let mut flags = making
                .id_path
                .iter()
                .map(|(field, _)| field.replace('_', "-"));
            let id = flags.next().unwrap_or_default();
            let parts = flags.map(|flag| format!(" --{flag} \"$(echo $parts | tr ' ' ,)\""));
            self.lines.push(format!(
                "head -qn 1 \"${ANSWERS}\"/{}.* | sort -u | while read -r id parts; do {csi} {} {}{secrets} --{id} \"$id\"{}; done",
                maker.verb(),
                group.name,
                undoing.verb(),
                parts.collect::<String>(),
            ));
        }
        self.lines.push(format!("rm -r \"${ANSWERS}\""));
    }

    /// The flag for the secrets of an RPC that takes some.
    fn secrets_flag(&self, method: &Method) -> String {
        let takes = method.request.takes_secrets();
        let file = self.run.settings.secrets_file.as_deref();
        match file.filter(|file| takes && *file != "-") {
            Some(file) => format!(" --secrets-file {}", word(file)),
            None => String::new(),
        }
    }

    fn call<'s>(
        &mut self,
        call: &Call,
        times: usize,
        beside: bool,
        later: impl Iterator<Item = &'s Step>,
    ) {
        let mut line = self.csi(self.run.peer(call.method));
        let (Some((group, rpc)), Some(request)) = (csi_rpc::of_method(call.method), sent(call))
        else {
            let name = word(self.case);
            let _ = write!(
                line,
                " sanity --filter {name}  # sends what no other command does"
            );
            // Once for all such calls of the case.
            self.lines.retain(|known| *known != line);
            return self.lines.push(line);
        };
        if call.ended.is_none() {
            line.insert_str(0, "timeout -s INT 0.1 ");
        }
        if let Some(limit) = call.limit {
            let _ = write!(line, " -t {limit:?}");
        }
        self.tell_unheld(&request);
        let request = self.request(&request);
        // An answer that is sent on was there before.
        let is_sent = |one: &Chosen| request.contains(&format!("\"${}\"", one.variable));
        if self.chosen[self.set..].iter().any(is_sent) {
            self.wait();
        }
        let _ = write!(line, " {} {}", group.name, rpc.verb());
        // A case may leave them out.
        let mut secret = call
            .method
            .request
            .fields
            .iter()
            .filter(|field| field.secret);
        if secret.any(|field| !contents(call.method.request, &call.request, field.name).is_empty())
        {
            line.push_str(&self.secrets_flag(call.method));
        }
        let _ = write!(line, " --request {request}");
        let chosen = self.chosen_in(call, later);
        // Another time it may make something, or something else.
        let making = csi_rpc::making(call.method).filter(|making| {
            let is_again = chosen.is_empty() && self.makers.contains_key(&making.thing);
            let is_open = matches!(&call.ended, Some((_, Err(code)))
                if *code == Code::ResourceExhausted || leaves_it_open(*code));
            making.has_own_id() && (beside || is_again || is_open)
        });
        match making {
            None if chosen.is_empty() => {}
            None if !beside => {
                let output = word(&format!("jsonpath={}", paths(&chosen)));
                line = self.taken(&format!("$({line} -o {output})"), chosen);
                self.set = self.chosen.len();
            }
            making => {
                self.makers
                    .extend(making.map(|making| (making.thing, call.method)));
                line = self.kept(line, making, rpc.verb(), chosen);
            }
        }
        if beside {
            line.push_str(" & calls=\"$calls $!\"");
        }
        let outcome = match &call.ended {
            None => Some("given up"),
            Some((_, answer)) => answer.as_ref().err().map(|code| code_name(*code)),
        };
        if let Some(outcome) = outcome {
            let _ = write!(line, "  # {outcome}");
            if times > 1 {
                let _ = write!(line, ", {times} times");
            }
        }
        self.lines.push(line);
    }

    /// The line that sets variables to texts of an answer, which stand in it one after the other.
    fn taken(&mut self, answer: &str, chosen: Vec<(String, String)>) -> String {
        let first = self.chosen.len() + 1;
        let texts = chosen.into_iter().map(|(_, text)| text);
        let variables = texts.zip(first..).map(|(text, number)| Chosen {
            text,
            variable: format!("id{number}"),
        });
        self.chosen.extend(variables);
        let variables = self.chosen[first - 1..].iter().map(|one| &one.variable);
        match self.chosen.len() - first {
            0 => format!("id{first}={answer}"),
            _ => {
                let each = (1..)
                    .zip(variables)
                    .map(|(at, variable)| format!("{variable}=${{{at}}}"));
                let each = Vec::from_iter(each).join(" ");
                format!("chosen={answer} && set -- $chosen && {each}")
            }
        }
    }

    /// The line of a call whose answer is kept in a file, for a variable that is set in the background is lost. The first line
    /// of the file has what undoing needs to know of the thing that the call makes, where it makes one; the last line has the
    /// texts that are taken over.
    fn kept(
        &mut self,
        line: String,
        making: Option<&Making>,
        verb: &str,
        chosen: Vec<(String, String)>,
    ) -> String {
        if self.answers == 0 {
            self.lines.push(format!("{ANSWERS}=$(mktemp -d)"));
        }
        self.answers += 1;
        let file = format!("\"${ANSWERS}/{verb}.{}\"", self.answers);
        let made = making.map(own_ids).unwrap_or_default();
        let line = format!(
            "{line} -o {} >{file}",
            word(&format!("jsonpath={made}{}", paths(&chosen)))
        );
        if !chosen.is_empty() {
            let set = self.taken(&format!("$(tail -n 1 {file})"), chosen);
            self.in_background.push(set);
        }
        line
    }

    fn csi(&self, peer: &Connection) -> String {
        let endpoint = peer.endpoint.to_string();
        let own = self.run.own_driver.as_ref();
        let mut line = match own.is_some_and(|own| own.endpoint() == endpoint) {
            // The variable names it.
            true => "csi".to_owned(),
            false => format!("csi -e {}", word(&endpoint)),
        };
        for flag in &self.run.settings.connection_flags {
            let _ = write!(line, " {}", word(flag));
        }
        line
    }

    /// The document as a word of the shell, with variables in the place of what the driver chose.
    fn request(&self, json: &str) -> String {
        if escaped(json) != json {
            return word(json);
        }
        let mut text = format!("'{}'", json.replace('\'', r"'\''"));
        for Chosen { text: id, variable } in &self.chosen {
            text = with_variable(&text, id, variable);
        }
        text
    }

    /// Says which texts that the driver chose stand in a request as they are: somebody has to put in other ones.
    fn tell_unheld(&mut self, json: &str) {
        let is_literal = escaped(json) != json;
        let literal = self.chosen.iter().filter(|_| is_literal);
        let all = literal.map(|one| &one.text).chain(&self.unheld);
        for text in all.map(|text| in_json(text)) {
            let line = format!(
                "# in the place of {}, which the driver chose, put in what it answers now",
                escaped(&text)
            );
            if holds(json, &text) && !self.lines.contains(&line) {
                self.lines.push(line);
            }
        }
    }

    /// The texts in the answer to a call that the driver chose and that later steps send again, with their paths.
    fn chosen_in<'s>(
        &mut self,
        call: &Call,
        later: impl Iterator<Item = &'s Step>,
    ) -> Vec<(String, String)> {
        // A stream prints an answer for each of its messages.
        let reply = call.reply().filter(|_| !call.method.server_streaming);
        let Some(reply) = reply else {
            return Vec::new();
        };
        let mut texts = Vec::new();
        let decoded = decode(call.method.response, reply, Secrets::Omit);
        if let Some(Ok(json)) = decoded.ok().map(serde_json::to_value) {
            texts_in(&json, "", &mut texts);
        }
        let own = request_text(call.method, &call.request);
        let is_known = |text: &str| {
            let mut known = self.chosen.iter().map(|known| &known.text);
            holds(&own, &in_json(text)) || known.any(|known| known == text)
        };
        texts.retain(|(path, text)| is_id(path, text) && !is_known(text));
        if texts.is_empty() {
            return texts;
        }
        let later = later.filter_map(Step::call);
        let later = later.map(|call| request_text(call.method, &call.request));
        let later: Vec<String> = later.collect();
        let is_sent = |text: &str| later.iter().any(|request| holds(request, &in_json(text)));
        texts.retain(|(_, text)| is_sent(text));
        let mut seen = BTreeSet::new();
        texts.retain(|(_, text)| seen.insert(text.clone()));
        texts.retain(|(_, text)| self.can_hold(text, true));
        let is_alone = texts.len() == 1;
        texts.retain(|(_, text)| self.can_hold(text, is_alone));
        texts
    }

    /// Whether a variable can hold a text; notes it where none can.
    fn can_hold(&mut self, text: &str, is_alone: bool) -> bool {
        let can = is_plain(text, is_alone);
        if !can && !self.unheld.iter().any(|known| known == text) {
            self.unheld.push(text.to_owned());
        }
        can
    }
}

/// The paths of texts in an answer, as the grammar of jsonpath has them.
fn paths(chosen: &[(String, String)]) -> String {
    let paths = chosen.iter().map(|(path, _)| format!("{{{path}}}"));
    Vec::from_iter(paths).join(" ")
}

/// The paths of what undoing needs to know of a thing, and a line end behind them.
fn own_ids(making: &Making) -> String {
    let paths = making.id_path.iter().map(|(field, path)| {
        let field = making
            .undone_by
            .request
            .fields
            .iter()
            .find(|one| one.name == *field);
        let is_list = field.is_some_and(|field| field.cardinality != Cardinality::Singular);
        match path.rsplit_once('.').filter(|_| is_list) {
            Some((list, id)) => format!("{{.{list}[*].{id}}}"),
            None => format!("{{.{path}}}"),
        }
    });
    format!("{}{{\"\\n\"}}", Vec::from_iter(paths).join(" "))
}

/// The request of a call as JSON; `None` for one that has what JSON cannot say.
fn sent(call: &Call) -> Option<String> {
    decode(call.method.request, &call.request, Secrets::Omit).ok()?;
    let text = request_text(call.method, &call.request);
    // Unknown fields have the names of their numbers.
    (!text.contains("\"#")).then_some(text)
}
