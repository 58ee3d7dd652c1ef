//! `csi lifecycle`: what a container orchestrator does with a volume, in its order and honouring what the driver
//! advertises, and everything undone again in reverse, also after a failure or Ctrl-C.
//!
//! Owns the order and what a signal does. What to ask first is in `ask.rs`, the volume's steps are in `volume.rs`, data in
//! `data.rs` and `writer.rs`, the way down in `undo.rs` and `left.rs`; printing steps is `output::steps`.

mod ask;
mod calls;
pub mod command;
mod data;
mod flags;
pub mod left;
pub(crate) mod undo;
mod volume;
mod writer;

pub use calls::Driver;
pub use flags::LifecycleFlags;

use crate::call::log::Log;
use crate::error::{Error, Kind, Style};
use crate::invocation::interrupt::Signals;
use crate::output::steps::{Outcome, Steps};
use crate::rpc::flags::Context;
use crate::rpc::validation::Checks;
use csi_proto::random;
use data::{Exercise, Exercised, Target};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};
use undo::Undo;
use writer::Writer;

/// How a run speaks and how strict it is.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How errors of the way down are worded.
    pub style: Style,
    /// What is checked of requests and replies on the way up.
    pub checks: Checks,
    /// What to say on stderr.
    pub log: Log,
}

/// Everything known about one run.
pub struct Lifecycle<'a, W: Write> {
    flags: &'a LifecycleFlags,
    context: Context,
    settings: Settings,
    node: Driver,
    controller: Driver,
    steps: Steps<W>,
    /// Names what this run makes; unique, because a volume of this name is ours to delete.
    name: String,
    undo: Vec<Undo>,
    /// What works on the data, and where.
    writer: Option<(Writer<io::Result<Option<Exercised>>>, PathBuf)>,
}

impl<'a, W: Write> Lifecycle<'a, W> {
    /// A run against `node`, with controller calls to `controller`.
    ///
    /// # Errors
    /// When the kernel gives no random number for the run's name.
    pub fn new(
        flags: &'a LifecycleFlags,
        context: Context,
        settings: Settings,
        node: Driver,
        controller: Driver,
        steps: Steps<W>,
    ) -> Result<Self, Error> {
        // A container's processes have the same few ids in every container.
        let drawn =
            random::from_kernel().map_err(|error| Error::because(random::MISSING, &error))?;
        let drawn = u64::from_ne_bytes(drawn);
        Ok(Self {
            flags,
            context,
            settings,
            node,
            controller,
            steps,
            name: format!("csi-lifecycle-{}-{drawn:016x}", std::process::id()),
            undo: Vec::new(),
            writer: None,
        })
    }

    /// Goes all the way up and down again. A signal ends the way up; one more, or two on the way down, end that too.
    ///
    /// # Errors
    /// The first failure; everything that was done before it has been undone, or said to be left.
    pub async fn run(&mut self, signals: &mut Signals) -> Result<(), Error> {
        let way_up = tokio::select! {
            result = self.up() => result,
            () = signals.next() => Err(Error::interrupted()),
        };
        let mut asked = matches!(&way_up, Err(error) if error.kind() == Kind::Interrupted);
        match (&way_up, self.undo.is_empty()) {
            (Err(_), false) if asked => {
                say("note: undoing what was done; Ctrl-C again stops that too");
            }
            (Err(_), false) => say("note: undoing what was done"),
            _ => {}
        }
        let way_down = {
            let mut down = pin!(self.down());
            loop {
                tokio::select! {
                    result = &mut down => break Some(result),
                    () = signals.next() => {
                        if asked {
                            break None;
                        }
                        asked = true;
                        say("note: still undoing what was done; Ctrl-C again stops that too");
                    }
                }
            }
        };
        let way_down = way_down.unwrap_or_else(|| {
            if let Some((_, target)) = &self.writer {
                self.say_writer_left(target);
            }
            for undo in self.undo.iter().rev() {
                self.say_left(undo);
            }
            Err(Error::interrupted())
        });
        let stopped = if asked {
            Err(Error::interrupted())
        } else {
            Ok(())
        };
        way_up.and(way_down).and(stopped)
    }

    async fn up(&mut self) -> Result<(), Error> {
        let advertised = self.ask().await?;
        let (staging, target) = self.folders()?;
        let mut volume = self.volume(&advertised).await?;
        self.publish_by_controller(&advertised, &mut volume).await?;
        let staged = self.stage(&advertised, &volume, &staging).await?;
        self.publish(&volume, staged.then_some(&staging), &target)
            .await?;
        self.write_and_read(&target).await?;
        self.stats(&advertised, &volume, &target).await
    }

    /// What is not over when this ends, by its deadline or because it is dropped, the way down stops.
    async fn write_and_read(&mut self, target: &Path) -> Result<(), Error> {
        const NAME: &str = "write and read back";
        let started = Instant::now();
        let exercise = Exercise {
            file_name: format!(".{}", self.name),
            may_overwrite: self.flags.may_overwrite(),
        };
        let path = target.to_owned();
        let writer = Writer::start(move |stop| exercise.run(&path, stop))
            .map_err(|error| Error::because("there is no thread to write with", &error))?;
        let (writer, _) = self.writer.insert((writer, target.to_owned()));
        let limit = self.node.session.timeout().unwrap_or(Duration::MAX);
        let result = match tokio::time::timeout(limit, writer.result()).await {
            Ok(result) => {
                self.writer = None;
                result.flatten()
            }
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        };
        match result {
            Ok(Some(done)) => self.print(NAME, Outcome::Done, &told(&done), started.elapsed()),
            Ok(None) => self.skipped(
                NAME,
                "the volume does not show at the target path here: the driver mounts elsewhere",
            ),
            Err(error) => {
                self.print(NAME, Outcome::Failed, &text(target), started.elapsed())?;
                let problem = format!("data did not make it through {}", target.display());
                Err(Error::because(problem, &error).doing(NAME))
            }
        }
    }
}

/// What came of the data, in words.
fn told(done: &Exercised) -> String {
    let mut told = String::new();
    if !done.written {
        told.push_str("read only: the volume is not ours; ");
    }
    let size = crate::arguments::size::human(i64::try_from(done.bytes).unwrap_or(i64::MAX));
    told.push_str(&format!("{size}, checksum {:016x}", done.checksum));
    if done.target == Target::Link {
        told.push_str(", through a symbolic link");
    }
    told
}

/// Says something on stderr. Where nobody hears it, for example on a terminal that is gone, there is still a volume to undo.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Paths are text in CSI; those made here are, unless the folder for temporary files is not.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
