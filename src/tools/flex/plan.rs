//! What a call is to do, decided from what is known and what is mounted. Pure; does nothing.

use super::state::{State, Use, VolumeLocation};
use thiserror::Error;

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

/// What is there already of a volume that is to be at a place; nothing where bringing it there is to be done, perhaps once more.
/// `is_mounted` says of a path whether it is a mount point.
pub fn up<'a>(state: &'a State, new: &Use, is_mounted: bool) -> Result<Option<&'a Use>, Refusal> {
    let (place, how) = (&new.place, &new.how);
    let known = state.at(&new.volume, place);
    if let Some(known) = known {
        if known.volume != new.volume {
            return Err(Refusal::OtherVolume(known.volume.clone()));
        }
        if known.how != *how {
            return Err(Refusal::OtherWay);
        }
    }
    for other in state.of(&new.volume).filter(|other| other.place != *place) {
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
    // A restart of the machine, or somebody's umount, takes mounts away and leaves what is known.
    Ok(known.filter(|known| known.done && (!known.mounted || is_mounted)))
}

/// What is to be done so that a volume is at a path no more.
pub fn down<'a>(
    state: &'a State,
    volume: &str,
    place: &VolumeLocation,
    is_mounted: bool,
) -> Down<'a> {
    match state.at(volume, place) {
        Some(known) if known.volume == volume => Down::Undo(known),
        None if is_mounted => Down::UndoUnknown,
        // Another volume's place, or nobody's.
        _ => Down::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::super::request::How;
    use super::*;

    fn how(mode: &str, readonly: bool) -> How {
        How {
            mode: mode.to_owned(),
            readonly,
            ..How::default()
        }
    }

    fn known(volume: &str, place: &VolumeLocation, how: &How, done: bool) -> Use {
        Use {
            done,
            mounted: place.path().is_some(),
            ..Use::begun(volume, place.clone(), how.clone(), Options::new())
        }
    }

    fn state(uses: &[&Use]) -> State {
        let mut state = State::default();
        uses.iter().for_each(|one| state.put((*one).clone()));
        state
    }

    #[test]
    fn the_way_up() {
        use Refusal::{OtherNode, OtherPath, OtherVolume, OtherWay};
        let target = |path: &str| VolumeLocation::Target(path.into());
        let on = |node: &str| VolumeLocation::Node(node.into());
        let (here, there, node, other) = (target("/a"), target("/b"), on("1"), on("2"));
        let staging = VolumeLocation::Staging("/a".into());
        let writer = how("SINGLE_NODE_WRITER", false);
        let reader = how("SINGLE_NODE_WRITER", true);
        let single = how("SINGLE_NODE_SINGLE_WRITER", false);
        let many = how("MULTI_NODE_MULTI_WRITER", false);
        let done = known("v", &here, &writer, true);
        // It has never been a mount: some drivers write files.
        let odd = Use {
            mounted: false,
            ..done.clone()
        };
        let begun = known("v", &here, &writer, false);
        let w_here = known("w", &here, &writer, true);
        let there_too = known("v", &there, &writer, true);
        let there_alone = known("v", &there, &single, true);
        let there_begun = known("v", &there, &writer, false);
        let w_there = known("w", &there, &single, true);
        let attached = known("v", &node, &writer, true);
        let by_many = known("v", &node, &many, true);
        let w_attached = known("w", &node, &writer, true);
        let other_path = || Err(OtherPath("/b".into()));
        let other_volume = || Err(OtherVolume("w".into()));
        let other_node = || Err(OtherNode("1".into()));
        for (before, place, how, mounted, is_there) in [
            (None, &here, &writer, false, Ok(false)),
            (Some(&done), &here, &writer, true, Ok(true)),
            // The mount is gone.
            (Some(&done), &here, &writer, false, Ok(false)),
            (Some(&odd), &here, &writer, false, Ok(true)),
            (Some(&begun), &here, &writer, true, Ok(false)),
            (Some(&done), &here, &reader, true, Err(OtherWay)),
            (Some(&w_here), &here, &writer, true, other_volume()),
            (Some(&done), &staging, &writer, true, Ok(false)),
            (Some(&there_too), &here, &writer, false, Ok(false)),
            (Some(&there_alone), &here, &writer, false, other_path()),
            (Some(&there_begun), &here, &single, false, other_path()),
            (Some(&w_there), &here, &single, false, Ok(false)),
            (Some(&attached), &node, &writer, false, Ok(true)),
            (Some(&attached), &other, &writer, false, other_node()),
            (Some(&by_many), &other, &many, false, Ok(false)),
            (Some(&w_attached), &node, &writer, false, Ok(false)),
        ] {
            let new = known("v", place, how, false);
            let state = state(before.as_slice());
            let found = up(&state, &new, mounted);
            let expected = is_there.map(|is_there| before.filter(|_| is_there));
            assert_eq!(found, expected, "{before:?} {place:?}");
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
            (&[], &node, false, Down::Nothing),
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
            let found = down(&state, "v", place, mounted);
            assert_eq!(found, expected, "{uses:?}");
        }
    }
}
