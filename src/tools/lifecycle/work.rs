//! The work on a volume's data as steps: in a thread that may hang, which the way down stops and waits for.

use super::calls::{StepRunner, text};
use super::data::{Exercise, Exercised, TargetKind, Work};
use super::plan::{ABNORMAL, Plan};
use super::volume::{Placed, Volume};
use super::writer::WriterThread;
use csi_arguments::capability::allows_writes;
use csi_error::{Error, OrError};
use csi_output::steps::StepOutcome;
use csi_proto::v1;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::timeout;

impl<W: Write> StepRunner<'_, '_, W> {
    /// Writes and reads the data; its checksum, where it stays for copies to be compared with.
    pub(super) async fn write_and_read(
        &self,
        plan: &Plan,
        volume: &Volume,
        placed: &Placed,
    ) -> Result<Option<u64>, Error> {
        const NAME: &str = "write and read back";
        if volume.abnormal.is_some() {
            self.skipped(NAME, ABNORMAL)?;
            return Ok(None);
        }
        let given: v1::NodePublishVolumeRequest = self.request();
        let capability = given.volume_capability;
        if capability.is_some_and(|one| !allows_writes(&one)) {
            self.skipped(NAME, "the access mode allows no writes")?;
            return Ok(None);
        }
        let (flags, target) = (self.run.flags, &placed.target);
        let exercise = Exercise {
            file_name: self.file_name(),
            may_overwrite: flags.may_overwrite(),
            work: match plan.copies() {
                true => Work::WriteAndLeave,
                false => Work::Write,
            },
        };
        if plan.copies() && (flags.keep || flags.volume_id.is_some()) {
            // With the volume itself it would go by itself.
            self.run
                .files
                .borrow_mut()
                .push(target.join(self.file_name()));
        }
        let problem = format!("data did not make it through {}", target.display());
        let done = self.work(NAME, exercise, target, problem).await?;
        let written = done.filter(|done| done.written && plan.copies());
        Ok(written.map(|done| done.checksum))
    }

    /// Finds the data of another volume in a copy of it.
    pub(super) async fn find_data(&self, placed: &Placed, checksum: u64) -> Result<(), Error> {
        let exercise = Exercise {
            file_name: self.file_name(),
            may_overwrite: false,
            work: Work::Find(checksum),
        };
        let problem = format!("the data is not in the copy at {}", placed.target.display());
        let found = self.work("find the data", exercise, &placed.target, problem);
        found.await.map(drop)
    }

    fn file_name(&self) -> String {
        format!(".{}", self.run.name)
    }

    /// Works in a thread, as one step. If the thread still works when this ends, by its deadline or because it is dropped, the
    /// way down stops it.
    async fn work(
        &self,
        name: &str,
        exercise: Exercise,
        target: &Path,
        problem: String,
    ) -> Result<Option<Exercised>, Error> {
        let started = Instant::now();
        let path = target.to_owned();
        let (thread, result) = WriterThread::start(move |stop| exercise.run(&path, stop))
            .or_because("there is no thread to write with")?;
        let threads = &self.run.threads;
        threads.borrow_mut().push((thread, target.to_owned()));
        let limit = self.run.node.session.timeout().unwrap_or(Duration::MAX);
        let done = match timeout(limit, result).await {
            Ok(result) => result.map_err(io::Error::other).flatten(),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        match done {
            Ok(Some(done)) => {
                let text = exercise_text(&done);
                self.print(name, StepOutcome::Done, &text, started.elapsed())?;
                Ok(Some(done))
            }
            Ok(None) => {
                let why = "the volume does not show at the target path here: the driver mounts elsewhere, or has mounted nothing";
                self.skipped(name, why)?;
                Ok(None)
            }
            Err(error) => {
                self.print(name, StepOutcome::Failed, &text(target), started.elapsed())?;
                Err(Error::because(problem, &error).doing(name))
            }
        }
    }
}

/// The result of the work on the data, as text.
fn exercise_text(done: &Exercised) -> String {
    let mut text = String::new();
    if done.is_foreign {
        text.push_str("read only: the volume is not ours; ");
    }
    let size = csi_arguments::size::human(i64::try_from(done.bytes).unwrap_or(i64::MAX));
    text.push_str(&format!("{size}, checksum {:016x}", done.checksum));
    if done.target == TargetKind::Link {
        text.push_str(", through a symbolic link");
    }
    text
}
