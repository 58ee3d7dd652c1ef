//! Holds the names of an expression against the message that it looks into, and gives them JSON's spelling.
//!
//! Owns what is an error there: a name that no document of that message can have. What a document happens to lack is none.

use super::query::{Name, Operand, Origin, Query, Segment, Selector, Test};
use crate::arguments::likest::likest;
use csi_proto::schema::{Cardinality, Field, Message};
use thiserror::Error;

/// How far below a message a name is looked for that it lacks.
const DEEPEST: usize = 3;

/// A name that no document can have.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// Not a field of the message.
    #[error("{message} has no field {name:?}{}", advice(.near, .has))]
    Field {
        /// The message in which the name was looked up.
        message: &'static str,
        /// The name that it does not have.
        name: String,
        /// What may be meant.
        near: Vec<String>,
        /// The names that it has.
        has: Vec<&'static str>,
    },
    /// A name behind a list.
    #[error(
        "{name:?} is looked for in a list: write [*] before it for every entry, or [0] for the first"
    )]
    List {
        /// The name.
        name: String,
    },
    /// An index or a slice behind what is no list.
    #[error("an index is of a list, and {of} is none")]
    NoList {
        /// What stands there.
        of: &'static str,
    },
    /// A name behind what has no parts.
    #[error("{name:?} is looked for in a value that has no parts")]
    Scalar {
        /// The name.
        name: String,
    },
}

fn advice(near: &[String], has: &[&str]) -> String {
    match (near, has) {
        ([], []) => ": there are no fields in it".to_owned(),
        ([], has) => format!("; it has {}", has.join(", ")),
        (near, _) => format!("; did you mean {}?", near.join(" or ")),
    }
}

/// What can stand at a place of a document.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Message(&'static Message),
    /// A list of messages, or of what has no parts.
    List(Option<&'static Message>),
    Map,
    Scalar,
    /// What stands in a field that this program does not know.
    Unknown,
}

impl Shape {
    fn of(field: &'static Field) -> Self {
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
    fn children(self) -> Vec<Self> {
        match self {
            Self::Message(of) => of.fields.iter().map(Self::of).collect(),
            Self::List(message) => vec![Self::of_one(message)],
            Self::Map => vec![Self::Scalar],
            Self::Scalar => Vec::new(),
            Self::Unknown => vec![Self::Unknown],
        }
    }

    /// What it is, for an error.
    fn name(self) -> &'static str {
        match self {
            Self::Message(of) => of.short_name(),
            Self::List(_) => "a list",
            Self::Map => "a map",
            Self::Scalar => "a value without parts",
            Self::Unknown => "an unknown field",
        }
    }

    fn is(self, other: Self) -> bool {
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

/// Each shape once.
fn distinct(shapes: impl IntoIterator<Item = Shape>) -> Vec<Shape> {
    let mut all: Vec<Shape> = Vec::new();
    for shape in shapes {
        if !all.iter().any(|other| other.is(shape)) {
            all.push(shape);
        }
    }
    all
}

/// What can stand at these places and anywhere in them.
fn all_within(shapes: &[Shape]) -> Vec<Shape> {
    let mut all = distinct(shapes.iter().copied());
    let mut next = 0;
    while let Some(shape) = all.get(next).copied() {
        next += 1;
        all = distinct(all.into_iter().chain(shape.children()));
    }
    all
}

/// Gives the names of `query` JSON's spelling; what can stand where it leads.
///
/// # Errors
/// When it has a name that nothing at its place can have.
pub(super) fn spell(
    query: &mut Query,
    root: Shape,
    current: &[Shape],
) -> Result<Vec<Shape>, NameError> {
    let mut shapes = match query.from {
        Origin::Root => vec![root],
        Origin::Current => current.to_vec(),
    };
    for segment in &mut query.segments {
        shapes = spell_segment(segment, root, &shapes)?;
    }
    Ok(shapes)
}

fn spell_segment(
    segment: &mut Segment,
    root: Shape,
    shapes: &[Shape],
) -> Result<Vec<Shape>, NameError> {
    let shapes = match segment.is_deep {
        true => all_within(shapes),
        false => shapes.to_vec(),
    };
    let children = || distinct(shapes.iter().flat_map(|shape| shape.children()));
    let mut found = Vec::new();
    for selector in &mut segment.selectors {
        match selector {
            Selector::Name(name) => found.extend(spell_name(name, &shapes)?),
            Selector::All => {
                has_parts("*", &shapes)?;
                found.extend(children());
            }
            Selector::Filter(test) => {
                has_parts("?", &shapes)?;
                let children = children();
                spell_test(test, root, &children)?;
                found.extend(children);
            }
            Selector::Index(_) | Selector::Slice(_) => {
                let is_list = |shape: &&Shape| matches!(shape, Shape::List(_) | Shape::Unknown);
                if let (false, Some(first)) =
                    (shapes.iter().any(|shape| is_list(&shape)), shapes.first())
                {
                    return Err(NameError::NoList { of: first.name() });
                }
                let lists = shapes.iter().filter(is_list);
                found.extend(lists.flat_map(|shape| shape.children()));
            }
        }
    }
    Ok(distinct(found))
}

/// Whether anything can be found in the parts of these.
fn has_parts(sign: &str, shapes: &[Shape]) -> Result<(), NameError> {
    let has_none = |shape: &Shape| matches!(shape, Shape::Scalar);
    match !shapes.is_empty() && shapes.iter().all(has_none) {
        true => Err(NameError::Scalar {
            name: sign.to_owned(),
        }),
        false => Ok(()),
    }
}

fn spell_name(name: &mut Name, shapes: &[Shape]) -> Result<Vec<Shape>, NameError> {
    let mut found = Vec::new();
    for shape in shapes {
        match shape {
            Shape::Message(of) => match of.field(&name.typed) {
                Some(field) => {
                    name.json = Some(field.json_name);
                    found.push(Shape::of(field));
                }
                None if is_number(&name.typed) => found.push(Shape::Unknown),
                None => {}
            },
            Shape::Map => found.push(Shape::Scalar),
            Shape::Unknown => found.push(Shape::Unknown),
            Shape::List(_) | Shape::Scalar => {}
        }
    }
    // No shape is left behind all fields of a message that has none.
    match found.is_empty() && !shapes.is_empty() {
        true => Err(missing(name.typed.clone(), shapes)),
        false => Ok(found),
    }
}

/// Whether it is how JSON has a field that this program does not know.
fn is_number(name: &str) -> bool {
    let number = name.strip_prefix('#');
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn missing(name: String, shapes: &[Shape]) -> NameError {
    let messages: Vec<&'static Message> = shapes
        .iter()
        .filter_map(|shape| match shape {
            Shape::Message(of) => Some(*of),
            _ => None,
        })
        .collect();
    match messages.as_slice() {
        [] if shapes.iter().any(|shape| matches!(shape, Shape::List(_))) => {
            NameError::List { name }
        }
        [] => NameError::Scalar { name },
        [first, ..] => NameError::Field {
            message: first.short_name(),
            near: near(&name, &messages),
            has: first.fields.iter().map(|field| field.name).collect(),
            name,
        },
    }
}

/// The fields of `messages` that may be meant by a name: those of that name further in, or else those that are like it.
fn near(name: &str, messages: &[&'static Message]) -> Vec<String> {
    let further_in = messages.iter().flat_map(|of| paths(name, of, DEEPEST));
    let further_in: Vec<String> = further_in.collect();
    if !further_in.is_empty() {
        return further_in;
    }
    let fields = messages.iter().flat_map(|message| message.fields);
    let fields = fields.map(|field| (vec![field.name, field.json_name], field.name.to_owned()));
    likest(name, fields)
}

/// The paths at which a message has a field of that name, below its own fields.
fn paths(name: &str, message: &'static Message, deep: usize) -> Vec<String> {
    let inner = message.fields.iter().filter_map(|field| {
        let each = match field.cardinality {
            Cardinality::Repeated => "[*]",
            _ => "",
        };
        Some((format!("{}{each}", field.name), field.message()?))
    });
    inner
        .flat_map(|(before, of)| {
            let own = of.field(name).map(|field| field.name.to_owned());
            let deeper = match (deep, &own) {
                (0, _) | (_, Some(_)) => Vec::new(),
                (deep, None) => paths(name, of, deep - 1),
            };
            let all = own.into_iter().chain(deeper);
            all.map(move |path| format!("{before}.{path}"))
        })
        .collect()
}

fn spell_test(test: &mut Test, root: Shape, current: &[Shape]) -> Result<(), NameError> {
    match test {
        Test::Any(all) | Test::All(all) => {
            for test in all {
                spell_test(test, root, current)?;
            }
            Ok(())
        }
        Test::Not(test) => spell_test(test, root, current),
        Test::Exists(query) => spell(query, root, current).map(drop),
        Test::Compare(left, _, right) => {
            spell_operand(left, root, current)?;
            spell_operand(right, root, current)
        }
    }
}

fn spell_operand(operand: &mut Operand, root: Shape, current: &[Shape]) -> Result<(), NameError> {
    match operand {
        Operand::Literal(_) => Ok(()),
        Operand::Length(of) => spell_operand(of, root, current),
        Operand::Query(query) | Operand::Count(query) | Operand::Value(query) => {
            spell(query, root, current).map(drop)
        }
    }
}
