//! Runs a lifecycle: the order of its steps, several volumes at once, and the effect of a signal.

use super::calls::{Lifecycle, StepRunner};
use super::plan::{Further, Plan};
use super::volume::{Placed, Volume};
use csi_call::Advertised;
use csi_error::{Error, ErrorKind, say};
use csi_invocation::interrupt::Signals;
use csi_proto::lock;
use futures_util::future::try_join_all;
use std::io::Write;
use std::pin::pin;

impl<W: Write> Lifecycle<'_, W> {
    /// Goes all the way up and down again. A signal ends the way up; one more, or two on the way down, end that too.
    ///
    /// # Errors
    /// The first failure; everything that was done before it has been undone, or said to be left.
    pub async fn run(&self, signals: &mut Signals) -> Result<(), Error> {
        let way_up = tokio::select! {
            result = self.up() => result,
            () = signals.next() => Err(Error::interrupted()),
        };
        let mut asked = matches!(&way_up, Err(error) if error.kind() == ErrorKind::Interrupted);
        let nothing = lock(&self.made).all().next().is_none();
        match (&way_up, nothing) {
            (Err(_), false) if asked => {
                say!("note: undoing what was done; Ctrl-C again stops that too");
            }
            (Err(_), false) => say!("note: undoing what was done"),
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
                        say!("note: still undoing what was done; Ctrl-C again stops that too");
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

    /// The first failure ends the ways of all volumes; an abnormal volume is one that is told when all have gone theirs.
    async fn up(&self) -> Result<(), Error> {
        let advertised = self.runner(None, Advertised::default()).ask().await?;
        let plan = &Plan::of(&self.flags.wishes(), &advertised);
        self.make_folder()?;
        let numbers: Vec<Option<usize>> = match self.flags.count {
            1 => vec![None],
            count => (1..=count as usize).map(Some).collect(),
        };
        let runs = numbers.into_iter().map(|number| {
            let runner = self.runner(number, advertised.clone());
            async move { runner.up(plan).await }
        });
        let abnormal = try_join_all(runs).await?;
        abnormal.into_iter().flatten().next().map_or(Ok(()), Err)
    }
}

impl<W: Write> StepRunner<'_, '_, W> {
    /// One volume's way; that the volume is abnormal, where it is. What fails then is told, and follows from that.
    async fn up(&self, plan: &Plan) -> Result<Option<Error>, Error> {
        let placed = &self.place("")?;
        let mut volume = self.volume().await?;
        let done = self.steps(plan, &mut volume, placed).await;
        match (done, volume.abnormal) {
            (Ok(()), abnormal) => Ok(abnormal),
            (Err(error), Some(abnormal)) if error.kind() != ErrorKind::Interrupted => {
                self.run.report(&error);
                Err(abnormal)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// What is done to one volume.
    async fn steps(&self, plan: &Plan, volume: &mut Volume, placed: &Placed) -> Result<(), Error> {
        self.look_at_condition(plan, volume).await?;
        let plan = plan.of_volume(volume.abnormal.is_some());
        let mut at_node = None;
        if plan.has(Further::Expand) && !plan.expands_online {
            let expanded = self.expand(volume).await;
            at_node = expanded.map_err(plan.skipped_by(Further::Expand))?;
        }
        self.bring(volume, placed).await?;
        self.expand_at_node(volume, placed, at_node)
            .await
            .map_err(plan.skipped_by(Further::Expand))?;
        let written = self.write_and_read(&plan, volume, placed).await?;
        self.look(&plan, volume, placed).await?;
        let plan = plan.of_volume(volume.abnormal.is_some());
        for (step, why) in &plan.left_out {
            self.skipped(step.name(), why)?;
        }
        if plan.has(Further::Expand) && plan.expands_online {
            let expanded = async {
                let size = self.expand(volume).await?;
                self.expand_at_node(volume, placed, size).await
            };
            expanded.await.map_err(plan.skipped_by(Further::Expand))?;
        }
        let mut snapshot = None;
        if plan.has(Further::Snapshot) {
            let taken = self.snapshot(volume).await;
            snapshot = Some(taken.map_err(plan.skipped_by(Further::Snapshot))?);
        }
        if let (true, Some(snapshot)) = (plan.has(Further::Restore), snapshot) {
            let restored = async {
                let mut copy = self.restore(volume, &snapshot).await?;
                self.check_copy(&mut copy, "restored", written).await
            };
            restored.await.map_err(plan.skipped_by(Further::Restore))?;
        }
        if plan.has(Further::Clone) {
            let cloned = async {
                let mut copy = self.clone_of(volume).await?;
                self.check_copy(&mut copy, "clone", written).await
            };
            cloned.await.map_err(plan.skipped_by(Further::Clone))?;
        }
        if plan.steps.iter().any(|step| *step != Further::Stats) {
            self.look(&plan, volume, placed).await?;
        }
        Ok(())
    }

    /// Brings a volume to the node, until it can be used.
    pub(super) async fn bring(&self, volume: &mut Volume, placed: &Placed) -> Result<(), Error> {
        self.publish_by_controller(volume).await?;
        let staged = self.stage(volume, &placed.staging).await?;
        let staging = staged.then_some(&placed.staging);
        self.publish(volume, staging, &placed.target).await
    }

    /// A volume that was made of another is brought to the node too, and the data is looked for there.
    async fn check_copy(
        &self,
        copy: &mut Volume,
        name: &str,
        written: Option<u64>,
    ) -> Result<(), Error> {
        let placed = self.place(name)?;
        self.bring(copy, &placed).await?;
        match written {
            Some(checksum) => self.find_data(&placed, checksum).await,
            None => self.skipped("find the data", "none was written that could be found"),
        }
    }
}
