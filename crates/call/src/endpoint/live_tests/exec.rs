//! Tests commands that carry connections, and that no process of them is left behind.

use super::*;
use csi_error::StderrLines;
use rustix::process::{Pid, Signal, kill_process_group};

/// A command that carries its standard streams to a port, in two processes, and leaves its group's id in a file. It does
/// not end when its input does: a process of it goes on reading.
fn carrier(port: u16, note: &str) -> Endpoint {
    endpoint(&format!(
        "exec:bash -c 'echo $$ > {note}; exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3 & cat >&3'"
    ))
}

fn noted_group(note: &str) -> Pid {
    let text = std::fs::read_to_string(note).expect("noted");
    Pid::from_raw(text.trim().parse().expect("a number")).expect("a group")
}

/// Whether any process of the group lives. Zombies, which wait for a lazy init, do not.
fn lives(group: Pid) -> bool {
    let folders = std::fs::read_dir("/proc").expect("processes").flatten();
    folders.into_iter().any(|folder| {
        // A process that ends meanwhile has no more status.
        let status = std::fs::read_to_string(folder.path().join("stat")).unwrap_or_default();
        let after_name = status.rsplit(") ").next().unwrap_or_default();
        let fields: Vec<&str> = after_name.split(' ').collect();
        matches!(fields[..], [state, _, id, ..] if state != "Z" && id == group.to_string())
    })
}

/// A killed process lives until the kernel next turns to it.
fn dies(group: Pid) -> bool {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while lives(group) {
        if std::time::Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_command_carries_the_connection_and_leaves_nothing_behind() {
    let (_folder, note) = in_folder("group");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let endpoint = carrier(serve_tcp().await, &note);
        let channel = connect(&endpoint).await;
        assert_eq!(name(&channel).await.expect("answered"), "localhost");
        assert!(lives(noted_group(&note)));
    });
    drop(runtime);
    assert!(dies(noted_group(&note)));
}

#[tokio::test]
async fn a_lost_command_is_started_again() {
    let (_folder, note) = in_folder("group");
    let endpoint = carrier(serve_tcp().await, &note);
    let channel = connect(&endpoint).await;
    name(&channel).await.expect("answered");
    let first = noted_group(&note);
    let hanging = hang(&channel).await;
    kill_process_group(first, Signal::KILL).expect("killed");
    hanging.await.expect("no panic").expect_err("lost");
    let reason = endpoint.last_error().expect("a reason");
    assert_eq!(
        reason.to_string(),
        "the command bash was killed by signal 9 and wrote nothing to stderr"
    );
    assert_eq!(name(&channel).await.expect("answered"), "localhost");
    assert_ne!(noted_group(&note), first);
    assert!(dies(first));
}

#[tokio::test]
async fn a_failing_command_tells_its_code_and_its_last_words() {
    let two_lines = "exec:sh -c 'echo error: no such pod >&2; echo >&2; echo bye >&2; exit 7'";
    let reason = lost(&endpoint(two_lines)).await;
    assert_eq!(reason.to_string(), "the command sh exited with code 7");
    let words = std::error::Error::source(&reason).expect("last words");
    let words = words.downcast_ref::<StderrLines>().expect("last words");
    let lines: Vec<&str> = words.lines().collect();
    assert_eq!(lines, ["error: no such pod", "bye"]);
    let noisy = "exec:sh -c 'head -c 100000 /dev/zero | tr \\\\0 x >&2; echo the end >&2'";
    let reason = lost(&endpoint(noisy)).await;
    let EndpointError::ExecEnded {
        outcome, stderr, ..
    } = reason
    else {
        panic!("{reason}");
    };
    assert_eq!(outcome, ExecOutcome::Exited(0));
    let words = stderr.expect("last words").to_string();
    // The newline at the end is not shown.
    assert_eq!(words.len(), (8 << 10) - 1);
    assert!(words.ends_with("xthe end"));
    let error = failure("exec:/nowhere/program x").await;
    assert_eq!(error.to_string(), "cannot start /nowhere/program");
    assert!(matches!(error, EndpointError::ExecStart(..)));
}

#[test]
fn a_command_that_ignores_signals_is_killed() {
    let (_folder, note) = in_folder("group");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let stubborn = endpoint(&format!(
            "exec:sh -c 'trap \"\" TERM; echo $$ > {note}; echo; while :; do sleep 60; done'"
        ));
        let mut stream = stubborn
            .open(&ConnectOptions::default())
            .await
            .expect("started");
        let mut line = [0];
        let read = tokio::io::AsyncReadExt::read_exact(&mut stream, &mut line).await;
        read.expect("the trap is set");
        drop(stream);
    });
    assert!(dies(noted_group(&note)));
}
