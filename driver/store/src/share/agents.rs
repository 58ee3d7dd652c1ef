//! Agents: processes on the server of a share that make copies and purge the trash where the folder lies. Owns `agents/` on the
//! share, in which each says with a file of its own that it lives and what it can. What it does is the business of `life` and
//! `trash`, as for everybody else.
//!
//! Such a file is a sign of life, as that of a copy (`heartbeat`): it is made once, touched again and again, and dead by the same
//! rule. A full share takes the touch. Two agents, started by mistake, both live. An agent that was wrongly taken for dead
//! finds its file gone, and announces itself anew.

use crate::files::beneath;
use crate::share::attempt::{heartbeat, process};
use crate::share::database::{Position, Share};
use crate::share::error::{Context, ShareError};
use crate::share::paths::sub_path::RECORDS_FOLDER;
use crate::share::records::format::{self, FORMAT};
use crate::share::requests::REQUESTS;
use crate::share::token::Nonce;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

const AGENTS: &str = "agents";
/// The longest announcement that is read, in bytes.
const LONGEST: u64 = 4096;

/// What an agent can do on the file system of its share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Whether files share their blocks with their copies (FICLONE).
    #[serde(default)]
    pub reflinks: bool,
    /// Whether it enforces the sizes of volumes.
    #[serde(default)]
    pub quotas: Quotas,
    /// Why it does not, where it was told to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Capabilities {
    /// What this process can make of the sizes of volumes on `share`, and nothing else.
    pub(super) fn of_quotas(share: &Share) -> Self {
        let (quotas, why) = match share.quotas() {
            None => (Quotas::None, None),
            Some(Ok(_)) => (Quotas::Enforced, None),
            Some(Err(why)) => (Quotas::Advisory, Some(why.to_string())),
        };
        Self {
            reflinks: false,
            quotas,
            why,
        }
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reflinks {
            true => "reflinks",
            false => "no reflinks",
        })?;
        match (self.quotas, &self.why) {
            (Quotas::None, _) => Ok(()),
            (Quotas::Enforced, _) => f.write_str(", quotas"),
            (Quotas::Advisory, why) => {
                write!(f, ", no quotas: {}", why.as_deref().unwrap_or_default())
            }
        }
    }
}

/// What an agent makes of the sizes of volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quotas {
    /// Nothing: nobody has told it to.
    #[default]
    None,
    /// They are advisory: it was told to hold volumes to them, and cannot.
    Advisory,
    /// It holds volumes to them.
    Enforced,
}

/// An agent, as it has announced itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub(super) format: u64,
    /// The version of its program.
    pub version: String,
    /// Its process, as claims name processes.
    pub process: String,
    /// What it can.
    #[serde(rename = "can")]
    pub capabilities: Capabilities,
}

/// The presence of this process on a share, for as long as this is held.
#[derive(Debug)]
pub struct Presence {
    folder: OwnedFd,
    name: String,
    /// Kept open for writing, so that no client holds up the next touch with a delegation.
    _file: OwnedFd,
    capabilities: Capabilities,
}

impl Presence {
    /// Announces this process on `share`.
    pub fn announce(share: &Share) -> Result<Self, ShareError> {
        let context = || format!("announcing this agent in {RECORDS_FOLDER}/{AGENTS}");
        let folder = share.make_part(AGENTS)?;
        let agent = Agent {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: process::own().to_owned(),
            capabilities: Capabilities {
                reflinks: has_reflinks(share).context(context)?,
                ..Capabilities::of_quotas(share)
            },
        };
        let name = Nonce::random().context(context)?.to_string();
        let file = share.replace_and_keep(&folder, &name, &agent)?;
        Ok(Self {
            folder,
            name,
            _file: file,
            capabilities: agent.capabilities,
        })
    }

    /// Announces this process anew where what it can make of the sizes of volumes is not what it said. Returns whether it did.
    pub fn renew(&mut self, share: &Share) -> Result<bool, ShareError> {
        let now = Capabilities::of_quotas(share);
        if (now.quotas, &now.why) == (self.capabilities.quotas, &self.capabilities.why) {
            return Ok(false);
        }
        // The new one first: nobody is to find none meanwhile.
        *self = Self::announce(share)?;
        Ok(true)
    }

    /// What was announced.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Says that this process lives. Returns false when the announcement is gone, and has to be made anew.
    ///
    /// # Errors
    /// Others than that, which say nothing about it.
    pub fn beat(&self) -> io::Result<bool> {
        match heartbeat::touch(&self.folder, &self.name) {
            Err(error) if beneath::is_gone(&error) => Ok(false),
            touched => touched.map(|_| true),
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // What stays is dead soon.
        let _ = fs::unlinkat(&self.folder, &*self.name, AtFlags::empty());
    }
}

/// Whether the share's file system clones files.
fn has_reflinks(share: &Share) -> io::Result<bool> {
    let names = [Nonce::random()?, Nonce::random()?].map(|nonce| format!("probe-{nonce}"));
    let made = names.iter().try_for_each(|name| {
        // Some content: what clones nothing might say nothing of an empty file.
        beneath::write_new(&share.drafts, name, &[1; 4096])
    });
    let cloned = made.and_then(|()| {
        let [from, to] = &names;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let from = beneath::file(&share.drafts, from)?;
        let to = fs::openat(&share.drafts, to.as_str(), flags, Mode::empty())?;
        Ok(fs::ioctl_ficlone(to, from).is_ok())
    });
    for name in &names {
        let _ = fs::unlinkat(&share.drafts, name.as_str(), AtFlags::empty());
    }
    cloned
}

/// The agent that work on `share` is to be left to: one that lives, for a process that is not on the server itself. Of several it
/// is one that enforces the sizes of volumes.
pub fn at_work(share: &Share) -> Result<Option<Agent>, ShareError> {
    if share.position != Position::Away {
        return Ok(None);
    }
    Ok(living(share)?.max_by_key(|agent| agent.capabilities.quotas))
}

/// Whether an agent lives that enforces the sizes of volumes, and is not this process.
pub(super) fn has_another_that_can(share: &Share) -> Result<bool, ShareError> {
    let can = |agent: &Agent| {
        agent.capabilities.quotas == Quotas::Enforced && agent.process != process::own()
    };
    Ok(living(share)?.any(|agent| can(&agent)))
}

fn living(share: &Share) -> Result<impl Iterator<Item = Agent>, ShareError> {
    let (all, _) = all(share)?;
    let living = all.into_iter().filter(|(_, _, is_dead)| !is_dead);
    Ok(living.filter_map(|(_, agent, _)| agent))
}

/// A folder in which something appears that an agent has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inbox {
    /// Records of volumes, by the keys of their names.
    Volumes,
    /// Records of snapshots, likewise.
    Snapshots,
    /// What is to be purged.
    Trash,
    /// Requests for limits.
    Requests,
}

/// The folders in which something appears that an agent has to do.
pub fn inboxes(share: &Share) -> Result<Vec<(Inbox, OwnedFd)>, ShareError> {
    let all = [
        (Inbox::Volumes, &share.volumes),
        (Inbox::Snapshots, &share.snapshots),
        (Inbox::Trash, &share.trash),
    ];
    let kept = all.map(|(inbox, folder)| Ok((inbox, folder.try_clone()?)));
    let kept: io::Result<Vec<_>> = kept.into_iter().collect();
    let mut kept = kept.context(|| "keeping folders open".to_owned())?;
    if share.quotas().is_some() {
        kept.extend(
            share
                .part_if_there(REQUESTS)?
                .map(|folder| (Inbox::Requests, folder)),
        );
    }
    Ok(kept)
}

/// Takes away what dead agents have left. Their claims on copies are dead too, by themselves. Returns what cannot be used.
pub fn sweep(share: &Share) -> Vec<ShareError> {
    let (all, odd) = match all(share) {
        Ok(found) => found,
        Err(error) => return vec![error],
    };
    for (name, _, _) in all.into_iter().filter(|(_, _, is_dead)| *is_dead) {
        if let Ok(Some(folder)) = share.part_if_there(AGENTS) {
            let _ = fs::unlinkat(&folder, name, AtFlags::empty());
        }
    }
    odd
}

/// An announcement by its name, with what it says, where that can be read, and whether it is dead.
type Announced = (String, Option<Agent>, bool);

/// All announcements, and why others are none.
fn all(share: &Share) -> Result<(Vec<Announced>, Vec<ShareError>), ShareError> {
    let context = || format!("looking for agents in {RECORDS_FOLDER}/{AGENTS}");
    let (mut all, mut odd) = (Vec::new(), Vec::new());
    let Some(folder) = share.part_if_there(AGENTS)? else {
        return Ok((all, odd));
    };
    let names = beneath::if_there(beneath::names_now(&folder)).context(context)?;
    let names = names.unwrap_or_default().into_iter();
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.sort_unstable();
    for name in names {
        let Ok(nonce) = name.parse::<Nonce>() else {
            continue;
        };
        // Of another format, or damaged by somebody: nobody leaves anything to it.
        let text = beneath::read(&folder, &name, LONGEST).ok();
        let agent: Option<Agent> = text.and_then(|text| format::parse(&text));
        let holder = agent.as_ref().map_or("", |agent| &agent.process);
        // A symlink or a folder in its place, or one that cannot be read, is nobody to whom anything is left.
        match heartbeat::has_stopped(&folder, &name, nonce, 0, holder) {
            Ok(is_dead) => all.push((name, agent, is_dead)),
            Err(source) => odd.push(ShareError::Io {
                context: format!("looking at the agent {RECORDS_FOLDER}/{AGENTS}/{name}"),
                source,
            }),
        }
    }
    Ok((all, odd))
}
