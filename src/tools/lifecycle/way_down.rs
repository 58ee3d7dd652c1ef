//! The way down of a lifecycle: stops the writer, takes back each step, and reports what stays.

use super::calls::{Lifecycle, call, say_again, step_name, text};
use super::data::{Exercise, Work};
use super::volume::TARGET;
use super::writer::WriterThread;
use bytes::Bytes;
use csi_call::{CallError, Connection, call_error};
use csi_error::{Error, say};
use csi_output::shell_word::word;
use csi_output::steps::{Step, StepOutcome};
use csi_proto::{Method, contents, escaped, lock};
use csi_rpc::facts::IdKind;
use csi_undo::Item;
use csi_undo::left::Commands;
use csi_undo::order::waves;
use csi_undo::taking_back::{Called, TakingBack, Tool, Why};
use csi_undo::tries::Tries;
use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Code;

/// The time limit for the writer to end; it looks at its flag between two chunks.
const WRITER_ENDS_WITHIN: Duration = Duration::from_secs(5);

impl<W: Write> Lifecycle<'_, W> {
    /// Takes everything back. Every part is tried that may be; what fails, and what has to stay because of it, is said at
    /// once.
    pub(super) async fn take_back(&self) -> Result<(), Error> {
        self.stop_writing().await;
        self.remove_files().await;
        let way_down = WayDown {
            run: self,
            first: RefCell::default(),
        };
        let tries = Tries::within(self.node.session.timeout());
        let at_a_time = self.flags.count as usize;
        TakingBack::new(&way_down, &self.made, tries)
            .all(at_a_time)
            .await;
        way_down.first.into_inner().map_or(Ok(()), Err)
    }

    /// Ends what still writes to the volume, which would be busy otherwise.
    async fn stop_writing(&self) {
        let threads = self.threads.borrow().clone();
        for (thread, path) in threads {
            if !thread.stop(WRITER_ENDS_WITHIN).await {
                self.say_writer_left(&path);
            }
        }
        self.threads.take();
    }

    /// Removes the files with data from volumes that stay.
    async fn remove_files(&self) {
        let next = || self.files.borrow_mut().pop();
        while let Some(file) = next() {
            let (Some(target), Some(name)) = (file.parent(), file.file_name()) else {
                continue;
            };
            let exercise = Exercise {
                file_name: text(Path::new(name)),
                may_overwrite: false,
                work: Work::Remove,
            };
            let target = target.to_owned();
            let removed = match WriterThread::start(move |stop| exercise.run(&target, stop)) {
                Ok((_, result)) => timeout(WRITER_ENDS_WITHIN, result).await,
                Err(error) => Ok(Ok(Err(error))),
            };
            if !matches!(removed, Ok(Ok(Ok(_)))) {
                let name = text(Path::new(name));
                say!("left: the file {} in the volume that stays", escaped(&name));
            }
        }
    }

    /// Says that everything stays which is still there.
    pub(super) fn say_all_left(&self) {
        let threads = self.threads.borrow();
        for (_, target) in threads.iter().filter(|(thread, _)| thread.is_alive()) {
            self.say_writer_left(target);
        }
        let made = lock(&self.made);
        for number in waves(made.all()).into_iter().flatten() {
            if let Some(item) = made.get(number) {
                self.say_left(item);
            }
        }
    }

    fn say_left(&self, item: &Item) {
        let commands = Commands {
            node: &self.node.endpoint,
            controller: &self.controller.endpoint,
            secrets_file: self.flags.secrets_file.as_deref(),
        };
        let (words, command) = (item.to_string(), commands.take_back(item));
        say!("left: {}: {command}", escaped(&words));
    }

    fn say_writer_left(&self, target: &Path) {
        let target = target.to_string_lossy();
        say!(
            "left: the thread that writes to {}, which does not answer: the thread ends with this process or when the \
             storage answers; perhaps the file .{} stays in the volume",
            escaped(&target),
            self.name,
        );
    }
}

/// Prints each call that takes something back as a step.
struct WayDown<'r, 'a, W: Write> {
    run: &'r Lifecycle<'a, W>,
    /// The first error.
    first: RefCell<Option<Error>>,
}

impl<W: Write> WayDown<'_, '_, W> {
    fn report(&self, error: Error) {
        self.run.report(&error);
        self.first.borrow_mut().get_or_insert(error.reported());
    }

    /// Says that the driver has left the target of a volume that it unpublished, which keeps the folder.
    fn say_target_left(&self, target: &Path) {
        let Ok(found) = fs::symlink_metadata(target) else {
            return;
        };
        let is_its = |item: &Item| match item {
            Item::Thing { making, undo } => {
                let paths = contents(making.undone_by.request, undo, "target_path");
                paths.contains(&target.as_os_str().as_encoded_bytes())
            }
            _ => false,
        };
        if lock(&self.run.made).all().any(|(_, item)| is_its(item)) {
            return;
        }
        let command = if found.is_dir() { "rmdir" } else { "rm" };
        let target = target.to_string_lossy();
        say!(
            "left: the target {}, by the driver: {command} {}",
            escaped(&target),
            word(&target)
        );
    }
}

impl<W: Write> Tool for WayDown<'_, '_, W> {
    async fn call(
        &self,
        _worker: u64,
        method: &'static Method,
        request: Bytes,
        limit: Option<Duration>,
    ) -> Result<Bytes, CallError> {
        let driver = self.run.driver(method).clone();
        let session = driver.session.with_timeout(limit);
        let driver = Connection { session, ..driver };
        call(&driver, self.run.log, method, request).await
    }

    fn tries_again(&self, method: &'static Method, code: Code) {
        say_again(method, code);
    }

    fn called(&self, call: &Called<'_>) {
        let name = step_name(call.method);
        let (outcome, text) = match call.error {
            None if call.asks => (StepOutcome::Done, "once more, to learn the id".to_owned()),
            None => (StepOutcome::Done, subject(call)),
            Some(_) => (StepOutcome::Failed, subject(call)),
        };
        // A stdout that cannot be written stops nothing here: the volume has to go.
        let _ = self.run.steps.borrow_mut().step(&Step {
            of: None,
            name: &name,
            outcome,
            text: &text,
            took: call.took,
        });
        if let Some(error) = call.error {
            let endpoint = &self.run.driver(call.method).endpoint;
            // The time that a try had is not the one that --timeout names.
            let error = CallError {
                timeout: None,
                ..error.clone()
            };
            self.report(call_error(&error, endpoint).doing(name));
        }
    }

    fn stays(&self, _number: u64, item: &Item, why: Why) {
        match why {
            // Said when the call failed, or when that failed because of which it stays.
            Why::Failed(_) | Why::InUse | Why::Silent => {}
            Why::NoId(method) => {
                let problem = "the reply has no volume id, which the specification requires";
                self.report(Error::local(problem).doing(step_name(method)));
            }
            Why::NotRemoved(error) => {
                let problem = format!("{item} cannot be removed");
                self.report(Error::because(problem, &error));
            }
        }
        if let Item::Folder(folder) = item {
            self.say_target_left(&folder.join(TARGET));
        }
        self.run.say_left(item);
    }
}

/// What a call takes back: the first of its ids.
fn subject(call: &Called<'_>) -> String {
    let fields = call.method.request.fields.iter();
    let mut ids = fields.filter(|field| IdKind::of_field(field.name).is_some());
    let id = ids
        .next()
        .map(|field| contents(call.method.request, call.request, field.name));
    let id = id.and_then(|mut ids| ids.pop());
    String::from_utf8_lossy(id.unwrap_or_default()).into_owned()
}
