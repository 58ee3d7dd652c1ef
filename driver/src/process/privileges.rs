//! Linux capabilities: which the driver needs in each mode, and giving up all others when it starts. Owns those sets; must
//! not decide what a process does with them.
//!
//! The process that serves keeps in effect what it does to files itself. What mounting takes it may only pass on: the
//! helper processes, which do nothing else, have it in effect (capabilities(7): permitted, inheritable and ambient).

use crate::process::config::{Config, Mode};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use std::io;

/// What some mode needs, and for what.
const USES: [(CapabilitySet, &str); 8] = [
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN (mounts, quotas)"),
    (
        CapabilitySet::SYS_CHROOT,
        "CAP_SYS_CHROOT (bind mounts, mounts of a subDir)",
    ),
    (
        CapabilitySet::FOWNER,
        "CAP_FOWNER (deleting and copying files of other users)",
    ),
    (CapabilitySet::MKNOD, "CAP_MKNOD (copies of device files)"),
    (
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE (folders of other users on this machine)",
    ),
    (CapabilitySet::CHOWN, "CAP_CHOWN (owners on local shares)"),
    (
        CapabilitySet::FSETID,
        "CAP_FSETID (set-group-id bits on local shares)",
    ),
    (
        CapabilitySet::SETFCAP,
        "CAP_SETFCAP (copies of file capabilities on local shares)",
    ),
];

/// All that a helper process ever uses.
const MOUNTING: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// The capabilities that a driver needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// In effect in the process that serves.
    pub own: CapabilitySet,
    /// In effect in its helper processes alone.
    pub helpers: CapabilitySet,
}

impl Needs {
    /// What the driver that `config` describes needs to do all that it can be asked for.
    pub fn of(config: &Config) -> Self {
        let mut own = CapabilitySet::empty();
        let mut helpers = CapabilitySet::SYS_ADMIN;
        let local = !config.local_shares.is_empty();
        if config.mode.controller() {
            // The server decides what root may do to its files; these two the kernel asks for on the client, too.
            own |= CapabilitySet::FOWNER | CapabilitySet::MKNOD;
            if local {
                // The last is for trusted.* attributes, and quotas. None is CAP_SYS_RESOURCE: see of_agent.
                own |= CapabilitySet::CHOWN
                    | CapabilitySet::DAC_OVERRIDE
                    | CapabilitySet::FSETID
                    | CapabilitySet::SETFCAP
                    | CapabilitySet::SYS_ADMIN;
            }
        }
        if config.mode.node() {
            helpers |= CapabilitySet::SYS_CHROOT;
            if local {
                helpers |= CapabilitySet::DAC_OVERRIDE;
            }
            if local && config.upstream {
                // The owner and mode that volumes of kubernetes-csi's driver ask for when they are mounted.
                helpers |= CapabilitySet::CHOWN | CapabilitySet::FOWNER | CapabilitySet::FSETID;
            }
        }
        if config.mode == Mode::All {
            // Both services in one process are for one machine, where targets may lie in anybody's folders.
            own |= CapabilitySet::DAC_OVERRIDE;
            helpers |= CapabilitySet::DAC_OVERRIDE;
        }
        Self { own, helpers }
    }

    /// What an agent needs, which starts no helpers and mounts nothing: to read and make every file on its own file systems, with
    /// all that belongs to one.
    ///
    /// Not CAP_SYS_RESOURCE, which would let it write past every limit. To set limits takes CAP_SYS_ADMIN, nothing else does.
    pub fn of_agent(sets_quotas: bool) -> Self {
        let quotas = match sets_quotas {
            true => CapabilitySet::SYS_ADMIN,
            false => CapabilitySet::empty(),
        };
        let own = quotas
            | CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::FOWNER
            | CapabilitySet::CHOWN
            | CapabilitySet::FSETID
            | CapabilitySet::MKNOD
            | CapabilitySet::SETFCAP;
        Self {
            own,
            helpers: CapabilitySet::empty(),
        }
    }

    /// All of them.
    pub fn all(self) -> CapabilitySet {
        self.own | self.helpers
    }
}

/// Gives up for good all capabilities but those of `needs`, in every set that this thread has, also the bounding set as far
/// as CAP_SETPCAP allows. To be called before threads start. Returns the needed ones that are missing, in words.
pub fn keep_only(needs: Needs) -> io::Result<Vec<&'static str>> {
    let before = capabilities(None)?;
    if before.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..u64::BITS {
            let one = CapabilitySet::from_bits_retain(1 << number);
            match capability_is_in_bounding_set(one) {
                Ok(true) if !needs.all().contains(one) => remove_capability_from_bounding_set(one)?,
                Ok(_) => {}
                // One more than the kernel has.
                Err(_) => break,
            }
        }
    }
    let passed_on = needs.helpers & before.permitted;
    replace(
        needs.own & before.permitted,
        needs.all() & before.permitted,
        passed_on,
    )?;
    let missing = USES
        .iter()
        .filter(|(one, _)| needs.all().contains(*one) && !before.permitted.contains(*one));
    Ok(missing.map(|(_, words)| *words).collect())
}

/// For a helper process: gives up all that mounting does not take.
pub fn keep_for_mounting() -> io::Result<()> {
    let kept = passed_on()?;
    replace(kept, kept, CapabilitySet::empty())
}

/// For the process that starts helpers: keeps nothing in effect, and passes on what mounting takes.
pub fn pass_on_mounting() -> io::Result<()> {
    let kept = passed_on()?;
    replace(CapabilitySet::empty(), kept, kept)
}

/// What mounting may use of what the process that has started this one meant to pass on; of all, where it said nothing.
fn passed_on() -> io::Result<CapabilitySet> {
    let sets = capabilities(None)?;
    let meant = match sets.inheritable {
        nothing if nothing.is_empty() => sets.permitted,
        some => some & sets.permitted,
    };
    Ok(meant & MOUNTING)
}

/// Gives this thread these sets. What is inheritable is ambient, too: the programs that it starts have that in effect.
fn replace(
    effective: CapabilitySet,
    permitted: CapabilitySet,
    inheritable: CapabilitySet,
) -> io::Result<()> {
    match clear_ambient_capability_set() {
        // Kernels before 4.3 have no such set.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(errno) => return Err(errno.into()),
    }
    let sets = CapabilitySets {
        effective,
        permitted,
        inheritable,
    };
    set_capabilities(None, sets)?;
    for one in inheritable {
        configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::node::request::tests::config;

    #[test]
    fn every_need_has_a_reason() {
        let known = USES
            .iter()
            .fold(CapabilitySet::empty(), |all, (one, _)| all | *one);
        for mode in [Mode::All, Mode::Controller, Mode::Node] {
            for local in [false, true] {
                let mut config = config();
                config.mode = mode;
                if local {
                    config.local_shares = vec!["nas:/srv=/srv".parse().unwrap()];
                }
                let needs = Needs::of(&config);
                assert!(known.contains(needs.all()), "{mode:?} {needs:?}");
                assert!(MOUNTING.contains(needs.helpers), "{mode:?} {needs:?}");
            }
        }
    }

    #[test]
    fn an_agent_writes_past_no_limit() {
        for sets_quotas in [false, true] {
            let needs = Needs::of_agent(sets_quotas).all();
            assert!(!needs.contains(CapabilitySet::SYS_RESOURCE));
            assert_eq!(needs.contains(CapabilitySet::SYS_ADMIN), sets_quotas);
            let known = USES.iter().map(|(one, _)| *one);
            assert!(known.collect::<CapabilitySet>().contains(needs));
        }
    }

    #[test]
    fn a_controller_that_holds_volumes_to_their_sizes_has_what_that_takes() {
        let mut config = config();
        config.mode = Mode::Controller;
        config.local_shares = vec!["nas:/srv=/srv".parse().unwrap()];
        config.quotas = true;
        let needs = Needs::of(&config);
        assert!(needs.own.contains(Needs::of_agent(true).own));
        assert!(!needs.all().contains(CapabilitySet::SYS_RESOURCE));
    }

    #[test]
    fn a_node_process_needs_nothing_itself() {
        let mut config = config();
        config.mode = Mode::Node;
        let needs = Needs::of(&config);
        assert!(needs.own.is_empty());
        let mounting = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_CHROOT;
        assert_eq!(needs.helpers, mounting);
    }
}
