//! The way down of a lifecycle: stops the writer, takes back each step, and reports what stays.

use super::calls::{Lifecycle, LifecycleSettings, call, say, step_name};
use super::flags::LifecycleFlags;
use crate::call::error::call_error;
use crate::call::session::{CallError, Connection};
use crate::error::{Error, code_name};
use crate::output::steps::{StepOutcome, StepPrinter};
use crate::rpc;
use crate::undo::left::Commands;
use crate::undo::made::Item;
use crate::undo::order::waves;
use crate::undo::taking_back::{Called, TakingBack, Tool, Why};
use crate::undo::tries::Tries;
use bytes::Bytes;
use csi_proto::lock::lock;
use csi_proto::schema::Method;
use csi_proto::text::escaped;
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use tonic::Code;

/// The time limit for the writer to end; it looks at its flag between two chunks.
const WRITER_ENDS_WITHIN: Duration = Duration::from_secs(5);

impl<W: Write> Lifecycle<'_, W> {
    /// Takes everything back. Every part is tried that may be; what fails, and what has to stay because of it, is said at
    /// once.
    pub(super) async fn take_back(&mut self) -> Result<(), Error> {
        self.stop_writing().await;
        let way_down = WayDown {
            settings: self.settings,
            node: &self.node,
            controller: &self.controller,
            commands: commands(&self.node, &self.controller, self.flags),
            steps: RefCell::new(&mut self.steps),
            first: RefCell::default(),
        };
        let tries = Tries::within(self.node.session.timeout());
        TakingBack::new(&way_down, &self.made, tries).all(1).await;
        way_down.first.into_inner().map_or(Ok(()), Err)
    }

    /// Ends what still writes to the volume, which would be busy otherwise.
    async fn stop_writing(&mut self) {
        if let Some((writer, target)) = &mut self.writer {
            if !writer.stop(WRITER_ENDS_WITHIN).await {
                let target = std::mem::take(target);
                self.say_writer_left(&target);
            }
            self.writer = None;
        }
    }

    /// Says that everything stays which is still there.
    pub(super) fn say_all_left(&self) {
        if let Some((_, target)) = &self.writer {
            self.say_writer_left(target);
        }
        let commands = commands(&self.node, &self.controller, self.flags);
        let made = lock(&self.made);
        for number in waves(made.all()).into_iter().flatten() {
            if let Some(item) = made.get(number) {
                say_left(commands, item);
            }
        }
    }

    fn say_writer_left(&self, target: &Path) {
        let target = target.to_string_lossy();
        say(&format!(
            "left: the thread that writes to {}, which does not answer: the thread ends with this process or when the \
             storage answers; perhaps the file .{} stays in the volume",
            escaped(&target),
            self.name,
        ));
    }
}

fn commands<'a>(
    node: &'a Connection,
    controller: &'a Connection,
    flags: &'a LifecycleFlags,
) -> Commands<'a> {
    Commands {
        node: &node.endpoint,
        controller: &controller.endpoint,
        secrets_file: flags.secrets_file.as_deref(),
    }
}

fn say_left(commands: Commands<'_>, item: &Item) {
    let (words, command) = (item.to_string(), commands.take_back(item));
    say(&format!("left: {}: {command}", escaped(&words)));
}

/// Prints each call that takes something back as a step.
struct WayDown<'a, W: Write> {
    settings: LifecycleSettings,
    node: &'a Connection,
    controller: &'a Connection,
    commands: Commands<'a>,
    steps: RefCell<&'a mut StepPrinter<W>>,
    /// The first error.
    first: RefCell<Option<Error>>,
}

impl<W: Write> WayDown<'_, W> {
    fn driver(&self, method: &Method) -> &Connection {
        match rpc::is_at_node(method) {
            true => self.node,
            false => self.controller,
        }
    }

    fn report(&self, error: Error) {
        let text = error.render(self.settings.style);
        let _ = io::stderr().write_all(text.as_bytes());
        self.first.borrow_mut().get_or_insert(error.reported());
    }
}

impl<W: Write> Tool for WayDown<'_, W> {
    async fn call(
        &self,
        _lane: u64,
        method: &'static Method,
        request: Bytes,
        limit: Option<Duration>,
    ) -> Result<Bytes, CallError> {
        let driver = self.driver(method).clone();
        let session = driver.session.with_timeout(limit);
        let driver = Connection { session, ..driver };
        call(&driver, self.settings.log, method, request).await
    }

    fn tries_again(&self, method: &'static Method, code: Code) {
        let (name, code) = (step_name(method), code_name(code));
        say(&format!("note: {name}: {code}, trying again"));
    }

    fn called(&self, call: &Called<'_>) {
        let name = step_name(call.method);
        let (outcome, text) = match call.error {
            None if call.asks => (StepOutcome::Done, "once more, to learn the id"),
            None => (StepOutcome::Done, ""),
            Some(_) => (StepOutcome::Failed, ""),
        };
        // A stdout that cannot be written stops nothing here: the volume has to go.
        let _ = self
            .steps
            .borrow_mut()
            .step(&name, outcome, text, call.took);
        if let Some(error) = call.error {
            let endpoint = &self.driver(call.method).endpoint;
            self.report(call_error(error, endpoint).doing(name));
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
        say_left(self.commands, item);
    }
}
