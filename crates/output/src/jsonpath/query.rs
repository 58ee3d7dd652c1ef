//! Expressions as data, and what they find in a document.
//!
//! Owns the meaning of RFC 9535, with one addition: a 64-bit number, which JSON has as text, compares as a number. How an
//! expression is written is said in `syntax.rs`.

use super::shape::Shape;
use serde_json::Value as Json;
use std::cmp::Ordering;

/// An expression: steps from a place in the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(super) from: Origin,
    pub(super) segments: Vec<Segment>,
}

/// Where an expression begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The whole document.
    Root,
    /// The value that a loop or a filter is about; the whole document outside of both.
    Current,
}

/// A step: what it selects of each value before it, and of all that those hold where it is deep.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment {
    pub is_deep: bool,
    pub selectors: Vec<Selector>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Selector {
    /// A member's name, as it was typed.
    Name(String),
    All,
    Index(i64),
    Slice(Slice),
    Filter(Test),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub step: i64,
}

/// What a filter demands of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Any(Vec<Test>),
    All(Vec<Test>),
    Not(Box<Test>),
    Exists(Query),
    Compare(Operand, Operator, Operand),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Literal(Json),
    /// The one value that it can find.
    Query(Query),
    Length(Box<Operand>),
    Count(Query),
    /// The value that it finds, where that is one.
    Value(Query),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// A value in a document, and what stands there.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The value.
    pub value: &'a Json,
    /// What it is: a map has other names than a message.
    pub shape: Shape,
}

/// The whole document, and the value that an expression is about.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The whole document.
    pub root: Node<'a>,
    /// The value in it.
    pub current: Node<'a>,
}

impl<'a> Scope<'a> {
    /// The whole of a document.
    pub fn whole(value: &'a Json, shape: Shape) -> Self {
        let root = Node { value, shape };
        Self {
            root,
            current: root,
        }
    }
}

impl Query {
    /// What it finds in a scope. What is not there is nothing.
    pub fn find<'a>(&self, scope: Scope<'a>) -> Vec<Node<'a>> {
        let mut found = vec![match self.from {
            Origin::Root => scope.root,
            Origin::Current => scope.current,
        }];
        for segment in &self.segments {
            found = segment.select(scope.root, &found);
        }
        found
    }

    /// Whether it finds one value at most.
    pub(super) fn is_singular(&self) -> bool {
        self.segments.iter().all(|segment| {
            let one = |one: &Selector| matches!(one, Selector::Name(_) | Selector::Index(_));
            !segment.is_deep && segment.selectors.len() == 1 && segment.selectors.iter().all(one)
        })
    }
}

impl Segment {
    fn select<'a>(&self, root: Node<'a>, nodes: &[Node<'a>]) -> Vec<Node<'a>> {
        let mut found = Vec::new();
        for node in nodes {
            self.visit(root, *node, &mut found);
        }
        found
    }

    fn visit<'a>(&self, root: Node<'a>, node: Node<'a>, found: &mut Vec<Node<'a>>) {
        for selector in &self.selectors {
            selector.select(root, node, found);
        }
        if self.is_deep {
            for child in node.children() {
                self.visit(root, child, found);
            }
        }
    }
}

impl Selector {
    fn select<'a>(&self, root: Node<'a>, node: Node<'a>, found: &mut Vec<Node<'a>>) {
        match (self, node.value) {
            (Self::Name(name), Json::Object(members)) => {
                let member = members.get(node.shape.json_name(name));
                found.extend(member.map(|value| node.member(name, value)));
            }
            (Self::All, _) => found.extend(node.children()),
            (Self::Index(index), Json::Array(list)) => {
                let index = usize::try_from(place(*index, list.len())).ok();
                let entry = index.and_then(|index| list.get(index));
                found.extend(entry.map(|value| node.entry(value)));
            }
            (Self::Slice(slice), Json::Array(list)) => {
                found.extend(slice.of(list).into_iter().map(|value| node.entry(value)));
            }
            (Self::Filter(test), _) => {
                let children = node.children().into_iter();
                found.extend(children.filter(|current| {
                    test.holds(Scope {
                        root,
                        current: *current,
                    })
                }));
            }
            (Self::Name(_) | Self::Index(_) | Self::Slice(_), _) => {}
        }
    }
}

impl<'a> Node<'a> {
    fn member(self, name: &str, value: &'a Json) -> Self {
        let shape = self.shape.behind(name);
        Self { value, shape }
    }

    fn entry(self, value: &'a Json) -> Self {
        let shape = self.shape.entry();
        Self { value, shape }
    }

    /// The entries of a list, or the values of an object.
    fn children(self) -> Vec<Self> {
        match self.value {
            Json::Array(list) => list.iter().map(|value| self.entry(value)).collect(),
            Json::Object(members) => {
                let members = members.iter();
                members
                    .map(|(name, value)| self.member(name, value))
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// An index that may count from the end.
fn place(index: i64, length: usize) -> i64 {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    if index < 0 {
        length.saturating_add(index)
    } else {
        index
    }
}

impl Slice {
    fn of<'a>(&self, list: &'a [Json]) -> Vec<&'a Json> {
        let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
        let bound = |given: Option<i64>, default, least, most| {
            given.map_or(default, |index| place(index, list.len()).clamp(least, most))
        };
        let (mut at, end) = match self.step {
            0 => return Vec::new(),
            1.. => (
                bound(self.start, 0, 0, length),
                bound(self.end, length, 0, length),
            ),
            _ => (
                bound(self.start, length - 1, -1, length - 1),
                bound(self.end, -1, -1, length - 1),
            ),
        };
        let mut found = Vec::new();
        while if self.step > 0 { at < end } else { at > end } {
            found.extend(usize::try_from(at).ok().and_then(|at| list.get(at)));
            at = at.saturating_add(self.step);
        }
        found
    }
}

impl Test {
    fn holds(&self, scope: Scope<'_>) -> bool {
        match self {
            Self::Any(all) => all.iter().any(|test| test.holds(scope)),
            Self::All(all) => all.iter().all(|test| test.holds(scope)),
            Self::Not(test) => !test.holds(scope),
            Self::Exists(query) => !query.find(scope).is_empty(),
            Self::Compare(left, operator, right) => {
                let (left, right) = (left.value(scope), right.value(scope));
                operator.holds(left.as_ref(), right.as_ref())
            }
        }
    }
}

impl Operand {
    fn value(&self, scope: Scope<'_>) -> Option<Json> {
        match self {
            Self::Literal(value) => Some(value.clone()),
            Self::Query(query) | Self::Value(query) => match query.find(scope).as_slice() {
                [one] => Some(one.value.clone()),
                _ => None,
            },
            Self::Count(query) => Some(Json::from(query.find(scope).len())),
            Self::Length(of) => match of.value(scope)? {
                Json::String(text) => Some(Json::from(text.chars().count())),
                Json::Array(list) => Some(Json::from(list.len())),
                Json::Object(members) => Some(Json::from(members.len())),
                _ => None,
            },
        }
    }
}

impl Operator {
    fn holds(self, left: Option<&Json>, right: Option<&Json>) -> bool {
        let equal = || match (left, right) {
            (Some(left), Some(right)) => {
                left == right || order(left, right) == Some(Ordering::Equal)
            }
            (left, right) => left == right,
        };
        let ordered =
            |wanted| left.zip(right).and_then(|(left, right)| order(left, right)) == Some(wanted);
        match self {
            Self::Equal => equal(),
            Self::Unequal => !equal(),
            Self::Less => ordered(Ordering::Less),
            Self::AtMost => ordered(Ordering::Less) || equal(),
            Self::More => ordered(Ordering::Greater),
            Self::AtLeast => ordered(Ordering::Greater) || equal(),
        }
    }
}

/// The order of two numbers, or of two texts. Texts that are 64-bit numbers are numbers.
fn order(left: &Json, right: &Json) -> Option<Ordering> {
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        return Some(left.cmp(&right));
    }
    match (left, right) {
        (Json::String(left), Json::String(right)) => Some(left.cmp(right)),
        (left, right) => fraction(left)?.partial_cmp(&fraction(right)?),
    }
}

/// A whole number, or a text that JSON has in the place of one.
fn whole(value: &Json) -> Option<i128> {
    match value {
        Json::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from)),
        Json::String(text) => {
            let number: i64 = text.parse().ok()?;
            (number.to_string() == *text).then(|| number.into())
        }
        _ => None,
    }
}

fn fraction(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => number.as_f64(),
        Json::String(_) => whole(value)?.to_string().parse().ok(),
        _ => None,
    }
}
