//! The pages that are tested, made by the real `csi` against drivers.

use crate::support::PATIENCE;
use crate::support::process::Process;
use crate::support::program::Csi;
use crate::support::reference::ReferenceDriver;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_mock::{Defect, Options};
use csi_proto::v1;
use rustix::process::Signal;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use tonic::Code;

/// What a driver may call its things.
pub const HOSTILE: &str = "</script></title><script>document.documentElement.setAttribute('owned','yes')</script>\
    <img src=x onerror=\"document.documentElement.setAttribute('owned','yes')\"><!-- '\"&amp; \u{202e}gnp.\u{1b}[31m\u{feff} ü";

/// A page, with what it was made from.
pub struct Made {
    /// A name for its pictures.
    pub name: &'static str,
    pub page: PathBuf,
    _csi: Csi,
}

impl Made {
    fn of(name: &'static str, csi: Csi) -> Self {
        let page = csi.home().join("p.html");
        assert!(page.is_file(), "{} was not written", page.display());
        Self {
            name,
            page,
            _csi: csi,
        }
    }

    /// A cycle of several RPCs on a driver that does everything.
    pub fn load() -> Self {
        let driver = ReferenceDriver::start(Options::default());
        let csi = Csi::at(&driver.endpoint());
        csi.run("bench create-delete --duration 2s --concurrency 4 --html p.html")
            .succeeds();
        Self::of("load", csi)
    }

    /// Two drivers, one of which is slower.
    pub fn comparison() -> Self {
        let driver = |pause: Duration| {
            let driver = ScriptedDriver::unix();
            driver.answer("GetPluginInfo", move |_| info("own.example").after(pause));
            driver
        };
        let (fast, slow) = (
            driver(Duration::from_micros(100)),
            driver(Duration::from_millis(3)),
        );
        let csi = Csi::at(fast.endpoint());
        let line = format!(
            "bench identity plugin-info --compare {} --turns 4 --duration 2s --concurrency 2 --html p.html",
            slow.endpoint()
        );
        csi.run(&line).succeeds();
        Self::of("comparison", csi)
    }

    /// A driver that refuses every third call.
    pub fn failing_load() -> Self {
        let driver = ScriptedDriver::unix();
        let mut number = 0;
        driver.answer("GetPluginInfo", move |_| {
            number += 1;
            match number % 3 {
                0 => Reply::error(Code::Aborted, "busy"),
                _ => info("own.example"),
            }
        });
        let csi = Csi::at(driver.endpoint());
        csi.run("bench identity plugin-info --count 300 --max-errors 50% --html p.html")
            .succeeds();
        Self::of("failing-load", csi)
    }

    /// A driver with a defect.
    pub fn check() -> Self {
        let driver =
            ReferenceDriver::start(Options::default().with(Defect::CreateVolumeWithoutName));
        let csi = Csi::at(&driver.endpoint());
        let parent = driver.workplace();
        let line = format!(
            "sanity --mount-parent {} --filter '!restart' --html p.html",
            parent.display()
        );
        csi.run(&line).exits(3);
        Self::of("check", csi)
    }

    /// Calls through a proxy, some at the same time, some refused, with a pause between.
    pub fn recording() -> Self {
        let (csi, _) = recorded();
        Self::of("recording", csi)
    }

    /// The same calls, sent to a driver that answers otherwise.
    pub fn replay() -> Self {
        let (csi, _) = recorded();
        let other = ScriptedDriver::unix();
        other.on("GetPluginInfo", info("other.example"));
        other.on("Probe", r#"{"ready": true}"#);
        other.on("CreateVolume", "{}");
        let line = format!(
            "-e {} replay r.jsonl --no-folders --html p.html",
            other.endpoint()
        );
        csi.run(&line).exits(1);
        Self::of("replay", csi)
    }

    pub fn hostile_check() -> Self {
        let driver = ScriptedDriver::unix();
        driver.on("GetPluginInfo", info(HOSTILE));
        driver.on("Probe", Reply::error(Code::Internal, HOSTILE));
        let csi = Csi::at(driver.endpoint());
        csi.run("sanity --filter identity/ --paths=false --html p.html")
            .exits(3);
        Self::of("hostile-check", csi)
    }

    pub fn hostile_load() -> Self {
        let driver = ScriptedDriver::unix();
        driver.on("GetPluginInfo", Reply::error(Code::Internal, HOSTILE));
        let csi = Csi::at(driver.endpoint());
        csi.run("bench identity plugin-info --count 5 --max-errors 100% --html p.html")
            .succeeds();
        Self::of("hostile-load", csi)
    }

    pub fn hostile_recording() -> Self {
        let driver = ScriptedDriver::unix();
        driver.on("GetPluginInfo", info(HOSTILE));
        driver.on("Probe", Reply::error(Code::Internal, HOSTILE));
        // A proxy writes no such bytes; a file that somebody hands over may have them.
        let line = "{\"call\":9,\"at\":1.5,\"method\":\"/\u{fffd}<b>\u{202e}\",\"request\":{\"a\":\"</script>\u{202e}\"},\
             \"status\":{\"code\":\"OK\"},\"seconds\":0.25}\n";
        let header = "{\"recording\":1,\"csi\":\"0\",\"target\":\"</title><script>\",\"started\":\"\u{202e}\"}\n";
        let mut bytes = [header, line].concat().into_bytes();
        let replaced = bytes
            .windows(3)
            .position(|three| three == "\u{fffd}".as_bytes());
        bytes[replaced.unwrap()] = 0xff;
        let csi = Csi::at(driver.endpoint());
        csi.file("r.jsonl", bytes);
        // Its only call is of no method of CSI, so nothing is compared.
        csi.run("replay r.jsonl --html p.html").exits(1);
        Self::of("hostile-recording", csi)
    }
}

fn info(name: &str) -> Reply {
    Reply::json(json!({"name": name, "vendorVersion": "1.0"}))
}

/// A home with the recording `r.jsonl` and its page `p.html`.
fn recorded() -> (Csi, ScriptedDriver) {
    let driver = ScriptedDriver::unix();
    driver.answer("GetPluginInfo", |_| {
        info("own.example").after(Duration::from_millis(40))
    });
    driver.on(
        "Probe",
        Reply::error(Code::FailedPrecondition, "the storage is not there yet"),
    );
    driver.answer("CreateVolume", |request| {
        let request: v1::CreateVolumeRequest = request.decode();
        let id = format!("id-{}", request.name);
        let context = json!({"server": "10.0.0.4"});
        let volume = json!({"volumeId": id, "capacityBytes": 1 << 30, "volumeContext": context});
        Reply::json(json!({ "volume": volume })).after(Duration::from_millis(25))
    });
    driver.on("DeleteVolume", "{}");
    let csi = Csi::new();
    let line = format!(
        "proxy --listen unix:p.sock --to {} --record r.jsonl --html p.html --quiet --fail delete-volume=UNAVAILABLE:1",
        driver.endpoint()
    );
    let proxy = csi.spawn(&line);
    proxy.wait_for_error_output("note: calls to");
    let at = "-e unix:p.sock";
    let together: Vec<Process> = (0..4)
        .map(|_| csi.spawn(&format!("{at} plugin-info")))
        .collect();
    for one in together {
        assert_eq!(one.wait(PATIENCE).unwrap().code(), 0);
    }
    csi.run(&format!("{at} probe")).exits(64 + 9);
    csi.run(&format!(
        "{at} controller create-volume pvc-1 pvc-2 --cap 5,mount --req-bytes 1Gi"
    ))
    .succeeds();
    csi.run(&format!("{at} controller delete-volume id-pvc-1"))
        .exits(64 + 14);
    csi.run(&format!("{at} controller delete-volume id-pvc-1"))
        .succeeds();
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.wait(PATIENCE).unwrap().code(), 0);
    (csi, driver)
}
