//! A request while flags are put into it, as bytes: fields are found by name, so that no message is known here.

use csi_proto::contents;
use csi_proto::schema::{Cardinality, Field, Message};
use csi_proto::wire::{self, Raw};
use std::collections::BTreeMap;

/// The bytes of a request that is being made.
#[derive(Clone)]
pub struct Draft {
    /// The type of the request.
    pub message: &'static Message,
    /// The fields so far.
    pub bytes: Vec<u8>,
}

impl Draft {
    /// Begins with the fields in `bytes`.
    pub fn new(message: &'static Message, bytes: Vec<u8>) -> Self {
        Self { message, bytes }
    }

    fn field(&self, name: &str) -> Option<&'static Field> {
        self.message.field(name)
    }

    /// Puts a text or nested message in the place of a single value, or behind the values of a list.
    pub fn put(&mut self, name: &str, value: impl AsRef<[u8]>) {
        if let Some(field) = self.make_room(name) {
            wire::put_bytes(&mut self.bytes, field.number, value.as_ref());
        }
    }

    /// Puts a number or truth value in the place of another.
    pub(crate) fn put_number(&mut self, name: &str, value: i64) {
        if let Some(field) = self.make_room(name) {
            wire::put_varint(&mut self.bytes, field.number, value.cast_unsigned());
        }
    }

    /// The field, without the single value that it holds so far.
    fn make_room(&mut self, name: &str) -> Option<&'static Field> {
        let field = self.field(name)?;
        if field.cardinality == Cardinality::Singular {
            self.clear(name);
        }
        Some(field)
    }

    /// Puts an entry into a map, in the place of one with the same key: what it replaces may be a secret, and is not sent.
    pub(crate) fn put_entry(&mut self, name: &str, key: &str, value: &str) {
        self.remove(name, |raw| {
            let Raw::Bytes(entry) = raw else { return false };
            let mut parts = wire::fields(entry).map_while(Result::ok);
            parts.any(|part| part == (1, Raw::Bytes(key.as_bytes())))
        });
        let mut entry = Vec::new();
        wire::put_bytes(&mut entry, 1, key.as_bytes());
        wire::put_bytes(&mut entry, 2, value.as_bytes());
        self.put(name, entry);
    }

    /// Takes all values out of a field.
    pub fn clear(&mut self, name: &str) {
        self.remove(name, |_| true);
    }

    /// Takes those values out of a field that are `unwanted`.
    fn remove(&mut self, name: &str, unwanted: impl Fn(Raw<'_>) -> bool) {
        let number = self.field(name).map(|field| field.number);
        let mut kept = Vec::new();
        for (of, raw) in wire::fields(&self.bytes).map_while(Result::ok) {
            if Some(of) != number || !unwanted(raw) {
                wire::put(&mut kept, of, raw);
            }
        }
        self.bytes = kept;
    }

    /// Puts `values` in the place of all values of a field; where there are none, the field stays as it is.
    pub fn replace<T: AsRef<[u8]>>(&mut self, name: &str, values: impl IntoIterator<Item = T>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.clear(name);
            self.put_all(name, values);
        }
    }

    /// Changes the message inside a field, which stays unset where `change` puts nothing into it.
    pub fn inside(&mut self, name: &str, change: impl FnOnce(&mut Self)) {
        let Some(message) = self.field(name).and_then(Field::message) else {
            return;
        };
        // Occurrences one after the other are one message.
        let before = contents(self.message, &self.bytes, name).concat();
        let mut inner = Self::new(message, before.clone());
        change(&mut inner);
        if inner.bytes != before {
            self.replace(name, [inner.bytes]);
        }
    }

    /// Puts each of these texts into a field.
    pub(crate) fn put_all<T: AsRef<[u8]>>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) {
        values.into_iter().for_each(|value| self.put(name, value));
    }

    /// Puts secrets into every field that is for them.
    pub fn put_secrets(&mut self, secrets: &BTreeMap<String, String>) {
        for field in self.message.fields.iter().filter(|field| field.secret) {
            for (key, value) in secrets {
                self.put_entry(field.name, key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::v1::CreateVolumeRequest;
    use csi_proto::{Request as _, v1};
    use prost::Message as _;

    #[test]
    fn what_is_put_takes_the_place_of_what_was_there() {
        let capability = |mode| v1::VolumeCapability {
            access_mode: Some(v1::volume_capability::AccessMode { mode }),
            ..Default::default()
        };
        let one = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let before = CreateVolumeRequest {
            name: "before".to_owned(),
            volume_capabilities: vec![capability(1), capability(2)],
            parameters: [one("a", "before"), one("b", "stays")].into(),
            ..Default::default()
        };
        let mut draft = Draft::new(CreateVolumeRequest::METHOD.request, before.encode_to_vec());
        draft.put("name", "after");
        draft.put_entry("parameters", "a", "after");
        draft.replace("volume_capabilities", [capability(3).encode_to_vec()]);
        draft.replace("volume_capabilities", [[0; 0]; 0]);
        let expected = CreateVolumeRequest {
            name: "after".to_owned(),
            volume_capabilities: vec![capability(3)],
            parameters: [one("a", "after"), one("b", "stays")].into(),
            ..Default::default()
        };
        assert_eq!(CreateVolumeRequest::decode(&*draft.bytes), Ok(expected));
        let count = contents(draft.message, &draft.bytes, "parameters").len();
        assert_eq!(count, 2, "what is replaced is not sent");
    }
}
