//! The list of what calls have made: an item is noted before its call is sent, and forgotten when it is known to be gone.
//!
//! Decides from requests, codes and replies. Sends nothing, and knows no RPC by name.

use super::requests::{identity, name, undoing};
use bytes::Bytes;
use csi_proto::Method;
use csi_rpc::facts::{Making, Thing};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use tonic::Code;

/// Something to take back.
#[derive(Clone, Debug)]
pub enum Item {
    /// A thing that was asked for and may exist; only a reply holds its id.
    Asked {
        /// The RPC that makes it.
        method: &'static Method,
        /// The undoing of the thing.
        making: &'static Making,
        /// The requests under one name. Sent once more, they lead to the same thing.
        requests: Vec<Bytes>,
    },
    /// A thing that exists, or may exist, and whose ids are known.
    Thing {
        /// The undoing of the thing.
        making: &'static Making,
        /// The request that takes it back.
        undo: Bytes,
    },
    /// A folder of ours.
    Folder(PathBuf),
}

/// Everything that is there, or may be.
#[derive(Debug, Default)]
pub struct Made {
    entries: BTreeMap<u64, Entry>,
    numbers: HashMap<Identity, u64>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    item: Item,
    identity: Identity,
    /// Calls that ask for it at the moment.
    pending: u32,
    /// Whether it is there for certain.
    there: bool,
    /// Whether a call that asked for it ended in a way that leaves open what became of it.
    doubtful: bool,
}

/// The identity of an item, in which no two items agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Name(Thing, Bytes),
    Ids(Thing, Option<Bytes>),
    Folder(PathBuf),
}

impl Made {
    /// A call is about to be sent; the number of the item that it may make. `None` for a call that makes nothing, or says
    /// too little for anything to be taken back.
    pub fn asked(&mut self, method: &'static Method, request: &Bytes) -> Option<u64> {
        let making = csi_rpc::making(method)?;
        let item = match making.has_own_id() {
            false => Item::Thing {
                making,
                undo: undoing(method, making, request, None)?,
            },
            true => Item::Asked {
                method,
                making,
                requests: vec![request.clone()],
            },
        };
        let number = self.number_of(item);
        let entry = self.entries.get_mut(&number)?;
        entry.pending += 1;
        if let Item::Asked { requests, .. } = &mut entry.item
            && !requests.contains(request)
        {
            requests.push(request.clone());
        }
        Some(number)
    }

    /// A call that asked for an item has ended. The numbers of the items that this has changed, a new one first.
    pub fn answered(
        &mut self,
        number: u64,
        request: &Bytes,
        code: Code,
        reply: &Bytes,
    ) -> Vec<u64> {
        let Some(entry) = self.entries.get_mut(&number) else {
            return Vec::new();
        };
        entry.pending = entry.pending.saturating_sub(1);
        let mut changed = vec![number];
        match (&entry.item, code) {
            (Item::Asked { method, making, .. }, Code::Ok) => {
                let (making, undo) = (*making, undoing(method, making, request, Some(reply)));
                // The name leads to that id, however often it was asked for.
                entry.doubtful = undo.is_none();
                if let Some(undo) = undo {
                    changed.insert(0, self.add(Item::Thing { making, undo }));
                }
            }
            (_, Code::Ok) => entry.there = true,
            (_, code) => entry.doubtful |= leaves_it_open(code),
        }
        self.settle(number);
        changed
    }

    /// A call that asked for an item was never sent. The number of the item.
    pub fn withdrawn(&mut self, number: u64) -> Vec<u64> {
        // As what the driver refuses: it changes nothing.
        let (refused, none) = (Code::InvalidArgument, Bytes::new());
        self.answered(number, &none, refused, &none)
    }

    /// A call was answered with OK, which may have taken something back: the number of that.
    pub fn undone(&mut self, method: &Method, request: &Bytes) -> Option<u64> {
        let (_, making) = csi_rpc::maker_of(method)?;
        let ids = Identity::Ids(making.thing, identity(making, request));
        let number = *self.numbers.get(&ids)?;
        let entry = self.entries.get_mut(&number)?;
        (entry.there, entry.doubtful) = (false, false);
        self.settle(number);
        Some(number)
    }

    /// Calls whose end nobody has seen are over: what became of them is open.
    pub(crate) fn give_up_calls(&mut self) {
        for entry in self.entries.values_mut() {
            entry.doubtful |= entry.pending > 0;
            entry.pending = 0;
        }
    }

    /// Adds something that is there, or may be; its number.
    pub fn add(&mut self, item: Item) -> u64 {
        let number = self.number_of(item);
        if let Some(entry) = self.entries.get_mut(&number) {
            match entry.item {
                Item::Asked { .. } => entry.doubtful = true,
                _ => entry.there = true,
            }
        }
        number
    }

    /// The number of an item, a new one where it is not on the list.
    fn number_of(&mut self, item: Item) -> u64 {
        let identity = match &item {
            Item::Folder(path) => Identity::Folder(path.clone()),
            Item::Thing { making, undo } => Identity::Ids(making.thing, identity(making, undo)),
            Item::Asked {
                method,
                making,
                requests,
            } => {
                let name = requests.first().map(|request| name(method, request));
                Identity::Name(making.thing, name.unwrap_or_default())
            }
        };
        if let Some(number) = self.numbers.get(&identity) {
            return *number;
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(identity.clone(), number);
        let entry = Entry {
            item,
            identity,
            pending: 0,
            there: false,
            doubtful: false,
        };
        self.entries.insert(number, entry);
        number
    }

    /// Forgets what is not there.
    fn settle(&mut self, number: u64) {
        let entry = self.entries.get(&number);
        if entry.is_some_and(|entry| entry.pending == 0 && !entry.there && !entry.doubtful) {
            self.gone(number);
        }
    }

    /// Something is gone.
    pub fn gone(&mut self, number: u64) {
        if let Some(entry) = self.entries.remove(&number) {
            self.numbers.remove(&entry.identity);
        }
    }

    /// The item with that number, as long as it exists or may exist.
    pub fn get(&self, number: u64) -> Option<&Item> {
        self.entries.get(&number).map(|entry| &entry.item)
    }

    /// Everything with its number, in the order in which it was noted.
    pub fn all(&self) -> impl Iterator<Item = (u64, &Item)> {
        let entries = self.entries.iter();
        entries.map(|(number, entry)| (*number, &entry.item))
    }
}

impl Item {
    /// The thing; `None` for a folder.
    pub fn thing(&self) -> Option<Thing> {
        match self {
            Self::Asked { making, .. } | Self::Thing { making, .. } => Some(making.thing),
            Self::Folder(_) => None,
        }
    }
}

/// Whether a call that ended with this code may have taken effect, or may still.
pub fn leaves_it_open(code: Code) -> bool {
    matches!(
        code,
        Code::DeadlineExceeded
            | Code::Unavailable
            | Code::Aborted
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
            | Code::DataLoss
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::{tables, v1};
    use prost::Message as _;

    const CREATE: &Method = &tables::CONTROLLER_CREATE_VOLUME;
    const PUBLISH: &Method = &tables::NODE_NODE_PUBLISH_VOLUME;

    fn create(name: &str, size: i64) -> Bytes {
        let request = v1::CreateVolumeRequest {
            name: name.into(),
            capacity_range: Some(v1::CapacityRange {
                required_bytes: size,
                limit_bytes: 0,
            }),
            ..Default::default()
        };
        request.encode_to_vec().into()
    }

    fn created(id: &str) -> Bytes {
        let volume = Some(v1::Volume {
            volume_id: id.into(),
            ..Default::default()
        });
        v1::CreateVolumeResponse { volume }.encode_to_vec().into()
    }

    fn delete(id: &str) -> Bytes {
        let request = v1::DeleteVolumeRequest {
            volume_id: id.into(),
            ..Default::default()
        };
        request.encode_to_vec().into()
    }

    fn publish(volume: &str) -> Bytes {
        let request = v1::NodePublishVolumeRequest {
            volume_id: volume.into(),
            target_path: "/t".into(),
            ..Default::default()
        };
        request.encode_to_vec().into()
    }

    fn unpublish(volume: &str) -> Bytes {
        let request = v1::NodeUnpublishVolumeRequest {
            volume_id: volume.into(),
            target_path: "/t".into(),
        };
        request.encode_to_vec().into()
    }

    /// Of each item the request that takes it back, or those that asked for it.
    fn requests(made: &Made) -> Vec<Vec<Bytes>> {
        let requests = made.all().map(|(_, item)| match item {
            Item::Asked { requests, .. } => requests.clone(),
            Item::Thing { undo, .. } => vec![undo.clone()],
            Item::Folder(_) => Vec::new(),
        });
        requests.collect()
    }

    /// An event that changes the list.
    enum Event {
        Asked(&'static Method, Bytes),
        /// The call of that place among those asked has ended.
        Ended(usize, Code, Bytes),
        Undone(&'static Method, Bytes),
        GivenUp,
    }

    fn after(events: Vec<Event>) -> Vec<Vec<Bytes>> {
        let mut made = Made::default();
        let mut calls = Vec::new();
        for event in events {
            match event {
                Event::Asked(method, request) => {
                    let number = made.asked(method, &request).unwrap();
                    calls.push((number, request));
                }
                Event::Ended(call, code, reply) => {
                    let (number, request) = &calls[call];
                    made.answered(*number, request, code, &reply);
                }
                Event::Undone(method, request) => {
                    made.undone(method, &request);
                }
                Event::GivenUp => made.give_up_calls(),
            }
        }
        requests(&made)
    }

    #[test]
    fn an_item_is_forgotten_only_when_it_cannot_be_there() {
        use Event::{Asked, Ended, GivenUp, Undone};
        let none = Bytes::new;
        let ask = |name: &str, size| vec![create(name, size)];
        let undo = |id: &str| vec![delete(id)];
        let unpublished = |id: &str| vec![unpublish(id)];
        let create_of = |name: &str, size| Asked(CREATE, create(name, size));
        let delete_of = |id: &str| Undone(&tables::CONTROLLER_DELETE_VOLUME, delete(id));
        let unpublish_of = |id: &str| Undone(&tables::NODE_NODE_UNPUBLISH_VOLUME, unpublish(id));
        let refused = |call| Ended(call, Code::InvalidArgument, none());
        let open = |call| Ended(call, Code::DeadlineExceeded, none());
        let made = |call, id| Ended(call, Code::Ok, created(id));
        for (what, events, expected) in [
            ("asked", vec![create_of("a", 1)], vec![ask("a", 1)]),
            ("refused", vec![create_of("a", 1), refused(0)], vec![]),
            (
                "left open",
                vec![create_of("a", 1), open(0)],
                vec![ask("a", 1)],
            ),
            (
                "given up",
                vec![create_of("a", 1), GivenUp],
                vec![ask("a", 1)],
            ),
            (
                "made",
                vec![create_of("a", 1), made(0, "v")],
                vec![undo("v")],
            ),
            (
                "made and deleted",
                vec![create_of("a", 1), made(0, "v"), delete_of("v")],
                vec![],
            ),
            (
                "another is deleted",
                vec![create_of("a", 1), made(0, "v"), delete_of("w")],
                vec![undo("v")],
            ),
            (
                "made without an id",
                vec![create_of("a", 1), Ended(0, Code::Ok, none())],
                vec![ask("a", 1)],
            ),
            (
                "refused while another call for it is under way",
                vec![create_of("a", 1), create_of("a", 1), refused(0)],
                vec![ask("a", 1)],
            ),
            (
                "refused later, which does not tell what became of the earlier call",
                vec![create_of("a", 1), open(0), create_of("a", 1), refused(1)],
                vec![ask("a", 1)],
            ),
            (
                "the name leads to the id, whatever became of the call before",
                vec![create_of("a", 1), open(0), create_of("a", 2), made(1, "v")],
                vec![undo("v")],
            ),
            (
                "made twice",
                vec![
                    create_of("a", 1),
                    made(0, "v"),
                    create_of("a", 1),
                    made(1, "v"),
                ],
                vec![undo("v")],
            ),
            (
                "two ids for one name",
                vec![
                    create_of("a", 1),
                    made(0, "v"),
                    create_of("a", 2),
                    made(1, "w"),
                ],
                vec![undo("v"), undo("w")],
            ),
            (
                "one id for two names",
                vec![
                    create_of("a", 1),
                    made(0, "v"),
                    create_of("b", 1),
                    made(1, "v"),
                ],
                vec![undo("v")],
            ),
            (
                "deleted while it is asked for again",
                vec![
                    create_of("a", 1),
                    made(0, "v"),
                    create_of("a", 2),
                    delete_of("v"),
                    open(1),
                ],
                vec![ask("a", 2)],
            ),
            (
                "published",
                vec![Asked(PUBLISH, publish("v"))],
                vec![unpublished("v")],
            ),
            (
                "published and refused",
                vec![Asked(PUBLISH, publish("v")), refused(0)],
                vec![],
            ),
            (
                "published, and refused the second time",
                vec![
                    Asked(PUBLISH, publish("v")),
                    Ended(0, Code::Ok, none()),
                    Asked(PUBLISH, publish("v")),
                    refused(1),
                ],
                vec![unpublished("v")],
            ),
            (
                "unpublished while it is being published",
                vec![
                    Asked(PUBLISH, publish("v")),
                    unpublish_of("v"),
                    Ended(0, Code::Ok, none()),
                ],
                vec![unpublished("v")],
            ),
            (
                "published and unpublished",
                vec![Asked(PUBLISH, publish("v")), open(0), unpublish_of("v")],
                vec![],
            ),
            (
                "given up, and unpublished then",
                vec![Asked(PUBLISH, publish("v")), GivenUp, unpublish_of("v")],
                vec![],
            ),
            (
                "given up, and refused when it is asked for again",
                vec![create_of("a", 1), GivenUp, create_of("a", 1), refused(1)],
                vec![ask("a", 1)],
            ),
        ] {
            assert_eq!(after(events), expected, "{what}");
        }
    }

    #[test]
    fn what_an_earlier_run_has_asked_for_is_known_by_its_id_once_it_is_asked_for_again() {
        let mut earlier = Made::default();
        let number = earlier.asked(CREATE, &create("a", 1)).unwrap();
        let mut made = Made::default();
        made.add(earlier.get(number).unwrap().clone());
        let again = made.asked(CREATE, &create("a", 1)).unwrap();
        assert_eq!(requests(&made), [[create("a", 1)]]);
        made.answered(again, &create("a", 1), Code::Ok, &created("v"));
        assert_eq!(requests(&made), [[delete("v")]]);
    }

    #[test]
    fn a_call_that_makes_nothing_is_not_noted() {
        let mut made = Made::default();
        assert_eq!(made.asked(&tables::IDENTITY_PROBE, &Bytes::new()), None);
        assert_eq!(made.asked(PUBLISH, &Bytes::new()), None, "of no volume");
        assert_eq!(made.all().count(), 0);
    }
}
