//! A dead server may hold processes of the driver for a moment, and never more of them with time.

use crate::server::{Away, Server};
use crate::support::calls::{self, Calls};
use crate::support::driver::Driver;
use crate::support::patience::Patience;
use crate::support::process::children;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tonic::Code;

/// Calls in all, and callers who make them.
const ROUNDS: usize = 200;
const CALLERS: usize = 20;

/// Helpers that may ask one server at a time.
const MOST_QUESTIONS: usize = 4;

/// What a process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    threads: usize,
    descriptors: usize,
    /// Helpers and their nursery.
    descendants: usize,
}

fn held(pid: i32) -> Held {
    let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    Held {
        threads: count("task"),
        descriptors: count("fd"),
        descendants: children(pid).len() + helpers(pid).len(),
    }
}

/// The helpers of a driver, which its nursery has started.
fn helpers(pid: i32) -> Vec<i32> {
    children(pid).into_iter().flat_map(children).collect()
}

/// Waits until the process holds no more than `before`, with a few threads of the runtime's pool that may come and go. The
/// kernel tells nobody of another process's threads and descriptors: /proc is looked at.
fn wait_until_back(pid: i32, before: &Held) {
    let mut patience = Patience::default();
    loop {
        let now = held(pid);
        if now.descendants <= before.descendants
            && now.descriptors <= before.descriptors
            && now.threads <= before.threads
        {
            return;
        }
        assert!(patience.lasts(), "{now:?}, and before {before:?}");
        std::thread::sleep(patience.pause());
    }
}

#[test]
fn hundreds_of_calls_to_a_dead_server_leave_nothing() {
    let mut server = Server::new("leaks");
    let share = server.share();
    let short = ["--mount-timeout", "--unmount-timeout", "--stats-timeout"];
    let mut flags: Vec<&str> = short.iter().flat_map(|flag| [*flag, "100ms"]).collect();
    flags.extend(["--mode", "node"]);
    // With patience, a mount and an unmount come to their end on a busy machine too.
    let mut driver = Driver::with_args(&["--mode", "node"]);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let context = share.parameters();
        let ids: Vec<String> = (0..CALLERS)
            .map(|number| format!("volume-{number}"))
            .collect();
        // Half of the callers have a volume.
        let published = CALLERS / 2;
        for id in ids.iter().take(published) {
            calls
                .publish(id, &context, &driver.target(id))
                .await
                .unwrap();
        }
        driver.restart_with(&flags);
        let calls = Calls::to(&driver.endpoint());
        let pid = driver.process().pid().as_raw_nonzero().get();
        for id in ids.iter().take(published) {
            let target = driver.target(id);
            calls::repeated(|| calls.stats(id, &target)).await.unwrap();
        }
        server.leave(Away::CutOff);
        // The pool of threads, and whatever else is made once.
        for id in ids.iter().take(published) {
            let _ = calls.stats(id, &driver.target(id)).await;
        }
        // What they started for a moment ends without a sign.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let before = held(pid);

        let most = Arc::new(AtomicUsize::new(0));
        let made = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                let (calls, context) = (calls.clone(), context.clone());
                let (id, target) = (ids[number].clone(), driver.target(&ids[number]));
                let made = Arc::clone(&made);
                tokio::spawn(async move {
                    while made.fetch_add(1, Ordering::Relaxed) < ROUNDS {
                        if number < published {
                            let stats = calls.stats(&id, &target).await.unwrap();
                            let condition = stats.volume_condition.unwrap();
                            assert!(condition.abnormal, "{condition:?}");
                            assert!(stats.usage[0].total > 0);
                            continue;
                        }
                        let failed = calls.publish(&id, &context, &target).await.unwrap_err();
                        assert!(
                            matches!(
                                failed.code(),
                                Code::Unavailable | Code::DeadlineExceeded | Code::Aborted
                            ),
                            "{failed}"
                        );
                        // The mount may still be on its way to its end.
                        let unpublish = calls::repeated(|| calls.unpublish(&id, &target));
                        unpublish.await.unwrap();
                        assert!(!target.exists());
                    }
                })
            })
            .collect();
        let watching = {
            let (most, made) = (Arc::clone(&most), Arc::clone(&made));
            std::thread::spawn(move || {
                while made.load(Ordering::Relaxed) < ROUNDS {
                    let questions = helpers(pid).len();
                    most.fetch_max(questions, Ordering::Relaxed);
                    // A sample now and then.
                    std::thread::sleep(Duration::from_millis(100));
                }
            })
        };
        for caller in callers {
            caller.await.unwrap();
        }
        watching.join().unwrap();
        // Those that ask, and one for each caller that mounts.
        let bound = MOST_QUESTIONS + CALLERS - published;
        assert!(
            most.load(Ordering::Relaxed) <= bound,
            "{most:?} helpers at a time"
        );
        wait_until_back(pid, &before);

        driver.restart_with(&["--mode", "node"]);
        let calls = Calls::to(&driver.endpoint());
        for id in ids.iter().take(published) {
            let target = driver.target(id);
            calls::repeated(|| calls.unpublish(id, &target))
                .await
                .unwrap();
            assert!(!target.exists());
        }
        server.come_back(Away::CutOff);
    });
    assert!(driver.mounts().is_empty());
}
