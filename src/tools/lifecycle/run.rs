//! Runs a lifecycle: the order of its steps, and the effect of a signal.

use super::calls::{Lifecycle, say, text};
use super::data::{Exercise, Exercised, TargetKind};
use super::writer::WriterThread;
use crate::error::{Error, ErrorKind, OrError};
use crate::invocation::interrupt::Signals;
use crate::output::steps::StepOutcome;
use csi_proto::lock::lock;
use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

impl<W: Write> Lifecycle<'_, W> {
    /// Goes all the way up and down again. A signal ends the way up; one more, or two on the way down, end that too.
    ///
    /// # Errors
    /// The first failure; everything that was done before it has been undone, or said to be left.
    pub async fn run(&mut self, signals: &mut Signals) -> Result<(), Error> {
        let way_up = tokio::select! {
            result = self.up() => result,
            () = signals.next() => Err(Error::interrupted()),
        };
        let mut asked = matches!(&way_up, Err(error) if error.kind() == ErrorKind::Interrupted);
        let nothing = lock(&self.made).all().next().is_none();
        match (&way_up, nothing) {
            (Err(_), false) if asked => {
                say("note: undoing what was done; Ctrl-C again stops that too");
            }
            (Err(_), false) => say("note: undoing what was done"),
            _ => {}
        }
        let way_down = {
            let mut down = pin!(self.take_back());
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
            self.say_all_left();
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

    /// Writes and reads the data. If the thread still works when this ends, by its deadline or because it is dropped, the
    /// way down stops it.
    async fn write_and_read(&mut self, target: &Path) -> Result<(), Error> {
        const NAME: &str = "write and read back";
        let started = Instant::now();
        let exercise = Exercise {
            file_name: format!(".{}", self.name),
            may_overwrite: self.flags.may_overwrite(),
        };
        let path = target.to_owned();
        let writer = WriterThread::start(move |stop| exercise.run(&path, stop))
            .or_because("there is no thread to write with")?;
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
            Ok(Some(done)) => self.print(
                NAME,
                StepOutcome::Done,
                &exercise_text(&done),
                started.elapsed(),
            ),
            Ok(None) => self.skipped(
                NAME,
                "the volume does not show at the target path here: the driver mounts elsewhere",
            ),
            Err(error) => {
                self.print(NAME, StepOutcome::Failed, &text(target), started.elapsed())?;
                let problem = format!("data did not make it through {}", target.display());
                Err(Error::because(problem, &error).doing(NAME))
            }
        }
    }
}

/// The result of the work on the data, as text.
fn exercise_text(done: &Exercised) -> String {
    let mut told = String::new();
    if !done.written {
        told.push_str("read only: the volume is not ours; ");
    }
    let size = crate::arguments::size::human(i64::try_from(done.bytes).unwrap_or(i64::MAX));
    told.push_str(&format!("{size}, checksum {:016x}", done.checksum));
    if done.target == TargetKind::Link {
        told.push_str(", through a symbolic link");
    }
    told
}
