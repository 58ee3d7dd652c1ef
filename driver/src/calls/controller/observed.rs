//! Tells what is seen of shares: counts those that the controller knows and reaches, and the work that waits on them, for metrics,
//! and names to calls the one that does not answer. Changes nothing.

use super::Controller;
use super::error::ControllerError;
use super::known::{Known, Tried, reachable};
use super::looks::Silent;
use super::shares::Shares;
use crate::calls::operations::Busy;
use csi_nfs_store::export::Export;
use csi_nfs_store::metrics::{METRICS, count};
use csi_nfs_store::share::agents::{Capabilities, Quotas};
use csi_nfs_store::share::database::now;
use csi_nfs_store::share::measures::MeasuredShare;
use csi_proto::lock::lock;
use std::time::{Duration, Instant};

impl Shares {
    /// Why a call has no result yet that waits for an operation on `export`: the share, where that does not answer.
    pub(crate) fn busy(&self, export: &Export, busy: Busy) -> ControllerError {
        match self.looks.silent_with(export, Instant::now()) {
            Some(silent) => silent.into(),
            None => busy.into(),
        }
    }

    /// Why a call has no result after `timeout` that only looks: at the share `about`, or at all of them.
    pub(super) fn no_answer(&self, about: Option<&Export>, timeout: Duration) -> ControllerError {
        let now = Instant::now();
        let silent = match about {
            Some(export) => self.looks.silent_with(export, now),
            None => self.looks.all_silent(now).into_iter().next(),
        };
        silent.map_or(ControllerError::Slow(timeout), ControllerError::from)
    }

    /// What the agent can that lives on the server of `export`, to which purges and copies can be left, if one does.
    pub(super) fn saw_agent(&self, export: &Export, agent: Option<Capabilities>) {
        let found = || Some((Instant::now(), agent.clone()));
        let replace = |share: &mut Known| std::mem::replace(&mut share.agent, found());
        let Some(before) = self.on_known(export, replace) else {
            return;
        };
        let before = before.and_then(|(_, before)| before);
        match (before, agent) {
            (before, Some(can)) if before.as_ref() != Some(&can) => {
                (self.config.notice)(&format!("{export}: an agent lives on its server: {can}"));
            }
            (Some(_), None) => {
                (self.config.notice)(&format!("{export}: no agent lives on its server any more"));
            }
            _ => {}
        }
    }

    /// Tells what was found of a `subject`: each thing once, though each look finds it again.
    pub(super) fn tell(&self, export: &Export, subject: &'static str, found: Vec<String>) {
        let told = self.on_known(export, |share| share.told.insert(subject, found.clone()));
        let told = told.flatten().unwrap_or_default();
        for text in found.iter().filter(|it| !told.contains(it)) {
            (self.config.notice)(text);
        }
    }
}

impl From<Silent> for ControllerError {
    fn from(silent: Silent) -> Self {
        Self::NoAnswer {
            export: silent.export,
            silent_for: silent.since.elapsed(),
        }
    }
}

/// What is told of a share. It may have several addresses, at each of which something was found.
struct Seen {
    /// Where it is looked for first.
    address: Export,
    /// Whether it answers at all addresses that were needed lately.
    is_reached: bool,
    is_attended: bool,
    /// Whether somebody enforces the sizes of its volumes: this process, or an agent.
    is_limited: bool,
    not_held: usize,
    trash: usize,
    measured: MeasuredShare,
}

impl Shares {
    /// The shares on which something is told that somebody has to see to.
    pub(super) fn troubled(&self) -> Vec<Export> {
        let seen = self.seen().into_iter();
        let troubled = seen.filter(|it| it.trash > 0 || it.not_held > 0);
        troubled.map(|it| it.address).collect()
    }

    /// All shares that count now. What nobody has looked at for long is not told: another controller may lead by now, and it would
    /// sound an alarm for ever.
    fn seen(&self) -> Vec<Seen> {
        let (now, limit) = (Instant::now(), self.config.forget_after);
        let silent = self.looks.all_silent(now);
        let shares = self.by_addresses();
        let known = lock(&self.known);
        let state = |export: &Export, share: &Known| {
            let silent = silent.iter().find(|it| it.export == *export);
            let silent = silent.map(|it| Tried {
                at: it.needed,
                opened: false,
            });
            reachable(silent.or(share.tried), now, limit)
        };
        let seen = shares.into_iter().filter_map(|share| {
            let addresses = share.addresses.iter();
            let all: Vec<_> = addresses.filter_map(|it| known.get_key_value(it)).collect();
            // Calls name an address, and those fail whose address does not answer.
            let states = all
                .iter()
                .filter_map(|(export, share)| state(export, share));
            let is_reached = states.reduce(|one, other| one && other)?;
            let shares = || all.iter().map(|(_, share)| *share);
            let trash = last(shares().map(|share| share.trash));
            let trash = trash.filter(|(at, _)| now.saturating_duration_since(*at) < limit);
            let measured = last(shares().map(|share| share.measured));
            let agent = shares().filter_map(|share| share.agent.as_ref());
            let agent = agent.max_by_key(|(at, _)| *at);
            let agent = agent.and_then(|(_, agent)| agent.as_ref());
            let held_by_agent = agent.is_some_and(|can| can.quotas == Quotas::Enforced);
            Some(Seen {
                address: (*all.first()?.0).clone(),
                is_reached,
                is_attended: agent.is_some(),
                is_limited: held_by_agent || shares().any(|share| share.limits.sets_limits),
                not_held: share
                    .uuid
                    .map_or(0, |uuid| self.agent_memory.not_held(uuid, limit)),
                trash: trash.map_or(0, |(_, left)| left),
                measured: measured.map(|(_, sum)| sum).unwrap_or_default(),
            })
        });
        seen.collect()
    }
}

/// What was found last.
fn last<T>(found: impl Iterator<Item = Option<(Instant, T)>>) -> Option<(Instant, T)> {
    found.flatten().max_by_key(|(at, _)| *at)
}

impl Controller {
    /// Tells the metrics what there is now.
    pub fn observe(&self) {
        let seen = self.shares.seen();
        let those = |is_one: fn(&Seen) -> bool| count(seen.iter().filter(|it| is_one(it)).count());
        METRICS.shares.set(count(seen.len()));
        METRICS.shares_reachable.set(those(|it| it.is_reached));
        METRICS.shares_attended.set(those(|it| it.is_attended));
        METRICS.shares_limited.set(those(|it| it.is_limited));
        let sum = |of: fn(&Seen) -> usize| count(seen.iter().map(of).sum());
        METRICS.volumes_not_held.set(sum(|it| it.not_held));
        METRICS.trash_entries.set(sum(|it| it.trash));
        let measured = seen.iter().map(|it| it.measured);
        tell(measured.fold(MeasuredShare::default(), MeasuredShare::and));
        METRICS
            .copies_in_progress
            .set(count(self.shares.copies.count()));
    }
}

fn tell(measured: MeasuredShare) {
    METRICS.volumes_measured.set(count(measured.volumes));
    let bytes = i64::try_from(measured.bytes).unwrap_or(i64::MAX);
    METRICS.measured_bytes.set(bytes);
    METRICS.volumes_beyond_size.set(count(measured.beyond));
    let age = measured.oldest.map(|oldest| now().saturating_sub(oldest));
    let age = i64::try_from(age.unwrap_or_default()).unwrap_or(i64::MAX);
    METRICS.oldest_measure_seconds.set(age);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::controller::ControllerConfig;
    use csi_nfs_store::files::roots::local::LocalRoots;
    use csi_nfs_store::share::token::ShareUuid;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(600);

    fn address(server: &str) -> Export {
        Export::parse(server, "/x").unwrap()
    }

    /// A controller that was started with these addresses of one share, of which `found` says what it knows.
    fn one_share(servers: &[&str], found: impl Fn(&str, &mut Known)) -> Arc<Shares> {
        let mut config = ControllerConfig::new(Arc::new(LocalRoots::new([])));
        config.other_exports = servers.iter().map(|it| address(it)).collect();
        config.forget_after = LONG;
        let (shares, uuid) = (Shares::new(config), ShareUuid::random().unwrap());
        for server in servers {
            shares.on_known(&address(server), |share| {
                share.uuid = Some(uuid);
                found(server, share);
            });
        }
        Arc::new(shares)
    }

    /// So long before `now`.
    fn ago(age: Duration, now: Instant) -> Instant {
        now.checked_sub(age).unwrap()
    }

    #[test]
    fn a_share_is_reached_where_it_answers_at_all_addresses_that_are_needed() {
        let now = Instant::now();
        let well = Some((true, Duration::ZERO));
        let bad = Some((false, Duration::ZERO));
        let was_bad = Some((false, LONG));
        for (a, b, expected) in [
            (well, well, Some(true)),
            (bad, well, Some(false)),
            (well, bad, Some(false)),
            (was_bad, well, Some(true)),
            (well, was_bad, Some(true)),
            (was_bad, bad, Some(false)),
            (was_bad, was_bad, None),
        ] {
            let shares = one_share(&["a", "b"], |server, share| {
                let last = if server == "a" { a } else { b };
                share.tried = last.map(|(opened, age)| Tried {
                    at: ago(age, now),
                    opened,
                });
            });
            let seen: Vec<_> = shares.seen().iter().map(|it| it.is_reached).collect();
            assert_eq!(seen, Vec::from_iter(expected), "{a:?} {b:?}");
        }
    }

    #[test]
    fn of_a_share_with_two_addresses_it_is_told_what_was_found_last() {
        let now = Instant::now();
        let agent = Capabilities {
            quotas: Quotas::Enforced,
            ..Capabilities::default()
        };
        for newer in ["a", "b"] {
            let shares = one_share(&["a", "b"], |server, share| {
                let is_newer = server == newer;
                let at = if is_newer { now } else { ago(LONG / 2, now) };
                share.tried = Some(Tried { at, opened: true });
                share.agent = Some((at, is_newer.then(|| agent.clone())));
                share.trash = Some((at, if is_newer { 0 } else { 3 }));
                let measured = MeasuredShare {
                    volumes: if is_newer { 5 } else { 7 },
                    ..MeasuredShare::default()
                };
                share.measured = Some((at, measured));
            });
            let seen = shares.seen();
            let [share] = seen.as_slice() else {
                panic!("{} shares", seen.len());
            };
            assert!(share.is_attended && share.is_limited, "{newer}");
            assert_eq!((share.trash, share.measured.volumes), (0, 5), "{newer}");
        }
    }

    #[test]
    fn what_nobody_has_looked_at_for_long_is_not_told() {
        let now = Instant::now();
        for (age, expected) in [(LONG / 2, 3), (LONG, 0)] {
            let shares = one_share(&["a"], |_, share| {
                share.tried = Some(Tried {
                    at: ago(age, now),
                    opened: true,
                });
                share.trash = Some((ago(age, now), 3));
            });
            let trash: usize = shares.seen().iter().map(|it| it.trash).sum();
            assert_eq!(trash, expected, "{age:?}");
            assert_eq!(shares.troubled().len(), expected.min(1), "{age:?}");
        }
    }
}
