//! The tables of what comes next for a case.

use super::*;
use crate::case::Cases;
use crate::report::CaseOutcome;
use crate::room::Shortage;
use crate::settings::Access;
use crate::verdict::Failure;
use csi_proto::{Request as _, v1};

/// A plan of cases with these names, of which those with `@` run for each access type.
fn states(names: &[&str]) -> CaseStates {
    let planned = names.iter().enumerate().map(|(number, name)| {
        let (name, access) = match name.split_once('@') {
            Some((name, "block")) => (name, Access::Block),
            Some((name, _)) => (name, Access::Mount),
            None => (*name, Access::Mount),
        };
        let is_each = names.contains(&&*format!("{name}@block"));
        let mut list = Cases::default();
        list.about("x", "X");
        list.needs(if is_each { &[Need::EachAccess] } else { &[] });
        list.reads(name, |_| Ok(()));
        let mut case = list.done().pop().unwrap();
        case.name = name.to_owned();
        Planned {
            case: Box::leak(Box::new(case)),
            number,
            access,
            tries: 0,
            cut_off: false,
            looks_after_calls: false,
        }
    });
    CaseStates::of(planned.collect(), |_| true, Duration::from_secs(60))
}

fn five() -> CaseStates {
    states(&["a", "b", "b@block", "c", "c@block"])
}

fn result(states: &CaseStates, index: usize, outcome: CaseOutcome) -> CaseResult {
    CaseResult {
        name: states.cases[index].planned.name(),
        outcome,
        ..CaseResult::default()
    }
}

/// A case has ended that depends on nothing, and was told of.
fn end(states: &mut CaseStates, index: usize, outcome: CaseOutcome) {
    states.cases[index].stage = Stage::Judged(Some(result(states, index, outcome)));
}

/// A case has failed that depends on these.
fn fail(states: &mut CaseStates, index: usize, on: Dependencies) {
    states.ends(index, result(states, index, CaseOutcome::Failed), on);
}

/// The results that are judged: the names, and what each depends on.
fn judged(states: &mut CaseStates, at_the_end: bool) -> Vec<(String, Option<String>)> {
    let mut all = Vec::new();
    while let Some(result) = states.judge(at_the_end) {
        all.push((result.name.clone(), result.rests_on.clone()));
    }
    all
}

fn on(name: &str, base: &str) -> (String, Option<String>) {
    (name.to_owned(), Some(base.to_owned()))
}

fn alone(name: &str) -> (String, Option<String>) {
    (name.to_owned(), None)
}

fn depending(on: Vec<&'static str>) -> Dependencies {
    Dependencies { on, shortage: None }
}

/// A try that failed, alone.
const FAILED: Try = Try {
    number: 0,
    alone: true,
    failed: true,
    cut_off: CutOff::No,
    goes_anyway: false,
    looks_after_calls: false,
    deaths: 0,
    dies_anyway: false,
    gone: false,
    lack: None,
    in_place_of_another: false,
    is_about_it: false,
    may_come_late: false,
    is_first: false,
    has_worked: true,
    is_never_served: false,
    others: Some(false),
    patience_is_over: false,
    run_ends: false,
};

fn lacks(lack: Lack, number: usize, others: Option<bool>) -> Try {
    Try {
        lack: Some(lack),
        number,
        others,
        ..FAILED
    }
}

fn cut_off(cut_off: CutOff, number: usize) -> Try {
    Try {
        cut_off,
        number,
        ..FAILED
    }
}

#[test]
fn a_try_counts_is_made_again_or_shows_nothing() {
    use CutOff::{Disconnected, InCall, Meanwhile, Reconnected};
    use Next::{AgainAlone, Counts, Interrupted, Kills, Lacks};
    let after = |milliseconds| Next::AgainAfter(Duration::from_millis(milliseconds));
    let beside = |one| Try {
        alone: false,
        ..one
    };
    let about = |one| Try {
        is_about_it: true,
        ..one
    };
    let late = |one| Try {
        may_come_late: true,
        ..one
    };
    let never = |one| Try {
        has_worked: false,
        ..one
    };
    let unserved = |one| Try {
        is_never_served: true,
        ..one
    };
    let first = |one| Try {
        is_first: true,
        ..one
    };
    let passed = |one| Try {
        failed: false,
        ..one
    };
    let gone = |one| Try { gone: true, ..one };
    let deaths = |deaths, one| Try { deaths, ..one };
    let anyway = |one| Try {
        dies_anyway: true,
        ..one
    };
    let no_patience = |one| Try {
        patience_is_over: true,
        ..one
    };
    let refusal = |one| Try {
        in_place_of_another: true,
        ..one
    };
    let looking = |number| Try {
        looks_after_calls: true,
        number,
        ..FAILED
    };
    let room = |number, others| lacks(Lack::Room, number, others);
    let (nobody, somebody, unknown) = (Some(false), Some(true), None);
    for (one, expected) in [
        // Whatever it rests on is another matter.
        (FAILED, Counts),
        (passed(FAILED), Counts),
        (beside(FAILED), Counts),
        // What is accepted is no failure, whatever the driver lacks.
        (passed(room(0, nobody)), Counts),
        // Room that other cases have is given back.
        (beside(room(0, somebody)), AgainAlone),
        (room(0, nobody), after(50)),
        (room(1, nobody), Lacks),
        (room(1, unknown), after(100)),
        (room(2, unknown), Lacks),
        (room(8, somebody), after(2000)),
        (room(9, somebody), Lacks),
        (no_patience(room(0, somebody)), Lacks),
        (lacks(Lack::Places, 0, nobody), after(50)),
        (lacks(Lack::Places, 1, nobody), Lacks),
        // The case about it accuses the driver where nobody else can have taken the room.
        (about(room(0, nobody)), Counts),
        (about(late(room(0, nobody))), Lacks),
        (no_patience(about(room(0, unknown))), Lacks),
        (about(room(0, somebody)), Lacks),
        // And where it was there before.
        (never(about(room(0, nobody))), Lacks),
        (beside(about(room(0, somebody))), AgainAlone),
        (lacks(Lack::Size, 0, nobody), Lacks),
        (beside(lacks(Lack::Size, 0, nobody)), Lacks),
        (lacks(Lack::Service, 1, nobody), after(100)),
        (lacks(Lack::Service, 2, nobody), Lacks),
        // The first call of all may meet a limit of calls in a time; each RPC that is never served has one more try, not each case.
        (beside(never(lacks(Lack::Service, 0, somebody))), AgainAlone),
        (never(lacks(Lack::Service, 0, nobody)), after(50)),
        (never(lacks(Lack::Service, 1, nobody)), Lacks),
        (unserved(never(lacks(Lack::Service, 0, nobody))), Lacks),
        (
            first(unserved(never(lacks(Lack::Service, 0, nobody)))),
            after(50),
        ),
        // Where another refusal is demanded, it is the answer to that request when it comes each time and others are served.
        (
            beside(refusal(lacks(Lack::Service, 0, somebody))),
            AgainAlone,
        ),
        (
            no_patience(beside(refusal(lacks(Lack::Service, 0, somebody)))),
            AgainAlone,
        ),
        (refusal(lacks(Lack::Service, 1, nobody)), after(100)),
        (refusal(lacks(Lack::Service, 2, nobody)), Counts),
        (refusal(lacks(Lack::Service, 2, somebody)), Counts),
        (beside(refusal(lacks(Lack::Service, 2, nobody))), Lacks),
        (never(refusal(lacks(Lack::Service, 2, nobody))), Lacks),
        (beside(refusal(room(0, somebody))), AgainAlone),
        (no_patience(beside(refusal(room(0, somebody)))), AgainAlone),
        (refusal(room(1, nobody)), Counts),
        (refusal(room(2, unknown)), Counts),
        (refusal(room(9, somebody)), Lacks),
        (never(refusal(room(1, nobody))), Lacks),
        (beside(refusal(lacks(Lack::Size, 0, somebody))), AgainAlone),
        (refusal(lacks(Lack::Size, 1, nobody)), Lacks),
        // What all depend on has time to come up.
        (first(never(lacks(Lack::Service, 8, nobody))), after(2000)),
        (first(never(lacks(Lack::Service, 9, nobody))), Lacks),
        // A driver that goes away accuses the call that does it twice, alone.
        (cut_off(InCall, 0), AgainAlone),
        (beside(cut_off(InCall, 0)), AgainAlone),
        (deaths(1, cut_off(InCall, 1)), AgainAlone),
        (deaths(2, cut_off(InCall, 2)), Kills),
        (cut_off(InCall, 4), AgainAlone),
        (cut_off(InCall, 5), Interrupted),
        (gone(deaths(2, cut_off(InCall, 1))), Interrupted),
        // One that goes away anyway does so in some call.
        (anyway(deaths(3, cut_off(InCall, 3))), AgainAlone),
        (anyway(deaths(4, cut_off(InCall, 4))), Kills),
        (gone(cut_off(InCall, 0)), Interrupted),
        // It may have gone away in the call of another one.
        (cut_off(Meanwhile, 0), AgainAlone),
        (passed(cut_off(Meanwhile, 0)), Counts),
        (cut_off(Meanwhile, 5), Interrupted),
        (gone(cut_off(Meanwhile, 0)), Interrupted),
        (gone(passed(cut_off(Meanwhile, 0))), Counts),
        // Or between two calls; connections may be ended in order all the time.
        (cut_off(Reconnected, 0), AgainAlone),
        (passed(cut_off(Reconnected, 0)), Counts),
        (cut_off(Reconnected, 4), AgainAlone),
        (cut_off(Reconnected, 5), Counts),
        (cut_off(Disconnected, 4), AgainAlone),
        (cut_off(Disconnected, 5), Interrupted),
        // What may happen only where the run waits after answers has shown nothing yet.
        (looking(4), AgainAlone),
        (looking(5), Counts),
    ] {
        assert_eq!(decide(&one), expected, "{one:?}");
    }
}

fn loss(answered: bool) -> Loss {
    Loss {
        case: String::new(),
        method: v1::NodeStageVolumeRequest::METHOD,
        answered,
        failure: Failure::new("", ""),
    }
}

/// A case that runs again and again, and goes with the driver each time: which call is cut off.
#[test]
fn the_deaths_of_a_driver_are_counted_where_nobody_else_can_have_caused_them() {
    let node = || Some(loss(false));
    let other = Loss {
        method: v1::NodeGetInfoRequest::METHOD,
        ..loss(false)
    };
    let (again, kills) = (Next::AgainAlone, Next::Kills);
    // Whether it ran alone each time, and what it lost; what comes next each time.
    for (tries, expected) in [
        // The first time the case before it may have taken the driver down.
        (
            vec![(true, node()), (true, node()), (true, node())],
            vec![again, again, kills],
        ),
        // So may one beside it.
        (
            vec![(false, node()), (true, node()), (true, node())],
            vec![again, again, kills],
        ),
        (
            vec![
                (true, node()),
                (true, node()),
                (true, Some(other)),
                (true, None),
            ],
            vec![again, again, again, Next::Counts],
        ),
        // After its answer, as the second try sees that waits for it. What the first met had nothing to do with that.
        (
            vec![
                (false, node()),
                (true, Some(loss(true))),
                (true, Some(loss(true))),
            ],
            vec![again, again, kills],
        ),
        // It happens only where calls come soon after each other.
        (
            vec![
                (false, node()),
                (true, None),
                (true, node()),
                (true, node()),
            ],
            vec![again, again, again, kills],
        ),
        (
            vec![(true, node()), (true, None), (true, node()), (true, node())],
            vec![again, again, again, kills],
        ),
        (
            vec![(true, node()), (false, node()), (true, node())],
            vec![again, again, again],
        ),
    ] {
        let mut states = five();
        let next = tries.into_iter().map(|(alone, lost)| {
            let cut_off = if lost.is_some() {
                CutOff::InCall
            } else {
                CutOff::No
            };
            let seen = Try {
                alone,
                failed: true,
                cut_off,
                ..Try::default()
            };
            states.after(0, seen, lost.as_ref())
        });
        assert_eq!(Vec::from_iter(next), expected);
    }
}

#[test]
fn a_driver_that_died_once_by_itself_is_accused_after_more_deaths() {
    let mut states = five();
    let lost = loss(false);
    let mut dies = |index, dies: bool| {
        let seen = Try {
            alone: true,
            failed: dies,
            cut_off: if dies { CutOff::InCall } else { CutOff::No },
            ..Try::default()
        };
        states.after(index, seen, Some(&lost).filter(|_| dies))
    };
    assert_eq!(dies(0, true), Next::AgainAlone);
    // Where each call is waited after, it may not happen.
    assert_eq!(dies(0, false), Next::AgainAlone);
    assert_eq!(dies(0, false), Next::Counts);
    let next = [(); 5].map(|()| dies(1, true));
    assert_eq!(next[..4], [Next::AgainAlone; 4]);
    assert_eq!(next[4], Next::Kills);
}

#[test]
fn cases_that_went_well_and_losses_beside_others_accuse_no_driver_of_dying_anyway() {
    let lost = loss(false);
    let mut states = five();
    let mut tries = |index, alone, dies: bool| {
        let seen = Try {
            alone,
            failed: dies,
            cut_off: if dies { CutOff::InCall } else { CutOff::No },
            ..Try::default()
        };
        states.after(index, seen, Some(&lost).filter(|_| dies))
    };
    assert_eq!(tries(1, true, false), Next::Counts);
    assert_eq!(tries(0, false, true), Next::AgainAlone);
    assert_eq!(tries(0, true, false), Next::AgainAlone);
    assert_eq!(tries(0, true, false), Next::Counts);
    let next = [(); 3].map(|()| tries(2, true, true));
    assert_eq!(next, [Next::AgainAlone, Next::AgainAlone, Next::Kills]);
}

#[test]
fn the_run_waits_for_room_as_long_as_it_has_patience() {
    let mut states = five();
    states.patience = Duration::from_millis(150);
    let room = lacks(Lack::Room, 0, Some(true));
    let after = |milliseconds| Next::AgainAfter(Duration::from_millis(milliseconds));
    // Both cases wait from it.
    assert_eq!(states.after(0, room, None), after(50));
    assert_eq!(states.after(0, room, None), after(100));
    assert_eq!(states.after(1, room, None), after(50));
    assert_eq!(states.after(0, room, None), Next::Lacks);
    let ends = Try {
        run_ends: true,
        ..room
    };
    assert_eq!(five().after(0, ends, None), Next::Lacks);
}

#[test]
fn a_driver_that_goes_away_without_calls_too_is_not_accused_by_that_try() {
    let lost = loss(false);
    let mut states = five();
    // The first try does not count, and before the third death in a row it goes away while nobody calls.
    let tries = [false, false, true, false, false, false];
    let next = tries.map(|goes_anyway| {
        let seen = Try {
            alone: true,
            failed: true,
            cut_off: CutOff::InCall,
            goes_anyway,
            ..Try::default()
        };
        states.after(0, seen, Some(&lost))
    });
    assert_eq!(next[..5], [Next::AgainAlone; 5]);
    assert_eq!(next[5], Next::Interrupted);
}

#[test]
fn no_case_runs_again_in_a_run_that_ends() {
    let one = Try {
        run_ends: true,
        ..cut_off(CutOff::InCall, 0)
    };
    assert_eq!(decide(&one), Next::Interrupted);
    assert_eq!(
        decide(&Try {
            run_ends: true,
            ..FAILED
        }),
        Next::Counts
    );
}

#[test]
fn what_the_driver_lacks_is_no_failure_unless_it_was_not_given_back() {
    let back = Lack::Room.case().unwrap();
    let lacking = || Dependencies {
        on: Vec::new(),
        shortage: Some(Shortage {
            lack: Lack::Room,
            method: "CreateVolume",
            size: 1,
            told: "CreateVolume: it answered RESOURCE_EXHAUSTED: full".to_owned(),
            in_place_of_another: false,
        }),
    };
    let reason = |states: &mut CaseStates| states.judge(false).unwrap().reason.clone().unwrap();
    let mut all = states(&["a", back]);
    fail(&mut all, 0, lacking());
    assert!(all.is_awaited(1) && !all.is_awaited(0));
    assert!(all.judge(false).is_none());
    end(&mut all, 1, CaseOutcome::Passed);
    let told = reason(&mut all);
    assert!(
        told.starts_with("no room: CreateVolume: it answered"),
        "{told}"
    );
    let mut all = states(&["a", back]);
    fail(&mut all, 0, lacking());
    end(&mut all, 1, CaseOutcome::Failed);
    let told = reason(&mut all);
    assert!(told.starts_with("not judged: it rests on "), "{told}");
    // Where that case does not run, nothing is known.
    let mut all = states(&["a"]);
    fail(&mut all, 0, lacking());
    assert!(reason(&mut all).starts_with("no room: "));
}

#[test]
fn a_failure_waits_for_the_case_that_it_depends_on() {
    let mut states = five();
    fail(&mut states, 3, depending(vec!["b"]));
    fail(&mut states, 4, depending(vec!["b"]));
    end(&mut states, 1, CaseOutcome::Passed);
    assert_eq!(judged(&mut states, false), [alone("c")]);
    // What the other one depends on itself.
    fail(&mut states, 2, depending(vec!["a"]));
    assert_eq!(judged(&mut states, false), []);
    fail(&mut states, 0, depending(vec!["no/such"]));
    let all = [alone("a"), on("b@block", "a"), on("c@block", "a")];
    assert_eq!(judged(&mut states, false), all);
    assert_eq!(states.results().len(), 5);
}

#[test]
fn a_case_that_is_skipped_for_a_failed_one_says_why_and_rests_on_it() {
    let broken = |states: &mut CaseStates, index| {
        let mut result = result(states, index, CaseOutcome::Skipped);
        result.reason = Some("CreateVolume does not work here".to_owned());
        states.ends(index, result, depending(vec!["b"]));
    };
    let mut states = five();
    end(&mut states, 1, CaseOutcome::Failed);
    end(&mut states, 2, CaseOutcome::Passed);
    broken(&mut states, 3);
    broken(&mut states, 4);
    // And what depends on it.
    fail(&mut states, 0, depending(vec!["c"]));
    let all = [on("c", "b"), alone("c@block"), on("a", "b")];
    let mut found = judged(&mut states, true);
    found.sort_by_key(|(name, _)| all.iter().position(|(one, _)| one == name));
    assert_eq!(found, all);
    let reasons = states.results().into_iter().filter_map(|one| one.reason);
    let told = reasons.filter(|one| one == "CreateVolume does not work here");
    assert_eq!(told.count(), 2);
}

#[test]
fn of_failures_that_depend_on_each_other_the_first_stands() {
    let mut states = five();
    // It waits for them, and they do not depend on it.
    fail(&mut states, 0, depending(vec!["c"]));
    fail(&mut states, 1, depending(vec!["c"]));
    fail(&mut states, 3, depending(vec!["b"]));
    assert_eq!(judged(&mut states, false), []);
    let all = [alone("b"), on("c", "b"), on("a", "b")];
    let mut found = judged(&mut states, true);
    found.sort_by_key(|(name, _)| all.iter().position(|(one, _)| one == name));
    assert_eq!(found, all);
}
