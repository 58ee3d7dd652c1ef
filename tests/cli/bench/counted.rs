//! What is counted, and how it is shown. How fast it is nobody asserts.

use super::{driver, row};
use crate::support::program::Csi;
use crate::support::scripted::Reply;
use crate::support::terminal::Terminal;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::Code;

#[test]
fn failures_are_counted_by_code_with_the_driver_s_words() {
    let driver = driver();
    let number = Mutex::new(0);
    driver.answer("GetPluginInfo", move |_| {
        let mut number = number.lock().unwrap();
        *number += 1;
        match *number % 5 {
            1 => Reply::error(Code::Aborted, "busy \x1b[31m"),
            2 => Reply::error(Code::Internal, "größe 100%"),
            3 => Reply::error(Code::Aborted, "still busy"),
            _ => Reply::json("{}"),
        }
    });
    let csi = Csi::at(driver.endpoint());
    let run = csi.run("bench identity plugin-info --count 20");
    let run = run
        .exits(64 + 10)
        .says("error: bench: ABORTED: 12 of 20 calls failed, 8 of them so: busy \\u{1b}[31m");
    let run = run.says("--max-errors says how many may fail; it was 0");
    for line in [
        "ABORTED   8      GetPluginInfo  busy \\u{1b}[31m",
        "INTERNAL  4      GetPluginInfo  größe 100%",
    ] {
        assert!(run.stdout.contains(line), "{line}\n{run}");
    }
    for allowed in ["12", "60%"] {
        csi.run(&format!(
            "bench identity plugin-info --count 20 --max-errors {allowed}"
        ))
        .succeeds();
    }
    for allowed in ["11", "59.9%"] {
        csi.run(&format!(
            "bench identity plugin-info --count 20 --max-errors {allowed}"
        ))
        .exits(64 + 10);
    }
    // A driver that is not there at all is no load.
    Csi::at("/nowhere/csi.sock")
        .run("bench identity probe --count 1")
        .exits(64 + 14)
        .says("no connection to /nowhere/csi.sock");
}

/// Latencies are what the driver's pause makes them at least; nothing is said of how long they are at most.
#[test]
fn at_a_fixed_rate_a_stall_is_seen_by_every_call_that_was_due() {
    let driver = driver();
    let ok = || Reply::json("{}");
    driver.on_each(
        "GetPluginInfo",
        [ok().after(Duration::from_millis(600)), ok()],
    );
    let csi = Csi::at(driver.endpoint());
    // The last of them is due after 190 ms.
    let line = "bench identity plugin-info --rate 100 --count 20 --concurrency 1 -o json";
    let result = csi.run(line).succeeds().json();
    let row = row(&result, "GetPluginInfo");
    assert_eq!(row["calls"], 20);
    let shortest = row["latencySeconds"]["min"].as_f64().unwrap();
    assert!(shortest >= 0.4, "{shortest}");

    // What could not even begin is said.
    driver.on(
        "GetPluginInfo",
        Reply::json("{}").after(Duration::from_secs(4)),
    );
    let line = "bench identity plugin-info --rate 10 --duration 3s --concurrency 1";
    let run = csi.run(line).succeeds();
    let told = run
        .stdout
        .contains("29 calls were due and never begun: all 1 workers waited");
    assert!(told, "{run}");
}

#[test]
fn two_drivers_take_turns_and_are_compared() {
    let (a, b) = (driver(), driver());
    let order = Arc::new(Mutex::new(String::new()));
    for (driver, letter) in [(&a, 'A'), (&b, 'B')] {
        let order = Arc::clone(&order);
        driver.answer("GetPluginInfo", move |_| {
            order.lock().unwrap().push(letter);
            Reply::json("{}")
        });
    }
    let csi = Csi::at(a.endpoint());
    let line = format!(
        "bench identity plugin-info --compare {} --count 8 --turns 4",
        b.endpoint()
    );
    let result = csi.run(&format!("{line} -o json")).succeeds().json();
    assert_eq!(*order.lock().unwrap(), "AABBBBAAAABBBBAA");
    for side in 0..2 {
        assert_eq!(result["drivers"][side]["rpcs"][0]["calls"], 8);
    }
    assert_eq!(result["drivers"][1]["endpoint"], b.endpoint());
    let ratios = result["ratios"].as_array().unwrap();
    let measures: Vec<_> = ratios
        .iter()
        .map(|ratio| ratio["measure"].as_str().unwrap())
        .collect();
    assert_eq!(measures, ["per second", "mean", "p50", "p99"]);
    for ratio in ratios {
        let of = |name: &str| ratio[name].as_f64().unwrap();
        assert!(
            of("lowest") <= of("ratio") && of("ratio") <= of("highest"),
            "{ratio}"
        );
        assert_eq!(ratio["pairs"], 4);
    }
    let tables = csi.run(&line).succeeds().stdout;
    for part in ["A: unix://", "B: unix://", "B TO A ", "LOWEST", "B IS", "×"] {
        assert!(tables.contains(part), "{part}\n{tables}");
    }
}

#[test]
fn as_many_calls_as_asked_for_and_the_warm_up_apart() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    let line = "bench identity plugin-info --count 57 --concurrency 5 --connections 3 --warm-up 13 -o json";
    let run = csi.run(line).succeeds();
    let result = run.json();
    let row = row(&result, "GetPluginInfo");
    assert_eq!((&row["calls"], &row["failed"]), (&57.into(), &0.into()));
    let bars = row["histogram"].as_array().unwrap().iter();
    let all: u64 = bars.map(|bar| bar["calls"].as_u64().unwrap()).sum();
    assert_eq!(all, 57, "{run}");
    let latency = |name: &str| row["latencySeconds"][name].as_f64().unwrap();
    assert!(latency("min") <= latency("p50") && latency("p50") <= latency("max"));
    assert_eq!(result["interrupted"], false);
    assert_eq!(driver.calls().len(), 70);
    assert_eq!(driver.connections(), 3);
    // What is said besides is one line, and nothing is drawn where nobody sees it.
    assert!(run.stderr.starts_with("note: run "), "{run}");
    assert_eq!(run.stderr.lines().count(), 1, "{run}");

    // At a rate, and as tables.
    let run = csi.run("bench publish --count 5");
    run.exits(2);
    let run = csi.run("bench get-plugin-info --count 20 --rate 5000");
    let run = run.succeeds();
    for part in ["RPC ", "LATENCY ", "P99.9", "GetPluginInfo UP TO", "█"] {
        assert!(run.stdout.contains(part), "{part}\n{run}");
    }
    assert_eq!(driver.calls().len(), 90);
    let one_line = csi.run("bench i info --count 1 -o jsonl").succeeds();
    assert_eq!(one_line.stdout.lines().count(), 1);
}

#[test]
fn on_a_terminal_the_load_is_seen_while_it_runs() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    let mut command = csi.command();
    command.env("TERM", "xterm");
    command.args([
        "bench",
        "identity",
        "plugin-info",
        "--duration",
        "1h",
        "--concurrency",
        "2",
    ]);
    let mut terminal = Terminal::start(&command, 80, 24);
    terminal.expect(" calls, ");
    terminal.expect("/s, 0 failed, ");
    terminal.press("\x03");
    terminal.expect("note: stopping");
    terminal.expect("LATENCY ");
    assert_eq!(terminal.ends().code(), Some(130));
}
