//! The page of a recording: its calls in parallel lanes over time, and below them one by one, with request and reply.

mod axis;

use super::{Page, filter};
use crate::load::{count, time};
use crate::recorded::{Recorded, ReplayOutcome};
use crate::{figure, json};
use axis::{Cut, TimeAxis};
use csi_proto::escaped;
use maud::{Markup, html};
use serde_json::{Value as Json, json as object};
use std::time::Duration;

pub(super) const SCRIPT: &str = include_str!("timeline.js");

/// The most calls on a page: more of them no browser shows well, and nobody looks at.
const MOST: usize = 5_000;

/// The room of a call, in pixels, where there are many.
const ROOM: usize = 6;

/// The part of the width that words on the axis need.
const APART: f64 = 0.16;

/// A recording, as it is shown.
#[derive(Debug, Default)]
pub struct Timeline {
    /// The tool that shows it.
    pub tool: &'static str,
    /// The file's name.
    pub title: String,
    /// What the reader must know: names and values.
    pub facts: Vec<(&'static str, String)>,
    /// What is missing or was left out.
    pub notes: Vec<String>,
    /// The calls, in the order of their beginning.
    pub calls: Vec<Recorded>,
}

impl Recorded {
    fn span(&self) -> (Duration, Duration) {
        (self.at, self.end())
    }

    /// The kinds for the filter: also the styles of the call.
    fn kinds(&self) -> String {
        let mut kinds = vec![if self.outcome.is_ok() { "ok" } else { "failed" }];
        kinds.extend(self.injected.as_ref().map(|_| "injected"));
        kinds.extend(self.replayed.as_ref().map(|(outcome, _)| kind_of(outcome)));
        kinds.join(" ")
    }
}

fn kind_of(outcome: &ReplayOutcome) -> &'static str {
    match outcome {
        ReplayOutcome::Same => "same",
        ReplayOutcome::Different(_) => "different",
        ReplayOutcome::NotCompared(_) => "not-compared",
        ReplayOutcome::Skipped(_) => "not-sent",
    }
}

/// The words for the kinds of calls.
const KINDS: [(&str, &str); 6] = [
    ("different", "answered otherwise"),
    ("not-compared", "not compared"),
    ("not-sent", "not sent"),
    ("same", "the same"),
    ("failed", "not OK"),
    ("injected", "disturbed"),
];

/// The page.
pub fn page(timeline: &Timeline) -> Page {
    let all = &timeline.calls;
    let calls = &all[..all.len().min(MOST)];
    let failed = all.iter().filter(|call| !call.outcome.is_ok()).count();
    let mut facts = timeline.facts.clone();
    facts.push(("Calls", count(all.len() as u64)));
    facts.push(("Not OK", count(failed as u64)));
    let end = all.iter().map(Recorded::end).max().unwrap_or_default();
    let begin = all.first().map_or(Duration::ZERO, |call| call.at);
    facts.push(("Lasted", time(end.saturating_sub(begin))));
    let in_kind = |kind: &str| {
        calls
            .iter()
            .filter(|call| call.kinds().split(' ').any(|one| one == kind))
            .count()
    };
    let kinds = KINDS.map(|(kind, words)| (kind, words, in_kind(kind)));
    Page {
        tool: timeline.tool,
        title: timeline.title.clone(),
        facts,
        body: html! {
            @for note in &timeline.notes { p.note { (note) } }
            @if calls.len() < all.len() {
                p.note { "The first " (count(calls.len() as u64)) " of " (count(all.len() as u64)) " calls." }
            }
            @if calls.is_empty() { p.muted { "There are no calls." } } @else {
                (filter("Search methods, codes, ids and all other texts", &kinds))
                (drawn(calls))
                section.calls {
                    @for call in calls { (row(call)) }
                }
            }
        },
        data: object!({ "calls": calls.iter().map(data).collect::<Vec<_>>() }),
        script: SCRIPT,
    }
}

/// The lanes.
fn drawn(calls: &[Recorded]) -> Markup {
    let spans: Vec<_> = calls.iter().map(Recorded::span).collect();
    let axis = TimeAxis::of(&spans);
    let placed = lanes(&spans);
    let lanes = placed.iter().max().map_or(0, |most| most + 1);
    let room = calls.len() * ROOM;
    let percent = |place: f64| format!("{:.4}%", place * 100.0);
    html! {
        section.timeline tabindex="0" aria-label="calls over time" {
            div.lanes style={ "min-width:" (room) "px" } {
                @let labelled = labelled(axis.cuts());
                @for cut in axis.cuts() {
                    div.cut style={ "left:" (percent(cut.left)) ";width:" (percent(cut.right - cut.left)) }
                        title={ "nothing for " (time(cut.time)) } { @if labelled.contains(&cut) { span { (time(cut.time)) } } }
                }
                @for lane in 0..lanes {
                    div.lane {
                        @for ((call, (from, to)), _) in calls.iter().zip(&spans).zip(&placed).filter(|(_, of)| **of == lane) {
                            @let (left, right) = (axis.place(*from), axis.place(*to));
                            a.bar.(call.kinds()) href={ "#call-" (call.number) } data-call=(call.number)
                                style={ "left:" (percent(left)) ";width:" (percent(right - left)) }
                                title={ "#" (call.number) " " (call.name()) ": " (call.outcome.in_words()) ", " (time(call.took)) } {
                                @if right - left > 0.05 { (short(&call.name())) }
                            }
                        }
                    }
                }
                div.times {
                    @for (place, at) in axis.words(APART) {
                        span.last[place >= 1.0] style={ "left:" (percent(place)) } { (time(at)) }
                    }
                }
            }
        }
    }
}

/// The idle times that have words: the longest, where they have the room.
fn labelled(cuts: impl Iterator<Item = Cut>) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = cuts.collect();
    cuts.sort_by_key(|cut| std::cmp::Reverse(cut.time));
    let mut labelled: Vec<Cut> = Vec::new();
    for cut in cuts {
        if labelled
            .iter()
            .all(|one| (one.left - cut.left).abs() >= APART)
        {
            labelled.push(cut);
        }
    }
    labelled
}

/// The RPC without its service.
fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A call with all that was said. What is large is written by the script, when somebody opens it.
fn row(call: &Recorded) -> Markup {
    html! {
        details.item.call.(call.kinds()) id={ "call-" (call.number) } data-call=(call.number) data-kinds=(call.kinds()) {
            summary {
                span.n.muted { "#" (call.number) }
                span.name { @for (index, part) in call.name().split('/').enumerate() { @if index > 0 { "/" wbr; } (part) } }
                span.end { (call.outcome.in_words()) @if let Some((outcome, _)) = &call.replayed { " " span.verdict { (verdict(outcome)) } } }
                span.n.muted.at { (time(call.at)) }
                span.n { (time(call.took)) }
            }
            div.inside {
                @if !call.outcome.message.is_empty() { p.text { (call.outcome.message) } }
                @if let Some(fault) = &call.injected { p.note { "Done on purpose: " (fault) } }
                @if let Some((outcome, took)) = &call.replayed { (replayed(outcome, *took)) }
            }
        }
    }
}

fn verdict(outcome: &ReplayOutcome) -> String {
    match outcome {
        ReplayOutcome::Same => "same".to_owned(),
        ReplayOutcome::Different(all) => figure::counted(all.len(), "difference"),
        ReplayOutcome::NotCompared(_) => "not compared".to_owned(),
        ReplayOutcome::Skipped(_) => "not sent".to_owned(),
    }
}

fn replayed(outcome: &ReplayOutcome, took: Duration) -> Markup {
    html! {
        @match outcome {
            ReplayOutcome::Same => { p.muted { "Answered the same in " (time(took)) "." } }
            ReplayOutcome::NotCompared(why) => { p.muted { "Sent again and not compared: " (why) "." } }
            ReplayOutcome::Skipped(why) => { p.muted { "Not sent again: " (why) "." } }
            ReplayOutcome::Different(all) => {
                p { "Answered otherwise in " (time(took)) ":" }
                div.wide {
                    table.differences {
                        thead { tr { th { "At" } th { "Then" } th { "Now" } } }
                        tbody {
                            @for one in all { tr { td { (one.at) } td.text { (value(&one.recorded)) } td.text { (value(&one.now)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn value(json: &Json) -> String {
    match json {
        Json::Null => "nothing".to_owned(),
        json => json.to_string(),
    }
}

/// A call as the script reads it: its texts as they are shown.
fn data(call: &Recorded) -> Json {
    // What is JSON can be written.
    let text = |json: &Json| json::text(json).unwrap_or_default().trim_end().to_owned();
    let texts = |all: &[Json]| all.iter().map(text).collect::<Vec<_>>();
    object!({
        "call": call.number, "at": figure::seconds(call.at), "seconds": figure::seconds(call.took),
        "method": escaped(&call.name()), "end": call.outcome.in_words(), "kinds": call.kinds(), "requests": texts(&call.requests),
        "replies": texts(&call.replies),
    })
}

/// The lane of each span, in the order of their beginning: the first that is free then, so that calls at the same time stand beside
/// each other.
fn lanes(spans: &[(Duration, Duration)]) -> Vec<usize> {
    let mut ends: Vec<Duration> = Vec::new();
    let lane = |(from, to): &(Duration, Duration)| {
        let free = ends.iter().position(|end| end <= from);
        let lane = free.unwrap_or(ends.len());
        if free.is_none() {
            ends.push(Duration::ZERO);
        }
        // A call that took no time that could be measured is one nevertheless.
        ends[lane] = (*to).max(*from + Duration::from_nanos(1));
        lane
    };
    spans.iter().map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::{HOSTILE, elements};
    use crate::recorded::{Difference, RecordedOutcome};

    fn call(number: u64, from: u64, to: u64) -> Recorded {
        Recorded {
            number,
            at: Duration::from_millis(from),
            took: Duration::from_millis(to - from),
            path: "Controller/CreateVolume".to_owned(),
            outcome: RecordedOutcome {
                code: "OK".to_owned(),
                ..RecordedOutcome::default()
            },
            ..Recorded::default()
        }
    }

    #[test]
    fn whatever_was_recorded_stays_text() {
        let difference = Difference {
            at: HOSTILE.to_owned(),
            recorded: object!(HOSTILE),
            now: Json::Null,
        };
        let timeline = Timeline {
            tool: "csi replay",
            title: HOSTILE.to_owned(),
            notes: vec![HOSTILE.to_owned()],
            calls: vec![Recorded {
                path: HOSTILE.to_owned(),
                outcome: RecordedOutcome {
                    by: None,
                    code: HOSTILE.to_owned(),
                    message: HOSTILE.to_owned(),
                },
                injected: Some(HOSTILE.to_owned()),
                requests: vec![object!({HOSTILE: HOSTILE})],
                replayed: Some((ReplayOutcome::Different(vec![difference]), Duration::ZERO)),
                ..call(1, 0, 1)
            }],
            ..Timeline::default()
        };
        let document = page(&timeline).document("n0nce");
        assert_eq!(elements(&document, "script").len(), 2);
        assert_eq!(elements(&document, "details").len(), 1);
        assert!(
            document.contains("class=\"item call failed injected different\""),
            "{document}"
        );
    }

    #[test]
    fn every_call_has_a_bar_and_a_row() {
        let timeline = Timeline {
            calls: vec![call(1, 0, 10), call(2, 5, 8), call(3, 9, 20)],
            ..Timeline::default()
        };
        let document = page(&timeline).document("n0nce");
        let (bars, rows) = (elements(&document, "a"), elements(&document, "details"));
        assert_eq!((bars.len(), rows.len()), (3, 3));
        assert_eq!(document.matches("class=\"lane\"").count(), 2);
        assert!(
            document.contains("style=\"left:25.0000%;width:15.0000%\""),
            "{document}"
        );
    }

    #[test]
    fn a_page_has_an_end() {
        let calls = (0..MOST as u64 + 1).map(|number| call(number, number * 2, number * 2 + 1));
        let timeline = Timeline {
            calls: calls.collect(),
            ..Timeline::default()
        };
        let document = page(&timeline).document("n0nce");
        assert_eq!(elements(&document, "details").len(), MOST);
        assert!(document.contains("The first 5,000 of 5,001 calls."));
        let none = page(&Timeline::default()).document("n0nce");
        assert!(none.contains("There are no calls."));
    }
    #[test]
    fn a_call_takes_the_first_lane_that_is_free() {
        let ms = |(from, to)| (Duration::from_millis(from), Duration::from_millis(to));
        for (spans, expected) in [
            (&[][..], &[][..]),
            (&[(0, 1), (1, 2), (5, 6)], &[0, 0, 0]),
            (&[(0, 9), (1, 3), (2, 8), (3, 4), (9, 10)], &[0, 1, 2, 1, 0]),
            (&[(1, 1), (1, 1), (1, 2)], &[0, 1, 2]),
        ] {
            let spans: Vec<_> = spans.iter().copied().map(ms).collect();
            assert_eq!(lanes(&spans), expected);
        }
    }
}
