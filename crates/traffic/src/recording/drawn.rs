//! A recording as the data of a page, which `output::page` draws.

use super::{Recorded, Recording};
use csi_error::Error;
use csi_output::page::timeline::Timeline;
use csi_output::page::{PageFile, Readers};
use csi_output::recorded::Replayed;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What came of calls that were sent again, and how long each took, by their numbers.
pub(crate) type Replays = BTreeMap<u64, Replayed>;

/// The place of the page that `--html` names, where it names one: of a recording in a file, and for its owner alone.
///
/// # Errors
/// When no page can be written there, or it would take the recording's place.
pub fn page_of(html: Option<&PathBuf>, recording: &Path) -> Result<Option<PageFile>, Error> {
    let Some(html) = html else { return Ok(None) };
    let same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    };
    if same(html, recording) {
        let problem = format!("--html: {} is the recording itself", html.display());
        return Err(Error::usage(problem).hint("name another file for the page"));
    }
    PageFile::create(html, Readers::Owner).map(Some)
}

/// The timeline of a recording, with what came of its calls when they were sent again.
pub fn timeline(
    tool: &'static str,
    path: &Path,
    recording: &Recording,
    endpoint: Option<String>,
    mut replays: Replays,
) -> Timeline {
    let mut facts = vec![
        ("Driver", recording.target.clone()),
        ("Began", recording.started.clone()),
    ];
    facts.extend(endpoint.map(|endpoint| ("Sent again to", endpoint)));
    let cut = recording.is_cut;
    let note = cut.then(|| "The last call of the recording is cut off and left out.".to_owned());
    let name = path.file_name().unwrap_or(path.as_os_str());
    let calls = recording.calls.iter().map(|call| Recorded {
        replayed: replays.remove(&call.number),
        ..call.clone()
    });
    Timeline {
        tool,
        title: name.to_string_lossy().into_owned(),
        facts,
        notes: note.into_iter().collect(),
        calls: calls.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_output::recorded::RecordedOutcome;
    use csi_output::recorded::ReplayOutcome;
    use csi_proto::methods;
    use std::time::Duration;

    fn recorded(number: u64, outcome: RecordedOutcome) -> Recorded {
        Recorded {
            number,
            path: "/own.v1.Service/Method".to_owned(),
            method: methods::by_name("Probe").filter(|_| number == 1),
            outcome,
            ..Recorded::default()
        }
    }

    #[test]
    fn every_end_of_a_call_has_its_words() {
        let answered = |code: &str| RecordedOutcome {
            by: None,
            code: code.to_owned(),
            message: "m".to_owned(),
        };
        let ended = |by: &str, code: &str| RecordedOutcome {
            by: Some(by.to_owned()),
            message: "why".to_owned(),
            ..answered(code)
        };
        let recording = Recording {
            target: "unix:///s".to_owned(),
            started: "then".to_owned(),
            calls: vec![
                recorded(1, answered("OK")),
                recorded(2, answered("ABORTED")),
                recorded(3, ended("caller", "CANCELLED")),
                recorded(4, ended("caller", "DEADLINE_EXCEEDED")),
                recorded(5, ended("proxy", "UNAVAILABLE")),
                recorded(6, ended("proxy", "")),
                recorded(7, ended("connection", "UNAVAILABLE")),
                recorded(8, ended("reset", "UNKNOWN")),
                recorded(9, ended("caller", "")),
            ],
            is_cut: true,
        };
        let replays = Replays::from([(2, (ReplayOutcome::Same, Duration::ZERO))]);
        let timeline = timeline(
            "csi replay",
            Path::new("/a/r.jsonl"),
            &recording,
            None,
            replays,
        );
        let found: Vec<_> = timeline
            .calls
            .iter()
            .map(|call| {
                (
                    call.name(),
                    call.outcome.in_words(),
                    call.outcome.is_ok(),
                    call.replayed.is_some(),
                )
            })
            .collect();
        let own = "/own.v1.Service/Method";
        let found: Vec<_> = found
            .iter()
            .map(|(name, end, ok, again)| (name.as_str(), end.as_str(), *ok, *again))
            .collect();
        assert_eq!(
            found,
            [
                ("Identity/Probe", "OK", true, false),
                (own, "ABORTED", false, true),
                (own, "CANCELLED by the caller", false, false),
                (
                    own,
                    "DEADLINE_EXCEEDED by the caller, whose deadline had passed",
                    false,
                    false
                ),
                (own, "UNAVAILABLE by the proxy", false, false),
                (own, "never answered, by the proxy", false, false),
                (
                    own,
                    "UNAVAILABLE by the connection, which broke",
                    false,
                    false
                ),
                (own, "ended by the driver without a status", false, false),
                (own, "ended by the caller", false, false),
            ]
        );
        assert!(
            timeline.calls[2..]
                .iter()
                .all(|call| call.outcome.message == "why")
        );
        assert_eq!(
            (timeline.title.as_str(), timeline.notes.len()),
            ("r.jsonl", 1)
        );
    }

    #[test]
    fn a_page_never_takes_the_place_of_its_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        std::fs::write(&path, "").unwrap();
        let roundabout = folder.path().join("./r.jsonl");
        for html in [&path, &roundabout] {
            let error = page_of(Some(html), &path).unwrap_err();
            let text = error.render(csi_error::Style::Text);
            assert!(text.contains("is the recording itself"), "{text}");
        }
        let other = folder.path().join("r.html");
        assert!(page_of(Some(&other), &path).unwrap().is_some());
        assert!(page_of(None, &path).unwrap().is_none());
    }
}
