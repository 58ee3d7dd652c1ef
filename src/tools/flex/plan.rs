//! What a call is to do, decided from what is known and what is mounted. Pure; does nothing.

use super::options::Options;
use super::request::How;
use super::state::{State, Use, VolumeLocation};
use std::path::Path;
use thiserror::Error;

/// What a call wants: a volume at a place, used so.
pub struct Wanted<'a> {
    /// The volume's id.
    pub volume: &'a str,
    /// The place.
    pub place: &'a VolumeLocation,
    /// How it is to be used.
    pub how: &'a How,
}

impl Wanted<'_> {
    /// What is noted before it is done.
    pub fn begun(&self, options: Options) -> Use {
        Use {
            volume: self.volume.to_owned(),
            place: self.place.clone(),
            how: self.how.clone(),
            done: false,
            mounted: false,
            options,
            device: String::new(),
            name: String::new(),
            size: 0,
        }
    }
}

/// What bringing a volume to a place takes.
#[derive(Debug, PartialEq, Eq)]
pub enum Up<'a> {
    /// It is to be done, perhaps once more.
    Act,
    /// It is there.
    There(&'a Use),
}

/// What taking a volume away from a path takes.
#[derive(Debug, PartialEq, Eq)]
pub enum Down<'a> {
    /// It is not there.
    Nothing,
    /// It is there, or may be.
    Undo(&'a Use),
    /// Nothing is known of the place, and something is mounted there.
    UndoUnknown,
}

/// Why a call is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// Another volume is there.
    #[error("the volume {0} is there")]
    OtherVolume(String),
    /// It is there in another way.
    #[error(
        "the volume is there already with another capability, or read-only where it was not to be"
    )]
    OtherWay,
    /// It is attached elsewhere.
    #[error("the volume is attached to the node {0}, and is for one node at a time")]
    OtherNode(String),
    /// It is published elsewhere.
    #[error("the volume is published at {0}, and has a single writer")]
    OtherPath(String),
    /// It is not staged at that path.
    #[error("the volume is not staged at staging_target_path")]
    NotStaged,
    /// It is not attached to this node.
    #[error(
        "publish_context has no device: the volume is not attached, or this is not what attaching it answered"
    )]
    NotAttached,
    /// Its options are not known.
    #[error(
        "the volume is not attached as far as is known, so that the options of the call-out are missing"
    )]
    NoOptions,
}

/// What is to be done to have a volume at a place; `is_mounted` tells mount points.
///
/// # Errors
/// When it is refused.
pub fn up<'a>(
    state: &'a State,
    wanted: &Wanted<'_>,
    is_mounted: impl Fn(&Path) -> bool,
) -> Result<Up<'a>, Refusal> {
    let Wanted { volume, place, how } = *wanted;
    let known = state.at(volume, place);
    if let Some(known) = known {
        if known.volume != volume {
            return Err(Refusal::OtherVolume(known.volume.clone()));
        }
        if known.how != *how {
            return Err(Refusal::OtherWay);
        }
    }
    for other in state.of(volume).filter(|other| other.place != *place) {
        match (place, &other.place) {
            (VolumeLocation::Node(_), VolumeLocation::Node(node))
                if how.is_of_one_node() || other.how.is_of_one_node() =>
            {
                return Err(Refusal::OtherNode(node.clone()));
            }
            (VolumeLocation::Target(_), VolumeLocation::Target(path))
                if how.is_of_one_path() || other.how.is_of_one_path() =>
            {
                return Err(Refusal::OtherPath(path.display().to_string()));
            }
            _ => {}
        }
    }
    let stands = |known: &&Use| match &known.place {
        // A restart of the machine, or somebody's umount, takes mounts away and leaves what is known.
        VolumeLocation::Staging(path) | VolumeLocation::Target(path) => {
            !known.mounted || is_mounted(path)
        }
        VolumeLocation::Node(_) => true,
    };
    let there = known.filter(|known| known.done).filter(stands);
    Ok(there.map_or(Up::Act, Up::There))
}

/// What is to be done so that a volume is at a path no more.
pub fn down<'a>(
    state: &'a State,
    volume: &str,
    place: &VolumeLocation,
    is_mounted: impl Fn(&Path) -> bool,
) -> Down<'a> {
    match (state.at(volume, place), place) {
        (Some(known), _) if known.volume == volume => Down::Undo(known),
        // Another volume's place.
        (Some(_), _) => Down::Nothing,
        (None, VolumeLocation::Staging(path) | VolumeLocation::Target(path))
            if is_mounted(path) =>
        {
            Down::UndoUnknown
        }
        (None, _) => Down::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(mode: &str, readonly: bool) -> How {
        How {
            mode: mode.to_owned(),
            readonly,
            ..How::default()
        }
    }

    fn known(volume: &str, place: &VolumeLocation, how: &How, done: bool) -> Use {
        let wanted = Wanted { volume, place, how };
        Use {
            done,
            mounted: true,
            ..wanted.begun(Options::new())
        }
    }

    fn state(uses: &[&Use]) -> State {
        let mut state = State::default();
        uses.iter().for_each(|one| state.put((*one).clone()));
        state
    }

    #[test]
    fn the_way_up() {
        let (here, there) = (
            VolumeLocation::Target("/a".into()),
            VolumeLocation::Target("/b".into()),
        );
        let staging = VolumeLocation::Staging("/a".into());
        let (node, other) = (
            VolumeLocation::Node("1".into()),
            VolumeLocation::Node("2".into()),
        );
        let (writer, reader) = (
            how("SINGLE_NODE_WRITER", false),
            how("SINGLE_NODE_WRITER", true),
        );
        let single = how("SINGLE_NODE_SINGLE_WRITER", false);
        let many = how("MULTI_NODE_MULTI_WRITER", false);
        let unmounted = |one: Use| Use {
            mounted: false,
            ..one
        };
        let done = known("v", &here, &writer, true);
        let odd = unmounted(done.clone());
        let attached = known("v", &node, &writer, true);
        let other_path = || Err(Refusal::OtherPath("/b".into()));
        for (uses, place, how, mounted, expected) in [
            (&[][..], &here, &writer, false, Ok(Up::Act)),
            (&[&done], &here, &writer, true, Ok(Up::There(&done))),
            // The mount is gone.
            (&[&done], &here, &writer, false, Ok(Up::Act)),
            // It has never been a mount: some drivers write files.
            (&[&odd], &here, &writer, false, Ok(Up::There(&odd))),
            (
                &[&known("v", &here, &writer, false)],
                &here,
                &writer,
                true,
                Ok(Up::Act),
            ),
            (&[&done], &here, &reader, true, Err(Refusal::OtherWay)),
            (
                &[&known("w", &here, &writer, true)],
                &here,
                &writer,
                true,
                Err(Refusal::OtherVolume("w".into())),
            ),
            (&[&done], &staging, &writer, true, Ok(Up::Act)),
            (
                &[&known("v", &there, &writer, true)],
                &here,
                &writer,
                false,
                Ok(Up::Act),
            ),
            (
                &[&known("v", &there, &single, true)],
                &here,
                &writer,
                false,
                other_path(),
            ),
            (
                &[&known("v", &there, &writer, false)],
                &here,
                &single,
                false,
                other_path(),
            ),
            (
                &[&known("w", &there, &single, true)],
                &here,
                &single,
                false,
                Ok(Up::Act),
            ),
            (
                &[&attached],
                &node,
                &writer,
                false,
                Ok(Up::There(&attached)),
            ),
            (
                &[&attached],
                &other,
                &writer,
                false,
                Err(Refusal::OtherNode("1".into())),
            ),
            (
                &[&known("v", &node, &many, true)],
                &other,
                &many,
                false,
                Ok(Up::Act),
            ),
            (
                &[&known("w", &node, &writer, true)],
                &node,
                &writer,
                false,
                Ok(Up::Act),
            ),
        ] {
            let wanted = Wanted {
                volume: "v",
                place,
                how,
            };
            let state = state(uses);
            let found = up(&state, &wanted, |_| mounted);
            assert_eq!(found, expected, "{uses:?} {place:?}");
        }
    }

    #[test]
    fn the_way_down() {
        let here = VolumeLocation::Target("/a".into());
        let node = VolumeLocation::Node("1".into());
        let writer = how("SINGLE_NODE_WRITER", false);
        let (done, begun) = (
            known("v", &here, &writer, true),
            known("v", &here, &writer, false),
        );
        for (uses, place, mounted, expected) in [
            (&[][..], &here, false, Down::Nothing),
            (&[], &here, true, Down::UndoUnknown),
            (&[], &node, true, Down::Nothing),
            (&[&done], &here, false, Down::Undo(&done)),
            (&[&begun], &here, false, Down::Undo(&begun)),
            (
                &[&known("w", &here, &writer, true)],
                &here,
                true,
                Down::Nothing,
            ),
        ] {
            let state = state(uses);
            let found = down(&state, "v", place, |_| mounted);
            assert_eq!(found, expected, "{uses:?}");
        }
    }
}
