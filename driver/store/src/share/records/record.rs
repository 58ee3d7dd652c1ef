//! One record: the values that all records have, and the trait of each kind of record. Owns the step
//! from one generation to the next; how records are kept is the business of `store`, their text that of `text`.

use crate::share::database::{Share, now};
use crate::share::records::format::FORMAT;
use crate::share::records::origin::Source;
use crate::share::records::promise::Promise;
use crate::share::token::{NameKey, Nonce};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::os::fd::OwnedFd;

/// Where a volume or snapshot is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its creation has begun; a retry finishes it.
    Creating,
    /// It exists.
    Ready,
    /// Its deletion has begun and will be finished; there is no way back.
    Deleting,
}

/// Who copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copying {
    /// This attempt.
    pub attempt: Nonce,
    /// The process that makes it.
    pub process: String,
}

/// All that is known of a volume or snapshot, complete in each generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<K> {
    /// The format of this record.
    pub format: u64,
    /// The nonce in the id: which of those that had this name.
    pub nonce: Nonce,
    /// 1 for the first, one more with each change.
    pub generation: u64,
    /// Where it is in its life.
    pub state: State,
    /// The share as it stands in the id, so that the id is the same in every answer.
    pub location: String,
    /// Seconds since 1970 when it was begun, by the clock of the controller that did.
    pub created: u64,
    /// Who copies the source, while it is copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copying: Option<Copying>,
    /// The attempt that has copied the source. No other one's data are the record's, whatever lies beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<Nonce>,
    /// What its kind has to remember.
    #[serde(flatten)]
    pub what: K,
}

/// A kind of thing that is kept under a name, one record a folder, all of one kind in a folder of their own.
pub trait Kind:
    Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The name of that folder below `.csi-nfs`.
    const FOLDER: &'static str;
    /// What a creation asks for, as far as a retry has to ask for the same.
    type Wanted: Clone + Send + Sync + 'static;
    /// The folder of all records of the kind.
    fn folder(share: &Share) -> &OwnedFd;
    /// What the creation has asked for.
    fn wanted(&self) -> &Self::Wanted;
    /// The name in it.
    fn name(wanted: &Self::Wanted) -> &str;
    /// The size that it is promised, in bytes.
    fn promised_bytes(&self) -> i64;
    /// What it wants a copy of.
    fn source(wanted: &Self::Wanted) -> Option<Source>;
    /// How `wanted` differs from what the record was made for, or nothing when the record answers it.
    fn difference(record: &Record<Self>, wanted: &Self::Wanted) -> Option<String>;
    /// Whether the record has values such as this driver writes.
    fn is_sound(record: &Record<Self>) -> bool;
    /// Notes in `record` that its source is copied. `left_out` is what did not travel.
    fn note_copied(_record: &mut Record<Self>, _left_out: Option<String>) {}
}

impl<K: Kind> Record<K> {
    /// The first generation of one that is `what`.
    pub(in crate::share) fn new(what: K, nonce: Nonce, state: State) -> Self {
        Self {
            format: FORMAT,
            nonce,
            generation: 1,
            state,
            location: String::new(),
            created: now(),
            copying: None,
            copy: None,
            what,
        }
    }

    /// The key that the record is kept under.
    pub fn key(&self) -> NameKey {
        NameKey::of(K::name(self.what.wanted()))
    }

    /// What it is promised.
    pub(in crate::share) fn promise(&self) -> Promise {
        Promise {
            nonce: self.nonce,
            bytes: self.what.promised_bytes(),
        }
    }

    /// Whether a source waits to be copied before anything else can be done.
    pub fn needs_copy(&self) -> bool {
        let has_source = || K::source(self.what.wanted()).is_some();
        self.state == State::Creating && self.copy.is_none() && has_source()
    }

    /// The name of the file that holds this generation.
    pub(in crate::share) fn file_name(&self) -> String {
        format!("{}.{}", self.nonce, self.generation)
    }

    /// The same, one generation on.
    #[must_use]
    pub(in crate::share) fn next(&self) -> Self {
        Self {
            generation: self.generation + 1,
            ..self.clone()
        }
    }

    /// The next generation, on its way out.
    pub(in crate::share) fn deleting(&self) -> Self {
        Self {
            state: State::Deleting,
            copying: None,
            ..self.next()
        }
    }

    /// The next generation, with another claim on the copy.
    pub(in crate::share) fn with_copying(&self, copying: Option<Copying>) -> Self {
        Self {
            copying,
            ..self.next()
        }
    }

    /// The next generation, with the data there that the attempt `copy` has made. `left_out` is what did not travel.
    pub(in crate::share) fn filled(&self, copy: Nonce, left_out: Option<String>) -> Self {
        let mut next = Self {
            copy: Some(copy),
            ..self.with_copying(None)
        };
        K::note_copied(&mut next, left_out);
        next
    }
}
