//! The protocol as constant tables: services, methods, messages, fields, enums and their documentation.
//!
//! The tables are generated from `csi.proto`, cost nothing at start, and are all that the client needs to print, parse,
//! redact and describe any message. This file owns their shape and the look-ups; it must not know about encodings.

use std::fmt;

/// A method of a CSI service.
#[derive(Debug)]
pub struct Method {
    /// The RPC's name, such as `CreateVolume`.
    pub name: &'static str,
    /// The RPC's name in kebab case, such as `create-volume`.
    pub kebab_name: &'static str,
    /// The service's name without the package, such as `Controller`.
    pub service: &'static str,
    /// The path of the gRPC call, such as `/csi.v1.Controller/CreateVolume`.
    pub path: &'static str,
    /// The request's message.
    pub request: &'static Message,
    /// The reply's message, or that of every element of the reply's stream.
    pub response: &'static Message,
    /// Whether the reply is a stream.
    pub server_streaming: bool,
    /// Whether the specification marks the method (or its service) as alpha.
    pub alpha: bool,
    /// The comment that stands above the method in `csi.proto`.
    pub doc: &'static str,
}

/// A message type.
#[derive(Debug)]
pub struct Message {
    /// The full name, such as `csi.v1.VolumeCapability.MountVolume`.
    pub name: &'static str,
    /// The fields in the order of their declaration.
    pub fields: &'static [Field],
    /// The names of those that the specification requires, as their comments say; without those whose false or 0 cannot be told from
    /// no value.
    pub required: &'static [&'static str],
    /// Whether the specification marks the message as alpha.
    pub alpha: bool,
    /// The comment that stands above the message in `csi.proto`.
    pub doc: &'static str,
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// The name in `csi.proto`, such as `volume_id`.
    pub name: &'static str,
    /// The name in canonical JSON, such as `volumeId`.
    pub json_name: &'static str,
    /// The number on the wire.
    pub number: u32,
    /// The type of one value.
    pub kind: Kind,
    /// How many values there may be.
    pub cardinality: Cardinality,
    /// The `oneof` that the field belongs to.
    pub oneof: Option<&'static str>,
    /// Whether the values are secret and must appear in no output (option `csi_secret`).
    pub secret: bool,
    /// Whether the specification marks the field as alpha.
    pub alpha: bool,
    /// The comment that stands above the field in `csi.proto`.
    pub doc: &'static str,
}

/// The type of a field's values: only what CSI uses.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A truth value.
    Bool,
    /// A signed 32 bit number.
    Int32,
    /// A signed 64 bit number.
    Int64,
    /// UTF-8 text.
    String,
    /// A number with names.
    Enum(&'static Enum),
    /// A nested message.
    Message(&'static Message),
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `google.protobuf.BoolValue`: a truth value that may be absent.
    BoolValue,
    /// `google.protobuf.Int64Value`: a number that may be absent.
    Int64Value,
}

/// How many values a field may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// One, or none.
    Singular,
    /// Any number, in order.
    Repeated,
    /// Text to text; the field's `kind` is then `String`.
    Map,
}

/// An enum type.
#[derive(Debug)]
pub struct Enum {
    /// The full name, such as `csi.v1.VolumeUsage.Unit`.
    pub name: &'static str,
    /// The values in the order of their declaration.
    pub values: &'static [EnumValue],
    /// The comment that stands above the enum in `csi.proto`.
    pub doc: &'static str,
}

/// A named value of an enum.
#[derive(Debug)]
pub struct EnumValue {
    /// The name, such as `SINGLE_NODE_WRITER`.
    pub name: &'static str,
    /// The number on the wire.
    pub number: i32,
    /// Whether the specification marks the value as alpha.
    pub alpha: bool,
    /// The comment that stands above the value in `csi.proto`.
    pub doc: &'static str,
}

impl Message {
    /// The field of that name, in either spelling (`volume_id` or `volumeId`).
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields
            .iter()
            .find(|field| field.name == name || field.json_name == name)
    }

    /// Whether a field of it is for secrets.
    pub fn takes_secrets(&self) -> bool {
        self.fields.iter().any(|field| field.secret)
    }

    /// The name without the package, such as `VolumeCapability.MountVolume`.
    pub fn short_name(&self) -> &'static str {
        short(self.name)
    }
}

impl Field {
    /// The type of the message in the field, where it holds messages.
    pub fn message(&self) -> Option<&'static Message> {
        match self.kind {
            Kind::Message(of) => Some(of),
            _ => None,
        }
    }
}

impl Enum {
    /// The name of a number, unless it is newer than these tables.
    pub fn name_of(&self, number: i32) -> Option<&'static str> {
        self.values
            .iter()
            .find(|value| value.number == number)
            .map(|value| value.name)
    }

    /// The number of a name, in upper or lower case.
    pub fn number_of(&self, name: &str) -> Option<i32> {
        self.values
            .iter()
            .find(|value| value.name.eq_ignore_ascii_case(name))
            .map(|value| value.number)
    }

    /// The name without the package, such as `VolumeUsage.Unit`.
    pub fn short_name(&self) -> &'static str {
        short(self.name)
    }
}

impl fmt::Display for Field {
    /// The type as one would write it in a `.proto` file, such as `repeated VolumeCapability`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cardinality {
            Cardinality::Map => return f.write_str("map<string, string>"),
            Cardinality::Repeated => f.write_str("repeated ")?,
            Cardinality::Singular => {}
        }
        f.write_str(match self.kind {
            Kind::Bool => "bool",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::String => "string",
            Kind::Enum(of) => of.short_name(),
            Kind::Message(of) => of.short_name(),
            Kind::Timestamp => "google.protobuf.Timestamp",
            Kind::BoolValue => "google.protobuf.BoolValue",
            Kind::Int64Value => "google.protobuf.Int64Value",
        })
    }
}

impl Field {
    /// Whether the specification requires the field of every driver, as its comment says.
    pub fn is_required(&self) -> bool {
        self.doc.contains("Required") && !self.doc.contains("Required with")
    }

    /// Whether the specification lets 0 stand for no value, as the field's comment says.
    pub fn is_unset_at_0(&self) -> bool {
        self.doc.contains("Optional. 0 ")
    }
}

/// The first sentence of a comment, without its full stop.
pub fn summary(doc: &'static str) -> &'static str {
    let end = doc.find(". ").unwrap_or(doc.len());
    doc[..end].trim_end_matches('.')
}

/// A name such as `GroupController` in kebab case: `group-controller`.
pub fn kebab(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn short(name: &'static str) -> &'static str {
    name.strip_prefix("csi.v1.").unwrap_or(name)
}
