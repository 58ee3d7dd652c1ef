//! The page of a load: for each RPC its latency over time, its histogram, its percentiles and its figures; two drivers
//! beside each other, on the same axes.

use super::Page;
use super::chart::{Counts, Latencies, histogram, over_time, percentiles};
use crate::load::{
    LATENCIES, LoadReport, LoadRow, Ratio, SideReport, calls_were, count, per_second, time,
};
use maud::{Markup, html};
use serde_json::{Value as Json, json};
use std::time::Duration;

pub(super) const SCRIPT: &str = include_str!("load.js");

/// The styles of the drivers, which are their letters.
const LETTERS: [&str; 2] = ["a", "b"];

/// The page.
pub fn page(report: &LoadReport) -> Page {
    Page {
        tool: "csi bench",
        title: title(report),
        facts: facts(report),
        body: html! {
            @if report.interrupted { p.note { "The load was interrupted before its end." } }
            @if report.sides.len() > 1 { (compared(report)) }
            @for side in &report.sides { (errors(side, report)) }
            @for index in 0..rows(report) { (row(index, report)) }
        },
        data: data(report),
        script: SCRIPT,
    }
}

/// The RPCs of the load.
fn title(report: &LoadReport) -> String {
    let first = report.sides.first().map_or(&[][..], |side| &side.rows);
    // The row behind several RPCs is that of the whole cycle.
    let rpcs = match first {
        [one] => std::slice::from_ref(one),
        all => all.split_last().map_or(&[][..], |(_, rpcs)| rpcs),
    };
    let names: Vec<_> = rpcs.iter().map(|row| row.name.as_str()).collect();
    names.join(", ")
}

fn rows(report: &LoadReport) -> usize {
    let rows = report.sides.iter().map(|side| side.rows.len());
    rows.max().unwrap_or(0)
}

fn facts(report: &LoadReport) -> Vec<(&'static str, String)> {
    let mut facts: Vec<_> = match report.sides.as_slice() {
        [one] => vec![("Driver", one.endpoint.clone())],
        sides => {
            let names = ["Driver A", "Driver B"].into_iter();
            names
                .zip(sides.iter().map(|side| side.endpoint.clone()))
                .collect()
        }
    };
    facts.push(("At a time", count(report.concurrency as u64)));
    if report.connections > 1 {
        facts.push(("Connections", count(report.connections as u64)));
    }
    if let Some(rate) = report.rate {
        facts.push(("Rate asked for", format!("{} a second", per_second(rate))));
    }
    let took: Vec<_> = report.sides.iter().map(|side| time(side.elapsed)).collect();
    facts.push(("Under load for", took.join(" and ")));
    facts.push(("Run", report.run.clone()));
    facts
}

/// How the second driver compares.
fn compared(report: &LoadReport) -> Markup {
    let times = |ratio: f64| format!("{ratio:.2}×");
    let class = |ratio: &Ratio| match ratio.verdict() {
        "better" => "good",
        "worse" => "bad",
        _ => "muted",
    };
    html! {
        section {
            h2 { "B compared with A" }
            div.wide {
                table.figures {
                    thead { tr { th { "Of" } th { "Measure" } th.n { "Ratio" } th.n { "Lowest" } th.n { "Highest" } th.n { "Pairs" } th { "B is" } } }
                    tbody {
                        @for ratio in &report.ratios {
                            tr {
                                td { (ratio.name) } td { (ratio.measure) } td.n { b { (times(ratio.median)) } }
                                td.n { (times(ratio.lowest)) } td.n { (times(ratio.highest)) } td.n { (ratio.pairs) }
                                td class=(class(ratio)) { (ratio.verdict()) }
                            }
                        }
                    }
                }
            }
            @if report.ratios.is_empty() { p.muted { "No pair of turns can be compared." } }
        }
    }
}

/// The errors of one driver.
fn errors(side: &SideReport, report: &LoadReport) -> Markup {
    html! {
        @if !side.errors.is_empty() {
            section {
                h2 { "Errors" @if report.sides.len() > 1 { " of " (side.endpoint) } }
                div.wide {
                    table.errors {
                        thead { tr { th { "Code" } th { "RPC" } th.n { "Calls" } th { "Example" } } }
                        tbody {
                            @for failure in &side.errors {
                                tr { td.bad { (failure.code) } td { (failure.rpc) } td.n { (count(failure.calls)) } td.text { (failure.example) } }
                            }
                        }
                    }
                }
            }
        }
        @if side.unsent > 0 {
            p.note {
                (calls_were(side.unsent)) " due and never begun: all " (report.concurrency) " workers waited for answers."
            }
        }
    }
}

/// One RPC, or the cycle of all.
fn row(index: usize, report: &LoadReport) -> Markup {
    let sides: Vec<(&str, &SideReport, &LoadRow)> = LETTERS
        .into_iter()
        .zip(&report.sides)
        .filter_map(|(letter, side)| Some((letter, side, side.rows.get(index)?)))
        .collect();
    let Some((_, _, first)) = sides.first() else {
        return html! {};
    };
    let name = &first.name;
    let latencies = |row: &LoadRow| {
        let moments = row
            .moments
            .iter()
            .flat_map(|one| [one.p50, one.p99, one.most]);
        moments
            .chain(row.parts.iter().map(|(_, latency)| *latency))
            .collect::<Vec<_>>()
    };
    // The same axes for both drivers.
    let axis = Latencies::of(sides.iter().flat_map(|(_, _, row)| latencies(row)));
    let most = sides
        .iter()
        .flat_map(|(_, _, row)| row.bars.iter().map(|(_, calls)| *calls));
    let most = Counts::up_to(most.max().unwrap_or(0) as f64);
    let end = |row: &LoadRow| row.moments.last().map(|last| last.at + row.moment_width);
    let end = sides.iter().filter_map(|(_, _, row)| end(row)).max();
    let seconds = Counts::up_to(end.unwrap_or(Duration::ZERO).as_secs_f64());
    let both = sides.len() > 1;
    let caption = |what: &str, letter: &str| {
        html! {
            figcaption { b { (what) } @if both { " of " span.key.(letter) { (letter.to_uppercase()) } } }
        }
    };
    let parts: Vec<(&str, &[(f64, Duration)])> = sides
        .iter()
        .map(|(letter, _, row)| (*letter, row.parts.as_slice()))
        .collect();
    html! {
        section.rpc data-row=(index) {
            h2 { (name) }
            div.charts {
                @if sides.iter().any(|(_, _, row)| !row.moments.is_empty()) {
                    @for (letter, _, row) in &sides {
                        figure.(letter) data-chart="over-time" data-side=(letter) {
                            (caption("Latency over time", letter))
                            p.keys { span.key.p50 { "p50" } " " span.key.p99 { "p99" } " " span.key.most { "max" }
                                @if row.failed > 0 { " " span.key.failed { "failed" } } }
                            (over_time(&format!("latency of {name} over time"), &row.moments, row.moment_width, &axis, &seconds))
                        }
                    }
                }
                @for (letter, _, row) in &sides {
                    figure.(letter) data-chart="histogram" data-side=(letter) {
                        (caption("Calls by latency", letter))
                        p.keys { "each bar up to the latency at its right" }
                        (histogram(&format!("calls of {name} by latency"), &row.bars, &most))
                    }
                }
                figure data-chart="percentiles" {
                    figcaption { b { "Percentiles" } }
                    p.keys {
                        @if both { @for (letter, _, _) in &sides { span.key.(letter) { (letter.to_uppercase()) } " " } }
                        "part of the calls that took at most as long"
                    }
                    (percentiles(&format!("percentiles of {name}"), &parts, &axis))
                }
                figure {
                    figcaption { b { "Figures" } }
                    (figures(&sides))
                }
            }
        }
    }
}

/// The figures of a row, one column a driver.
fn figures(sides: &[(&str, &SideReport, &LoadRow)]) -> Markup {
    let latency = |row: &LoadRow, index: usize| match &row.latency {
        Some(all) => time(all[index]),
        None => "-".to_owned(),
    };
    html! {
        table.figures {
            @if sides.len() > 1 {
                thead { tr { th {} @for (letter, _, _) in sides { th.n { span.key.(letter) { (letter.to_uppercase()) } } } } }
            }
            tbody {
                tr { th { "calls" } @for (_, _, row) in sides { td.n.calls { (count(row.calls)) } } }
                tr { th { "failed" } @for (_, _, row) in sides { td.n.bad[row.failed > 0] { (count(row.failed)) } } }
                tr { th { "per second" } @for (_, side, row) in sides { td.n { (per_second(row.per_second(side.elapsed))) } } }
                @for (index, (_, name)) in LATENCIES.iter().enumerate() {
                    tr { th { (name) } @for (_, _, row) in sides { td.n { (latency(row, index)) } } }
                }
            }
        }
    }
}

/// What was drawn, as the page tests it: by drivers and rows.
fn data(report: &LoadReport) -> Json {
    let row = |row: &LoadRow| {
        let bars: Vec<_> = row.bars.iter().map(|(_, calls)| calls).collect();
        let moments = row.moments.iter();
        let moments: Vec<_> = moments.map(|one| [one.calls, one.failed]).collect();
        let (name, calls, percentiles) = (&row.name, row.calls, row.parts.len());
        json!({"rpc": name, "calls": calls, "bars": bars, "percentiles": percentiles, "moments": moments})
    };
    let sides = report.sides.iter().map(|side| {
        let rows: Vec<_> = side.rows.iter().map(row).collect();
        json!({"endpoint": side.endpoint, "rpcs": rows})
    });
    json!({"drivers": sides.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{FailedCalls, LoadMoment};
    use crate::page::tests::{HOSTILE, elements};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn row_of(name: &str, calls: u64) -> LoadRow {
        LoadRow {
            name: name.to_owned(),
            calls,
            failed: 1,
            latency: Some([1, 2, 3, 4, 5, 6, 7].map(MS)),
            bars: vec![(MS(2), calls - 1), (MS(5), 1)],
            parts: vec![(0.0, MS(1)), (0.5, MS(3)), (0.9, MS(7))],
            moments: vec![LoadMoment {
                at: Duration::ZERO,
                calls,
                failed: 1,
                p50: MS(3),
                p99: MS(6),
                most: MS(7),
            }],
            moment_width: MS(100),
        }
    }

    fn side_of(endpoint: &str, rows: &[&str], calls: u64) -> SideReport {
        SideReport {
            endpoint: endpoint.to_owned(),
            elapsed: Duration::from_secs(1),
            unsent: 3,
            rows: rows.iter().map(|name| row_of(name, calls)).collect(),
            errors: vec![FailedCalls {
                rpc: "CreateVolume",
                code: "INTERNAL",
                calls: 1,
                example: HOSTILE.to_owned(),
            }],
        }
    }

    fn report_of(sides: Vec<SideReport>) -> LoadReport {
        LoadReport {
            run: "r1".to_owned(),
            what: String::new(),
            concurrency: 4,
            connections: 2,
            rate: Some(100.0),
            interrupted: true,
            sides,
            ratios: vec![Ratio {
                name: "cycle".to_owned(),
                measure: "p50",
                more_is_better: false,
                median: 2.0,
                lowest: 1.5,
                highest: 3.0,
                pairs: 4,
            }],
        }
    }

    #[test]
    fn every_row_has_its_charts_one_a_driver() {
        let names = ["CreateVolume", "DeleteVolume", "cycle"];
        for (count, charts) in [(1, 3), (2, 5)] {
            let ends = ["unix:///a", HOSTILE];
            let sides = ends
                .iter()
                .take(count)
                .map(|end| side_of(end, &names, 10))
                .collect();
            let page = page(&report_of(sides));
            assert_eq!(page.title, "CreateVolume, DeleteVolume");
            let document = page.document("n0nce");
            assert_eq!(elements(&document, "figure").len(), 3 * (charts + 1));
            assert_eq!(document.matches("class=\"chart\"").count(), 3 * charts);
            assert_eq!(elements(&document, "script").len(), 2);
            assert_eq!(
                document.contains("<td class=\"bad\">worse</td>"),
                count == 2
            );
        }
    }

    #[test]
    fn two_drivers_have_the_same_axes() {
        let sides = vec![side_of("a", &["Probe"], 101), side_of("b", &["Probe"], 11)];
        let document = page(&report_of(sides)).document("n0nce");
        // A hundred calls are the full height, of either driver.
        assert!(
            document.contains("height=\"150\" data-calls=\"100\""),
            "{document}"
        );
        assert!(
            document.contains("height=\"15\" data-calls=\"10\""),
            "{document}"
        );
    }
}
