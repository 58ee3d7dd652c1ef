//! What is remembered of one snapshot. Owns its values and their checks; its life is in `snapshots`.

use crate::share::database::Share;
use crate::share::records::keep::{Copied, Copying, Keep};
use crate::share::records::origin::Origin;
use crate::share::records::volume::State;
use crate::share::token::{NameKey, Nonce};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

/// All that is known of a snapshot, complete in each generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The format of this record.
    pub format: u64,
    /// The nonce in the snapshot's id.
    pub nonce: Nonce,
    /// 1 for the first, one more with each change.
    pub generation: u64,
    /// Creating while it is copied, and ready when it is on disk.
    pub state: State,
    /// The share as it stands in the snapshot's id.
    pub location: String,
    /// The snapshot's name.
    pub name: String,
    /// The volume that it is a copy of.
    pub source: Origin,
    /// The size of that volume, in bytes, and so the least size of a volume made of it.
    pub size_bytes: i64,
    /// Seconds since 1970 when it was begun, by the clock of the controller that did.
    pub created: u64,
    /// Who copies it, while it is copied, and how far that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copying: Option<Copying>,
    /// The attempt that has copied it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<Nonce>,
    /// What did not travel, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

impl Keep for Snapshot {
    const FOLDER: &'static str = "snapshots";

    fn folder(share: &Share) -> &OwnedFd {
        &share.snapshots
    }

    fn key(&self) -> NameKey {
        NameKey::of(&self.name)
    }

    fn nonce(&self) -> Nonce {
        self.nonce
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn copy(&self) -> Option<Nonce> {
        self.copy
    }

    fn next(&self) -> Self {
        Self {
            generation: self.generation + 1,
            ..self.clone()
        }
    }

    fn is_sound(&self) -> bool {
        self.name.len() <= 128 && self.source.is_sound() && self.size_bytes >= 0
    }
}

impl Copied for Snapshot {
    fn copying(&self) -> Option<&Copying> {
        self.copying.as_ref()
    }

    fn with_copying(&self, copying: Option<Copying>) -> Self {
        Self {
            copying,
            ..self.next()
        }
    }

    fn filled(&self, copy: Nonce, left_out: Option<String>) -> Self {
        Self {
            copying: None,
            copy: Some(copy),
            state: State::Ready,
            left_out,
            ..self.next()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::records::format::FORMAT;
    use crate::share::records::keep;
    use proptest::prelude::*;

    fn record() -> Snapshot {
        Snapshot {
            format: FORMAT,
            nonce: Nonce::random().unwrap(),
            generation: 1,
            state: State::Creating,
            location: "s:/a".to_owned(),
            name: "s".to_owned(),
            source: Origin {
                id: "v".to_owned(),
                key: NameKey::of("v"),
                nonce: Nonce::random().unwrap(),
                path: None,
            },
            size_bytes: 1,
            created: 1,
            copying: None,
            copy: None,
            left_out: None,
        }
    }

    #[test]
    fn forged_and_cut_records_are_refused() {
        let record = record();
        let read = |text: &str| {
            let content = text.as_bytes();
            keep::read::<Snapshot>(content, record.key(), record.nonce, record.generation)
        };
        let text = String::from_utf8(keep::write(&record, None).unwrap()).unwrap();
        assert_eq!(read(&text).unwrap(), record);
        for length in 0..text.trim_end().len() {
            assert!(read(&text[..length]).is_err(), "{length}");
        }
        for (from, to) in [
            (r#""name": "s""#, r#""name": "t""#),
            (r#""size_bytes": 1"#, r#""size_bytes": -1"#),
            (r#""generation": 1"#, r#""generation": 2"#),
            (r#""format": 2"#, r#""format": 1"#),
            (r#""format": 2"#, r#""format": 3"#),
        ] {
            let forged = text.replacen(from, to, 1);
            assert_ne!(forged, text, "{from}");
            assert!(read(&forged).is_err(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            let record = record();
            let read = keep::read::<Snapshot>(&content, record.key(), record.nonce, 1);
            prop_assert!(read.is_err());
        }
    }
}
