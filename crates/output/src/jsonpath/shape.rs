//! What stands at a place of a document, as its message says.
//!
//! Owns what a name is in JSON there: a field's is JSON's, whichever was typed, and a map's key is as it was typed. Knows no
//! expressions.

use csi_proto::schema::{Cardinality, Field, Message};

/// What can stand at a place of a document.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// The fields of a message.
    Message(&'static Message),
    /// A list of messages, or of what has no parts.
    List(Option<&'static Message>),
    /// Keys that are no fields.
    Map,
    /// What has no parts.
    Scalar,
    /// What stands in a field that this program does not know, or in a document of no message.
    Unknown,
}

impl Shape {
    pub(super) fn of(field: &'static Field) -> Self {
        match field.cardinality {
            Cardinality::Map => Self::Map,
            Cardinality::Repeated => Self::List(field.message()),
            Cardinality::Singular => Self::of_one(field.message()),
        }
    }

    fn of_one(message: Option<&'static Message>) -> Self {
        message.map_or(Self::Scalar, Self::Message)
    }

    /// What can stand one step further in, but for what an unknown field holds.
    pub(super) fn children(self) -> Vec<Self> {
        match self {
            Self::Message(of) => of.fields.iter().map(Self::of).collect(),
            Self::List(_) => vec![self.entry()],
            Self::Map => vec![Self::Scalar],
            Self::Scalar => Vec::new(),
            Self::Unknown => vec![Self::Unknown],
        }
    }

    /// A name at this place as JSON has it.
    pub(super) fn json_name(self, name: &str) -> &str {
        match self {
            Self::Message(of) => of.field(name).map_or(name, |field| field.json_name),
            _ => name,
        }
    }

    /// What stands behind a name at this place.
    pub(super) fn behind(self, name: &str) -> Self {
        match self {
            Self::Message(of) => of.field(name).map_or(Self::Unknown, Self::of),
            Self::Map => Self::Scalar,
            _ => Self::Unknown,
        }
    }

    /// What stands in a list at this place.
    pub(super) fn entry(self) -> Self {
        match self {
            Self::List(message) => Self::of_one(message),
            _ => Self::Unknown,
        }
    }

    /// What it is, for an error.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Message(of) => of.short_name(),
            Self::List(_) => "a list",
            Self::Map => "a map",
            Self::Scalar => "a value without parts",
            Self::Unknown => "an unknown field",
        }
    }

    pub(super) fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Message(one), Self::Message(other)) => std::ptr::eq(one, other),
            (Self::List(one), Self::List(other)) => Self::of_one(one).is(Self::of_one(other)),
            (Self::Map, Self::Map)
            | (Self::Scalar, Self::Scalar)
            | (Self::Unknown, Self::Unknown) => true,
            _ => false,
        }
    }
}
