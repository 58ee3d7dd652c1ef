//! The protobuf wire format: the fields of a message's bytes, one by one and unchanged, and the few writers that JSON
//! input needs. This file knows no schema.

use prost::encoding::{decode_varint, encode_varint};
use thiserror::Error;

/// Bytes that are not a message.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("the message ends in the middle of a field")]
    Truncated,
    /// A number is longer than 64 bits.
    #[error("a number is longer than 64 bits")]
    Varint,
    /// A field's key names no field or a wire type that does not exist.
    #[error("a field has the number {number} and the unknown wire type {wire_type}")]
    Key {
        /// The number of the field.
        number: u64,
        /// The wire type, of which 0, 1, 2 and 5 exist in proto3.
        wire_type: u64,
    },
}

/// The content of one field on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// Numbers, truth values and enums.
    Varint(u64),
    /// Eight fixed bytes.
    Fixed64(u64),
    /// Text, bytes and nested messages.
    Bytes(&'a [u8]),
    /// Four fixed bytes.
    Fixed32(u32),
}

/// Iterates over the fields of a message: number and content, in the order of the wire.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a [u8]);

/// The fields of `bytes`.
pub fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields(bytes)
}

/// Those of these contents that are texts or messages.
pub fn contents<'a>(all: &[Raw<'a>]) -> Vec<&'a [u8]> {
    let content = |raw: &Raw<'a>| match raw {
        Raw::Bytes(content) => Some(*content),
        _ => None,
    };
    all.iter().filter_map(content).collect()
}

/// The key and the value of a map's entry with these fields.
pub fn entry<'a>(fields: impl IntoIterator<Item = (u32, Raw<'a>)>) -> (&'a [u8], &'a [u8]) {
    let (mut key, mut value) = (&[][..], &[][..]);
    for field in fields {
        match field {
            (1, Raw::Bytes(content)) => key = content,
            (2, Raw::Bytes(content)) => value = content,
            _ => {}
        }
    }
    (key, value)
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, WireError> {
        // No number has more than ten bytes, and the last byte of each says that it is that.
        let error = match self.0.len() {
            ..10 => WireError::Truncated,
            _ => WireError::Varint,
        };
        decode_varint(&mut self.0).map_err(|_| error)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u32, Raw<'a>), WireError> {
        let key = self.varint()?;
        let unknown = WireError::Key {
            number: key >> 3,
            wire_type: key & 7,
        };
        let number = u32::try_from(key >> 3).map_err(|_| unknown)?;
        if number == 0 {
            return Err(unknown);
        }
        let raw = match key & 7 {
            0 => Raw::Varint(self.varint()?),
            1 => {
                let mut fixed = [0; 8];
                fixed.copy_from_slice(self.take(8)?);
                Raw::Fixed64(u64::from_le_bytes(fixed))
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| WireError::Truncated)?;
                Raw::Bytes(self.take(length)?)
            }
            5 => {
                let mut fixed = [0; 4];
                fixed.copy_from_slice(self.take(4)?);
                Raw::Fixed32(u32::from_le_bytes(fixed))
            }
            _ => return Err(unknown),
        };
        Ok((number, raw))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Raw<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Appends a number, truth value or enum.
pub fn put_varint(out: &mut Vec<u8>, number: u32, value: u64) {
    encode_varint(u64::from(number) << 3, out);
    encode_varint(value, out);
}

/// Appends a field as it was read.
pub fn put(out: &mut Vec<u8>, number: u32, raw: Raw<'_>) {
    let key = u64::from(number) << 3;
    match raw {
        Raw::Varint(value) => put_varint(out, number, value),
        Raw::Bytes(value) => put_bytes(out, number, value),
        Raw::Fixed64(value) => {
            encode_varint(key | 1, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Raw::Fixed32(value) => {
            encode_varint(key | 5, out);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Appends text or a nested message.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    encode_varint(u64::from(number) << 3 | 2, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_bytes_are_errors_that_end_the_walk() {
        let cases: [(&[u8], WireError); 7] = [
            (&[0x0a, 5, b'a'], WireError::Truncated),
            (&[0x0a], WireError::Truncated),
            (&[0x80; 9], WireError::Truncated),
            (&[0x80; 10], WireError::Varint),
            (&[0x08], WireError::Truncated),
            (
                &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
                WireError::Varint,
            ),
            (
                &[0x0b],
                WireError::Key {
                    number: 1,
                    wire_type: 3,
                },
            ),
        ];
        for (bytes, expected) in cases {
            let all: Vec<_> = fields(bytes).collect();
            assert_eq!(all, [Err(expected)], "{bytes:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let written = [
            (3, Raw::Varint(u64::MAX)),
            (1059, Raw::Bytes(b"text")),
            (1, Raw::Fixed64(1 << 40)),
            (2, Raw::Fixed32(7)),
        ];
        let mut out = Vec::new();
        for (number, raw) in written {
            put(&mut out, number, raw);
        }
        let read: Vec<_> = fields(&out).map(Result::unwrap).collect();
        assert_eq!(read, written);
    }
}
