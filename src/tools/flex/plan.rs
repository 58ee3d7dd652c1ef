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
///
/// # Errors
/// When it is refused.
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
            (&[][..], &here, &writer, false, Ok(None)),
            (&[&done], &here, &writer, true, Ok(Some(&done))),
            // The mount is gone.
            (&[&done], &here, &writer, false, Ok(None)),
            // It has never been a mount: some drivers write files.
            (&[&odd], &here, &writer, false, Ok(Some(&odd))),
            (
                &[&known("v", &here, &writer, false)],
                &here,
                &writer,
                true,
                Ok(None),
            ),
            (&[&done], &here, &reader, true, Err(Refusal::OtherWay)),
            (
                &[&known("w", &here, &writer, true)],
                &here,
                &writer,
                true,
                Err(Refusal::OtherVolume("w".into())),
            ),
            (&[&done], &staging, &writer, true, Ok(None)),
            (
                &[&known("v", &there, &writer, true)],
                &here,
                &writer,
                false,
                Ok(None),
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
                Ok(None),
            ),
            (&[&attached], &node, &writer, false, Ok(Some(&attached))),
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
                Ok(None),
            ),
            (
                &[&known("w", &node, &writer, true)],
                &node,
                &writer,
                false,
                Ok(None),
            ),
        ] {
            let new = known("v", place, how, false);
            let state = state(uses);
            let found = up(&state, &new, mounted);
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
