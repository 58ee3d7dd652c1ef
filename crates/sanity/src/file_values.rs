//! Values in a file of settings that TOML has no type for. They are parsed as the flags of the same name are.

use csi_arguments::{capability, size};
use csi_proto::duration;
use csi_proto::v1::VolumeCapability;
use serde::de::{Error, IntoDeserializer as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A size: a text, or a number of bytes.
pub fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "must be a size such as \"10Gi\", or a number of bytes"
    )]
    enum Size {
        Bytes(i64),
        Text(String),
    }
    match Size::deserialize(from)? {
        Size::Bytes(bytes) => Ok(Some(bytes)),
        Size::Text(text) => size::parse(&text).map(Some).map_err(D::Error::custom),
    }
}

/// A duration.
pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    duration::parse(&text).map_err(D::Error::custom)
}

/// Every how many steps something happens; `true` is every step, `false` none.
pub fn every<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "must be a whole number from 0, or true or false"
    )]
    enum Every {
        Number(u64),
        Truth(bool),
    }
    Ok(match Every::deserialize(from)? {
        Every::Number(number) => number,
        Every::Truth(every) => u64::from(every),
    })
}

/// Capabilities of volumes.
pub fn capabilities<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<VolumeCapability>, D::Error> {
    let read: Vec<ParsedCapability> = from.deserialize_any(OneOrMany(PhantomData))?;
    Ok(read.into_iter().map(|one| one.0).collect())
}

struct ParsedCapability(VolumeCapability);

impl<'de> Deserialize<'de> for ParsedCapability {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// Parses while the library still knows in which line it reads.
        struct Parse;
        impl Visitor<'_> for Parse {
            type Value = VolumeCapability;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<VolumeCapability, E> {
                capability::parse(text).map_err(E::custom)
            }
        }
        from.deserialize_str(Parse).map(Self)
    }
}

/// Texts.
pub fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    from.deserialize_any(OneOrMany(PhantomData))
}

/// A list of texts, or the only text of one. Each is read by itself, so that what is wrong with it is found in its line.
struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts in quotes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(text.to_owned().into_deserializer())?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element()? {
            all.push(one);
        }
        Ok(all)
    }
}
