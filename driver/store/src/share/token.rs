//! The three fixed-length tokens that ids and records are made of: a share's UUID, a volume's nonce, and the key of a
//! volume's name. Owns their text form (lower-case base32 with the digits first, so that texts and
//! tokens have one order; as it stands in ids and in file names).

use csi_proto::random;
use data_encoding::BASE32_DNSSEC;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::str::FromStr;
use thiserror::Error;

/// Text that is not a token of the wanted kind.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{text:?} is not a {kind}: the base32hex of {bytes} bytes is expected, in small letters and without padding"
)]
pub struct TokenError {
    text: String,
    kind: &'static str,
    bytes: usize,
}

fn encode(bytes: &[u8]) -> String {
    BASE32_DNSSEC.encode(bytes)
}

/// Strict: exactly the text that `encode` makes, so that one token has one spelling.
fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes = BASE32_DNSSEC.decode(text.as_bytes()).ok()?;
    let bytes: [u8; N] = bytes.try_into().ok()?;
    (encode(&bytes) == text).then_some(bytes)
}

macro_rules! token {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; $bytes]);

        impl $name {
            /// How many characters its text has.
            pub const LENGTH: usize = ($bytes as usize * 8).div_ceil(5);
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = TokenError;

            fn from_str(text: &str) -> Result<Self, TokenError> {
                decode(text).map(Self).ok_or_else(|| TokenError {
                    text: text.chars().take(64).collect(),
                    kind: $kind,
                    bytes: $bytes,
                })
            }
        }

        impl TryFrom<String> for $name {
            type Error = TokenError;

            fn try_from(text: String) -> Result<Self, TokenError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(token: $name) -> Self {
                token.to_string()
            }
        }
    };
}

token!(
    /// Tells one share from every other. It is made when the driver first writes to the share and never changes.
    ShareUuid,
    16,
    "share's UUID"
);
token!(
    /// Tells one volume from every other, also from an earlier one of the same name.
    Nonce,
    10,
    "nonce"
);
token!(
    /// Where the record of a name is kept. Two names may share a key in theory, so the record's own name decides.
    NameKey,
    10,
    "name key"
);

impl ShareUuid {
    /// A new UUID from the kernel's random source.
    ///
    /// # Errors
    /// When the kernel has no such call.
    pub fn random() -> io::Result<Self> {
        random::from_kernel().map(Self)
    }
}

impl Nonce {
    /// What stands for the nonce of a thing that has none: always the same for one `id`.
    pub(super) fn of(id: &str) -> Self {
        Self(folded(fnv(format!("nonce of {id}").as_bytes())))
    }

    /// A new nonce from the kernel's random source.
    ///
    /// # Errors
    /// When the kernel has no such call.
    pub fn random() -> io::Result<Self> {
        random::from_kernel().map(Self)
    }
}

impl NameKey {
    /// The key of `name`, the same on every machine and in every version of this driver.
    ///
    /// FNV-1a with 128 bits, folded to 80. Nothing relies on it being hard to collide: the name in the record is compared
    /// and a second name of one key is refused.
    pub fn of(name: &str) -> Self {
        Self(folded(fnv(name.as_bytes())))
    }
}

/// A hash in 80 bits.
fn folded(hash: u128) -> [u8; 10] {
    let mut folded = [0; 10];
    folded.copy_from_slice(&(hash ^ (hash >> 80)).to_be_bytes()[6..]);
    folded
}

/// FNV-1a of 128 bits.
pub(crate) fn fnv(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_the_same_for_ever() {
        // A change of these orphans every record on every share.
        assert_eq!(fnv(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
        assert_eq!(NameKey::of("").to_string().len(), NameKey::LENGTH);
        assert_eq!(NameKey::of("pvc-1").to_string(), "r57n10c28ua54hkp");
    }

    #[test]
    fn similar_names_have_their_own_keys() {
        let keys: HashSet<NameKey> = (0..100_000)
            .map(|n| NameKey::of(&format!("pvc-{n}")))
            .collect();
        assert_eq!(keys.len(), 100_000);
    }

    #[test]
    fn nonces_differ() {
        let nonces: HashSet<Nonce> = (0..100).map(|_| Nonce::random().unwrap()).collect();
        assert_eq!(nonces.len(), 100);
    }

    proptest! {
        #[test]
        fn text_and_token_are_one_to_one(bytes: [u8; 16], short: [u8; 10], text in "[0-9a-v]{26}") {
            let uuid = ShareUuid(bytes);
            prop_assert_eq!(uuid.to_string().parse::<ShareUuid>().unwrap(), uuid);
            let nonce = Nonce(short);
            prop_assert_eq!(nonce.to_string().parse::<Nonce>().unwrap(), nonce);
            if let Ok(parsed) = text.parse::<ShareUuid>() {
                prop_assert_eq!(parsed.to_string(), text);
            }
        }

        #[test]
        fn other_text_is_refused(text in "\\PC{0,30}") {
            if let Ok(nonce) = text.parse::<Nonce>() {
                prop_assert_eq!(nonce.to_string(), text);
            }
        }
    }
}
