//! Holds the names of an expression against the message that it looks into.
//!
//! Owns what is an error there: a name that no document of that message can have. What a document happens to lack is none.

use super::query::{Operand, Origin, Query, Segment, Selector, Test};
use super::shape::Shape;
use csi_arguments::likest::likest;
use csi_proto::schema::{Cardinality, Message};
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

/// What can stand where `query` leads.
///
/// # Errors
/// When it has a name that nothing at its place can have.
pub(super) fn check(
    query: &Query,
    root: Shape,
    current: &[Shape],
) -> Result<Vec<Shape>, NameError> {
    let mut shapes = match query.from {
        Origin::Root => vec![root],
        Origin::Current => current.to_vec(),
    };
    for segment in &query.segments {
        shapes = check_segment(segment, root, &shapes)?;
    }
    Ok(shapes)
}

fn check_segment(
    segment: &Segment,
    root: Shape,
    shapes: &[Shape],
) -> Result<Vec<Shape>, NameError> {
    let shapes = match segment.is_deep {
        true => all_within(shapes),
        false => shapes.to_vec(),
    };
    let children = || distinct(shapes.iter().flat_map(|shape| shape.children()));
    let mut found = Vec::new();
    for selector in &segment.selectors {
        match selector {
            Selector::Name(name) => found.extend(check_name(name, &shapes)?),
            Selector::All => {
                has_parts("*", &shapes)?;
                found.extend(children());
            }
            Selector::Filter(test) => {
                has_parts("?", &shapes)?;
                let children = children();
                check_test(test, root, &children)?;
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

fn check_name(name: &str, shapes: &[Shape]) -> Result<Vec<Shape>, NameError> {
    let mut found = Vec::new();
    for shape in shapes {
        match shape {
            Shape::Message(of) if of.field(name).is_none() && !is_number(name) => {}
            Shape::Message(_) | Shape::Map | Shape::Unknown => found.push(shape.behind(name)),
            Shape::List(_) | Shape::Scalar => {}
        }
    }
    // No shape is left behind all fields of a message that has none.
    match found.is_empty() && !shapes.is_empty() {
        true => Err(missing(name.to_owned(), shapes)),
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

fn check_test(test: &Test, root: Shape, current: &[Shape]) -> Result<(), NameError> {
    match test {
        Test::Any(all) | Test::All(all) => {
            for test in all {
                check_test(test, root, current)?;
            }
            Ok(())
        }
        Test::Not(test) => check_test(test, root, current),
        Test::Exists(query) => check(query, root, current).map(drop),
        Test::Compare(left, _, right) => {
            check_operand(left, root, current)?;
            check_operand(right, root, current)
        }
    }
}

fn check_operand(operand: &Operand, root: Shape, current: &[Shape]) -> Result<(), NameError> {
    match operand {
        Operand::Literal(_) => Ok(()),
        Operand::Length(of) => check_operand(of, root, current),
        Operand::Query(query) | Operand::Count(query) | Operand::Value(query) => {
            check(query, root, current).map(drop)
        }
    }
}
