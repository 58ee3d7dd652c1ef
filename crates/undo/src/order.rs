//! The order in which things are taken back, and what has to stay because something else could not be taken back.

use super::made::Item;
use super::requests::id;
use bytes::Bytes;
use csi_proto::schema::Field;
use csi_rpc::facts::{IdKind, Thing};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::PathBuf;

/// The numbers of all items, wave by wave: the items of a wave need nothing of each other. First what holds a volume, from
/// the target path down; then what was created, the last first, for one may be made from another; the folders last.
pub fn waves<'a>(items: impl Iterator<Item = (u64, &'a Item)>) -> Vec<Vec<u64>> {
    let mut all: Vec<_> = items.map(|(number, item)| (number, item.thing())).collect();
    all.sort_by_key(|(number, thing)| {
        let class = match thing {
            Some(thing) if thing.holds_volume() => (0, Some(*thing)),
            Some(_) => (1, None),
            None => (2, None),
        };
        (class, Reverse(*number))
    });
    // Folders lie in folders.
    let alike = |one: &(u64, Option<Thing>), next: &(u64, Option<Thing>)| {
        one.1.is_some() && one.1 == next.1
    };
    let waves = all.chunk_by(alike);
    waves
        .map(|wave| wave.iter().map(|(number, _)| *number).collect())
        .collect()
}

/// The things that could not be taken back and need other things.
#[derive(Debug, Default)]
pub struct InUse {
    /// The first in order of what is there of a volume.
    volumes: HashMap<Bytes, Thing>,
    /// Paths where something may be mounted, or a folder is.
    paths: Vec<PathBuf>,
}

impl InUse {
    /// Something could not be taken back.
    pub fn add(&mut self, item: &Item) {
        if let (Some(thing), Some(volume)) = (item.thing(), volume(item)) {
            let first = self.volumes.entry(volume).or_insert(thing);
            *first = thing.min(*first);
        }
        self.paths.extend(path(item));
    }

    /// Whether something needs this item: a volume in use is not unstaged, taken from its node or deleted, nor is a folder
    /// removed below which it may be mounted.
    pub fn needs(&self, item: &Item) -> bool {
        if let Item::Folder(folder) = item {
            return self.paths.iter().any(|path| path.starts_with(folder));
        }
        let first = volume(item).and_then(|volume| self.volumes.get(&volume));
        first.is_some_and(|first| Some(*first) < item.thing())
    }
}

/// The volume that an item is or belongs to, where that is known.
fn volume(item: &Item) -> Option<Bytes> {
    let Item::Thing { making, undo } = item else {
        return None;
    };
    let mut fields = making.identity();
    let volume = |field: &&Field| IdKind::of_field(field.name) == Some(IdKind::Volume);
    id(making, undo, fields.find(volume)?)
}

/// The path of an item on the node: that of a folder, or the one that a volume is mounted at.
fn path(item: &Item) -> Option<PathBuf> {
    match item {
        Item::Folder(path) => Some(path.clone()),
        Item::Thing { making, undo } => {
            let path = id(making, undo, making.path_field()?)?;
            Some(std::str::from_utf8(&path).ok()?.into())
        }
        Item::Asked { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::methods;
    use csi_proto::wire;

    /// An item whose undoing request says these texts, in the order of its fields; a folder for none.
    fn item(rpc: &str, ids: &[&str]) -> Item {
        let Some(method) = methods::by_name(rpc) else {
            return Item::Folder(rpc.into());
        };
        let mut undo = Vec::new();
        let making = csi_rpc::making(method).unwrap();
        for (field, id) in making.undone_by.request.fields.iter().zip(ids) {
            wire::put_bytes(&mut undo, field.number, id.as_bytes());
        }
        let undo = undo.into();
        Item::Thing { making, undo }
    }

    const NAMES: [&str; 6] = [
        "CreateVolume",
        "CreateSnapshot",
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "/folder",
    ];

    #[test]
    fn nothing_is_taken_from_under_something_else() {
        let [volume, snapshot, attached, staged, published, folder] = NAMES;
        for (made, expected) in [
            (vec![], vec![]),
            // A lifecycle.
            (
                vec![folder, folder, volume, attached, staged, published],
                vec![vec![5], vec![4], vec![3], vec![2], vec![1], vec![0]],
            ),
            // Cycles side by side.
            (
                vec![volume, volume, attached, published, attached, published],
                vec![vec![5, 3], vec![4, 2], vec![1, 0]],
            ),
            // A volume from a snapshot of a volume.
            (
                vec![volume, snapshot, volume],
                vec![vec![2], vec![1], vec![0]],
            ),
            (
                vec![volume, volume, snapshot, snapshot],
                vec![vec![3, 2], vec![1, 0]],
            ),
        ] {
            let made: Vec<Item> = made.into_iter().map(|name| item(name, &["v"])).collect();
            let numbered = made
                .iter()
                .enumerate()
                .map(|(number, item)| (number as u64, item));
            assert_eq!(waves(numbered), expected, "{made:?}");
        }
    }

    #[test]
    fn what_something_needs_stays() {
        let [volume, snapshot, attached, staged, published, _] = NAMES;
        let all = [
            item(published, &["v", "/f/target"]),
            item(staged, &["v", "/f/staging"]),
            item(attached, &["v", "node"]),
            item(volume, &["v"]),
            item(volume, &["w"]),
            item(snapshot, &["v"]),
            item("/f", &[]),
            item("/f/staging", &[]),
            item("/folder", &[]),
        ];
        for (stays, needed) in [
            (item(published, &["v", "/f/target"]), &[1, 2, 3, 6][..]),
            (item(staged, &["v", "/f/staging"]), &[2, 3, 6, 7]),
            (item(attached, &["v", "node"]), &[3]),
            (item(volume, &["v"]), &[]),
            (item(snapshot, &["v"]), &[]),
            (item("/f/staging", &[]), &[6, 7]),
        ] {
            let mut in_use = InUse::default();
            in_use.add(&stays);
            let found = all
                .iter()
                .enumerate()
                .filter(|(_, item)| in_use.needs(item));
            let found: Vec<usize> = found.map(|(place, _)| place).collect();
            assert_eq!(found, needed, "{stays:?}");
        }
    }
}
