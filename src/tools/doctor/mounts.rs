//! Finds out whether mounts answer. Each is asked in a thread of its own, which nobody joins: one that hangs holds nobody up.

use super::finding::Finding;
use csi_output::figure::some;
use rustix::fs::statfs;
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const CHECK: &str = "mounts";

/// The stack of a thread that asks one question.
const STACK: usize = 64 << 10;

/// How many are named.
const NAMED: usize = 5;

/// What became of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It answers.
    Answers,
    /// It answers with an error.
    Fails(String),
    /// It does not answer within the time.
    Hangs,
    /// It was not asked, or not for an answer that says anything of it.
    Unasked(String),
}

/// Asks each mount by statfs(2), all at a time; none is waited for longer than `limit`.
pub fn ask(points: &[PathBuf], limit: Duration) -> Vec<(PathBuf, Answer)> {
    ask_by(points, limit, |point| match statfs(point) {
        Ok(_) => Answer::Answers,
        // Of the path, not of the mount.
        Err(error @ (Errno::ACCESS | Errno::PERM)) => Answer::Unasked(error.to_string()),
        Err(error) => Answer::Fails(error.to_string()),
    })
}

fn ask_by(
    points: &[PathBuf],
    limit: Duration,
    question: fn(&PathBuf) -> Answer,
) -> Vec<(PathBuf, Answer)> {
    let (answer, answers) = mpsc::channel();
    let mut found: Vec<(PathBuf, Answer)> = Vec::new();
    for (place, point) in points.iter().enumerate() {
        let (answer, asked) = (answer.clone(), point.clone());
        let started = thread::Builder::new().stack_size(STACK).spawn(move || {
            // Nobody may wait any more.
            let _ = answer.send((place, question(&asked)));
        });
        let state = match started {
            Ok(_) => Answer::Hangs,
            Err(error) => Answer::Unasked(error.to_string()),
        };
        found.push((point.clone(), state));
    }
    // So that the channel ends with the last thread.
    drop(answer);
    let end = Instant::now() + limit;
    while let Ok((place, answer)) =
        answers.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        found[place].1 = answer;
    }
    found
}

/// What the answers mean.
pub fn finding(asked: &[(PathBuf, Answer)]) -> Finding {
    let named = |wanted: fn(&Answer) -> bool| {
        let bad = asked.iter().filter(|(_, answer)| wanted(answer));
        let shown = bad.map(|(point, answer)| match answer {
            Answer::Fails(error) | Answer::Unasked(error) => {
                format!("{} ({error})", point.display())
            }
            _ => point.display().to_string(),
        });
        let shown: Vec<String> = shown.collect();
        (shown.len(), some(&shown, NAMED))
    };
    let (hanging, which) = named(|answer| *answer == Answer::Hangs);
    if hanging > 0 {
        return Finding::wrong(
            CHECK,
            format!("{hanging} of {} do not answer: {which}", asked.len()),
            "is the storage's server up and reachable? `umount -f` or `umount -l` takes away what never comes back",
        );
    }
    let (failing, which) = named(|answer| matches!(answer, Answer::Fails(_)));
    if failing > 0 {
        return Finding::wrong(
            CHECK,
            format!("{failing} of {} fail: {which}", asked.len()),
            "unpublish the volume there and publish it again: restart the pod that uses it",
        );
    }
    let (unasked, which) = named(|answer| matches!(answer, Answer::Unasked(_)));
    if unasked > 0 {
        return Finding::unknown(
            CHECK,
            format!(
                "{unasked} of {} may not be looked at by this user: {which}",
                asked.len()
            ),
        );
    }
    match asked.len() {
        0 => Finding::fine(CHECK, "none of this driver are visible here"),
        1 => Finding::fine(CHECK, "the one of this driver answers"),
        count => Finding::fine(CHECK, format!("all {count} of this driver answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::finding::State;

    #[test]
    fn mounts_are_judged_by_their_answers() {
        let point = |answer| (PathBuf::from("/m"), answer);
        let stale = || Answer::Fails("Stale file handle".into());
        for (asked, state, part) in [
            (vec![], State::Fine, "none of this driver"),
            (vec![point(Answer::Answers)], State::Fine, "the one"),
            (vec![point(Answer::Answers); 3], State::Fine, "all 3"),
            (
                vec![point(stale()), point(Answer::Answers)],
                State::Wrong,
                "1 of 2 fail: /m (Stale",
            ),
            (
                vec![point(stale()), point(Answer::Hangs)],
                State::Wrong,
                "1 of 2 do not answer: /m",
            ),
            (vec![point(Answer::Hangs); 7], State::Wrong, "and 2 more"),
            (
                vec![
                    point(Answer::Unasked("denied".into())),
                    point(Answer::Answers),
                ],
                State::Unknown,
                "1 of 2 may not be looked at by this user: /m (denied)",
            ),
        ] {
            let finding = finding(&asked);
            assert_eq!(finding.state, state, "{finding:?}");
            assert!(finding.text.contains(part), "{finding:?}");
        }
    }

    #[test]
    fn one_that_hangs_holds_nobody_up() {
        let answers = |limit: u64| -> Vec<Answer> {
            let asked = ask_by(
                &["/hangs".into(), "/fails".into(), "/".into()],
                Duration::from_millis(limit),
                |point| match point.to_str() {
                    Some("/hangs") => loop {
                        thread::park();
                    },
                    Some("/fails") => Answer::Fails("no".to_owned()),
                    _ => Answer::Answers,
                },
            );
            asked.into_iter().map(|(_, answer)| answer).collect()
        };
        let expected = [Answer::Hangs, Answer::Fails("no".into()), Answer::Answers];
        // On a busy machine the others may not have run in a short time.
        let mut limits = [200, 2000, 20_000].into_iter();
        assert!(limits.any(|limit| answers(limit) == expected));
        let asked = ask(
            &["/proc".into(), "/nowhere".into()],
            Duration::from_secs(20),
        );
        assert_eq!(asked[0].1, Answer::Answers);
        assert!(matches!(asked[1].1, Answer::Fails(_)));
    }
}
