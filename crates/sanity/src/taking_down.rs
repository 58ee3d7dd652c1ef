//! Notes what a case makes, also in the journal, and takes it down at the end. Every call is watched: a case need not
//! list what it makes, and what a driver makes by mistake goes too.
//!
//! What is noted and how it is taken back is `undo`'s; the file is `journal.rs`'s.

use super::call_times::CallTimes;
use super::losses::Loss;
use super::paths::mounts_below;
use super::room::Shortage;
use super::run::Run;
use super::steps::{Call, Step, StepAnswer};
use super::verdict::{Failure, Stop, Verdict, status_text};
use bytes::Bytes;
use csi_call::session::{CallError, Lost, had_no_answer};
use csi_output::shell_word::word;
use csi_proto::lock::lock;
use csi_proto::schema::Method;
use csi_undo::made::{Item, Made};
use csi_undo::requests::with_secrets;
use csi_undo::taking_back::{Called, TakingBack, Tool, Why};
use csi_undo::tries::Tries;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tonic::Code;

/// The time limit for removing a folder: what is mounted there may not answer.
const FOLDER: Duration = Duration::from_secs(10);

/// The longest time limit of a call, where calls have no limit.
const CALL_AT_MOST: Duration = Duration::from_secs(600);

/// The part of its time, and the least, that an RPC has to take something down while it hangs.
const BRIEF_PART: u32 = 10;
const BRIEF_AT_LEAST: Duration = Duration::from_secs(1);

/// More codes after which a call that takes something down is made again.
const ALSO_AFTER: &[Code] = &[
    Code::Cancelled,
    Code::Unknown,
    Code::Internal,
    Code::DataLoss,
    // What is in use may be let go.
    Code::FailedPrecondition,
    // Of a limit of calls at a time.
    Code::ResourceExhausted,
];

/// The items that one case has made, or a run before this one.
pub struct MadeItems {
    run: Arc<Run>,
    /// The number and the name of the case, when it is one of this run.
    case: Option<(usize, String)>,
    list: Mutex<Made>,
    /// The first call in which the driver went away, also of those that take something down.
    pub(super) lost: OnceLock<Loss>,
    /// The items that could not be taken down, with the reasons.
    problems: Mutex<Vec<String>>,
    /// What the driver lacked for that.
    shortage: Mutex<Option<Shortage>>,
    /// The calls that took something down, and the folders that were removed.
    tidied: Mutex<Vec<Step>>,
}

impl MadeItems {
    /// What one case of the run has made, or these items of an earlier run where there is no case.
    pub(super) fn of(run: &Arc<Run>, case: Option<(usize, String)>, items: &[Item]) -> Self {
        let mut list = Made::default();
        for item in items {
            list.add(item.clone());
        }
        Self {
            run: Arc::clone(run),
            case,
            list: Mutex::new(list),
            lost: OnceLock::new(),
            problems: Mutex::default(),
            shortage: Mutex::default(),
            tidied: Mutex::default(),
        }
    }

    /// Notes what a call may make, before it is sent. The number of that, when it makes something.
    ///
    /// # Errors
    /// When the journal cannot be written: then the call must not be made.
    pub(super) fn asked(
        &self,
        method: &'static Method,
        request: &Bytes,
    ) -> Result<Option<u64>, Stop> {
        let mut list = lock(&self.list);
        let Some(number) = list.asked(method, request) else {
            return Ok(None);
        };
        let written = self.write(&list, number);
        if written.is_err() {
            list.withdrawn(number);
        }
        written.map(|()| Some(number))
    }

    /// Notes a folder that is about to be made.
    ///
    /// # Errors
    /// When the journal cannot be written: then it must not be made.
    pub(super) fn folder(&self, path: &Path) -> Verdict {
        let mut list = lock(&self.list);
        let number = list.add(Item::Folder(path.to_owned()));
        self.write(&list, number)
    }

    fn write(&self, list: &Made, number: u64) -> Verdict {
        let Some((case, _)) = &self.case else {
            return Ok(());
        };
        let written = self.run.journal.write(*case, number, list.get(number));
        written.map_err(|error| {
            // The driver is not to blame for that; a run that could try nothing must not pass.
            let problem = format!("the journal of what is made cannot be written: {error}");
            lock(&self.run.incomplete).insert(problem.clone());
            Stop::Skipped(problem)
        })
    }

    /// Notes what became of a call.
    pub(super) fn answered(
        &self,
        number: Option<u64>,
        method: &Method,
        request: &Bytes,
        answer: &StepAnswer,
    ) {
        let (code, reply) = match answer {
            Ok(reply) => (Code::Ok, reply),
            Err(code) => (*code, &Bytes::new()),
        };
        let mut list = lock(&self.list);
        let mut changed = match number {
            Some(number) => list.answered(number, request, code, reply),
            None => Vec::new(),
        };
        if code == Code::Ok {
            changed.extend(list.undone(method, request));
        }
        for number in changed {
            // What is not gone according to the file is taken down twice at worst.
            let _ = self.write(&list, number);
        }
    }

    /// Notes what is left of an earlier run in the journal of this one, with the folder of that run; whether all of it is noted.
    pub(super) fn hand_over(&self, folder: &Path) -> bool {
        let mut list = lock(&self.list);
        list.add(Item::Folder(folder.to_owned()));
        let mut all = list.all();
        all.all(|(_, item)| self.run.journal.take_over(item).is_ok())
    }

    /// Takes everything down; what could not be, and why.
    pub(super) async fn take_down(&self) -> Vec<String> {
        let limit = self.run.settings.timeout.min(CALL_AT_MOST);
        let tries = Tries {
            also_after: ALSO_AFTER,
            pending: limit,
            answers_or_never: true,
            ..Tries::within(Some(limit))
        };
        TakingBack::new(self, &self.list, tries).all(1).await;
        std::mem::take(&mut *lock(&self.problems))
    }

    /// Leaves items to the next try of the case. To ask again at once for what may not be there could drive the driver away again.
    pub(super) fn postpone(&self, which: impl Fn(&Item) -> bool) {
        let Some((_, case)) = &self.case else { return };
        let items: Vec<(u64, Item)> = {
            let list = lock(&self.list);
            let all = list.all().filter(|(_, item)| which(item));
            all.map(|(number, item)| (number, item.clone())).collect()
        };
        for (number, item) in items {
            self.forget(number);
            lock(&self.run.postponed).push((case.clone(), item));
        }
    }

    /// Takes over what the tries before this one have left.
    pub(super) fn take_postponed(&self) {
        let Some((_, case)) = &self.case else { return };
        let mut postponed = lock(&self.run.postponed);
        let own = postponed.extract_if(.., |(of, _)| of == case);
        for (_, item) in own {
            let mut list = lock(&self.list);
            let number = list.add(item);
            // What is not in the file is left where this run is killed.
            let _ = self.write(&list, number);
        }
    }

    /// What has been taken down since this was asked last.
    pub(super) fn take_tidied(&self) -> Vec<Step> {
        std::mem::take(&mut *lock(&self.tidied))
    }

    /// Notes that the driver went away, in a call or right after one; only the first time counts.
    pub(super) fn lose(&self, loss: impl FnOnce() -> Loss) -> Failure {
        self.lost.get_or_init(loss).failure.clone()
    }

    /// Whether an answer is the driver's last word on a request. An RPC that is not served has not made anything.
    fn is_refusal(&self, error: &CallError) -> bool {
        match error.status.code() {
            Code::Unavailable => {
                Lost::of(&error.status).is_none()
                    && !lock(&self.run.seen).worked.contains(error.method.name)
            }
            code => !matches!(
                code,
                Code::Aborted | Code::DeadlineExceeded | Code::Cancelled
            ),
        }
    }

    /// Notes that the driver lacked something for a call that takes something down.
    fn lacks(&self, error: &CallError) {
        let (method, status) = (error.method, &error.status);
        if Lost::of(status).is_none() {
            *lock(&self.shortage) = Shortage::of(method, &Bytes::new(), status, 0);
        }
    }

    /// What the driver lacked when something could not be taken down.
    pub(super) fn shortage(&self) -> Option<Shortage> {
        lock(&self.shortage).clone()
    }

    fn forget(&self, number: u64) {
        lock(&self.list).gone(number);
        self.changed(number);
    }
}

impl Tool for MadeItems {
    async fn call(
        &self,
        _lane: u64,
        method: &'static Method,
        request: Bytes,
        limit: Option<Duration>,
    ) -> Result<Bytes, CallError> {
        let hangs = lock(&self.run.seen).hangs(method);
        let brief = |limit: Duration| limit.min((limit / BRIEF_PART).max(BRIEF_AT_LEAST));
        let limit = limit.map(|limit| if hangs { brief(limit) } else { limit });
        let peer = self.run.peer(method);
        let request = with_secrets(method, &request, &self.run.settings.secrets);
        let session = peer.session.clone().with_timeout(limit);
        let begun = Instant::now();
        self.run.begins(method, &request);
        let timed = CallTimes::begins(&self.run.times, method, &request);
        let answer = session.call(method, request.clone()).await;
        drop(timed);
        let error = answer.as_ref().err().map(|error| &error.status);
        // The id of what is asked for to be taken down nobody else has seen.
        let ended = error.map_or(Ok(Bytes::new()), |status| Err(status.code()));
        lock(&self.run.given_ids).ends(method, &request, begun, &ended);
        if ended.is_err_and(|code| code == Code::Unavailable) {
            self.run.may_be_another();
        }
        let has_hung = error.is_some_and(|status| had_no_answer(status, limit, begun.elapsed()));
        {
            let mut seen = lock(&self.run.seen);
            seen.had_time(method, has_hung);
            if answer.is_ok() {
                seen.worked.insert(method.name);
            }
        }
        if has_hung && hangs {
            let name = method.name;
            let told = format!("{name} hangs: it had less time to take something down");
            lock(&self.run.incomplete).insert(told);
        }
        let lost = error.and_then(Lost::of);
        if let (Some(lost), Some((_, case))) = (lost, &self.case) {
            self.lose(|| self.run.lost(case, method, &request, lost));
        }
        answer.map(tonic::Response::into_inner)
    }

    async fn remove(&self, folder: &Path) -> io::Result<()> {
        let path = folder.to_owned();
        let removed = tokio::task::spawn_blocking(move || remove_folder(&path));
        let lines = match tokio::time::timeout(FOLDER, removed).await {
            Ok(removed) => removed.map_err(io::Error::other)??,
            Err(_) => return Err(io::Error::other("it does not answer")),
        };
        lock(&self.tidied).extend(lines.into_iter().map(Step::Shell));
        Ok(())
    }

    fn called(&self, call: &Called<'_>) {
        // What could not be had again is nothing to repeat.
        if call.asks && call.error.is_some() {
            return;
        }
        let answer = match call.error {
            Some(error) => Err(error.status.code()),
            None => Ok(call.reply.cloned().unwrap_or_default()),
        };
        // Where they are is shown with the call.
        let request = with_secrets(call.method, call.request, &self.run.settings.secrets);
        let step = Call::over(call.method, request, answer);
        lock(&self.tidied).push(Step::Call(step));
    }

    fn changed(&self, number: u64) {
        // As after an answer: it is taken down twice at worst.
        let _ = self.write(&lock(&self.list), number);
    }

    fn stays(&self, number: u64, item: &Item, why: Why) {
        let is_asked = matches!(item, Item::Asked { .. });
        let problem = match why {
            // The driver makes no such thing. Whatever it has left, nobody will learn its id.
            Why::NoId(_) => return self.forget(number),
            Why::Failed(error) if is_asked && self.is_refusal(&error) => {
                return self.forget(number);
            }
            Why::Failed(error) => {
                self.lacks(&error);
                format!("could not be taken down: {}", status_text(&error.status))
            }
            Why::NotRemoved(error) => format!("could not be taken down: {error}"),
            Why::InUse => "stays, because it is still in use".to_owned(),
            Why::Silent => "stays, because the driver does not answer".to_owned(),
        };
        lock(&self.problems).push(format!("{item} {problem}"));
    }
}

/// Removes a folder of ours with what the driver left in it; the lines of a shell that do so. A mount there is nobody else's;
/// where it cannot be unmounted, all stays.
fn remove_folder(path: &Path) -> io::Result<Vec<String>> {
    let text = path.to_string_lossy();
    let mut lines = Vec::new();
    // One on top of another, or in it, goes first.
    for mount in mounts_below(path).iter().rev() {
        unmount(mount, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).map_err(|error| {
            let problem = format!("{} is still mounted: {error}", mount.display());
            io::Error::new(io::ErrorKind::ResourceBusy, problem)
        })?;
        lines.push(format!("umount -l {}", word(&mount.to_string_lossy())));
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            fs::remove_dir_all(path)?;
            // Never through a mount.
            let (inside, text) = (word(&format!(" {text}/")), word(&text));
            lines.push(format!(
                "grep -qF {inside} /proc/self/mountinfo || rm -r {text}"
            ));
        }
        other => {
            other?;
            lines.push(format!("rmdir {}", word(&text)));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::mount_bind;
    use std::path::PathBuf;

    #[test]
    fn what_a_driver_has_left_in_a_folder_goes_with_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.join("target")).unwrap();
            path
        };
        let full = folder("full");
        let removes = |path: &Path| {
            let path = path.display();
            format!("grep -qF ' {path}/' /proc/self/mountinfo || rm -r {path}")
        };
        assert_eq!(remove_folder(&full).unwrap(), [removes(&full)]);
        let (storage, mounted) = (folder("storage"), folder("mounted"));
        fs::write(storage.join("data"), "kept").unwrap();
        // Only who may mount can have left a mount.
        if mount_bind(&storage, mounted.join("target")).is_ok() {
            let umounts = format!("umount -l {}/target", mounted.display());
            let lines = remove_folder(&mounted).unwrap();
            assert_eq!(lines, [umounts, removes(&mounted)]);
            assert_eq!(mounts_below(place.path()), [] as [PathBuf; 0]);
            assert!(!mounted.exists());
            assert_eq!(fs::read_to_string(storage.join("data")).unwrap(), "kept");
        }
    }
}
