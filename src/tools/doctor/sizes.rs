//! Sizes: whether the sizes are enforced, as far as the driver says so.
//!
//! CSI has no field for that. A driver may say it in the message of a volume's condition, after a semicolon: "its size is enforced",
//! or "its size is advisory" and why. That is quoted. Of a driver that says nothing of the kind, nothing is claimed.

use super::driver::VolumesSeen;
use super::finding::Finding;
use std::collections::BTreeMap;

const CHECK: &str = "sizes";

/// How what a driver says of a size begins.
const BEGINNING: &str = "its size is ";

/// How many different words are quoted.
const QUOTED: usize = 3;

/// What the driver says of the sizes of its volumes, where these are known.
pub fn finding(volumes: Option<&VolumesSeen>) -> Finding {
    let Some(volumes) = volumes else {
        return Finding::unknown(CHECK, "its volumes are not known");
    };
    let mut counts = BTreeMap::<&str, usize>::new();
    for said in volumes.seen.iter().filter_map(|it| said(&it.condition)) {
        *counts.entry(said).or_default() += 1;
    }
    if counts.is_empty() {
        return Finding::unknown(
            CHECK,
            match volumes.seen.is_empty() {
                true => "there are no volumes",
                false => "the driver does not say whether sizes are enforced",
            },
        );
    }
    let silent = volumes.seen.len() - counts.values().sum::<usize>();
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more: usize = counts.iter().skip(QUOTED).map(|(_, count)| count).sum();
    let quoted = counts.iter().take(QUOTED);
    let mut words: Vec<String> = quoted
        .map(|(said, count)| format!("{count} {said}"))
        .collect();
    for (count, what) in [(more, "otherwise"), (silent, "about which it says nothing")] {
        if count > 0 {
            words.push(format!("{count} {what}"));
        }
    }
    Finding::fine(CHECK, format!("{}: {}", volumes.count(), words.join("; ")))
}

/// What a condition says of the size; not by what it is enforced, in which volumes differ.
fn said(condition: &str) -> Option<&str> {
    let said = condition
        .split("; ")
        .find_map(|part| part.strip_prefix(BEGINNING))?;
    said.split(", by ").next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::driver::VolumeSeen;
    use crate::tools::doctor::finding::State;

    #[test]
    fn what_a_driver_says_of_sizes_is_quoted_and_nothing_else_is_claimed() {
        const FINE: &str = "the volume's folder is on the share";
        let seen = |conditions: &[&str]| {
            let conditions = conditions.iter();
            let seen = conditions.map(|condition| VolumeSeen {
                condition: (*condition).to_owned(),
                ..VolumeSeen::default()
            });
            VolumesSeen {
                seen: seen.collect(),
                go_on: false,
            }
        };
        let of = |size: &str| format!("{FINE}; its size is {size}");
        let (one, other) = (of("enforced, by project 7"), of("enforced, by project 8"));
        let advisory = of("advisory: btrfs has no project quotas");
        let full = "it is full: remove something in it; its size is enforced, by project 9";
        let many: Vec<String> = (0..5).map(|it| of(&format!("advisory: {it}"))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (conditions, state, expected) in [
            (&[][..], State::Unknown, "there are no volumes"),
            (&[FINE, ""], State::Unknown, "does not say"),
            // No driver's words about something else.
            (&["the size is enforced"], State::Unknown, "does not say"),
            (&[&one], State::Fine, "1 volume: 1 enforced"),
            (
                &[FINE, &advisory, &one, full, &other],
                State::Fine,
                "5 volumes: 3 enforced; 1 advisory: btrfs has no project quotas; 1 about which it says nothing",
            ),
            (
                &many,
                State::Fine,
                "5 volumes: 1 advisory: 0; 1 advisory: 1; 1 advisory: 2; 2 otherwise",
            ),
        ] {
            let found = finding(Some(&seen(conditions)));
            assert_eq!(found.state, state, "{found:?}");
            assert!(found.text.contains(expected), "{found:?}");
        }
        assert_eq!(finding(None).state, State::Unknown);
    }
}
