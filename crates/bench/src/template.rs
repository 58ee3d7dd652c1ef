//! Request templates: `{i}`, `{i%K}`, `{worker}`, `{run}`, `{random}`, `{volume_id}` and the like in any text of a
//! request are replaced; `{{` and `}}` stand for braces.
//!
//! A request is taken apart once; what has no place in it stays the bytes that it was. Secrets are sent as they are. Owns
//! the syntax; knows no flag, and calls nothing.

use bytes::Bytes;
use csi_proto::random;
use csi_proto::schema::{Cardinality, Kind, Message};
use csi_proto::wire::{self, Raw, WireError};
use csi_rpc::facts::{Given, IdKind};
use thiserror::Error;

/// The places and what each stands for, for help and errors.
pub const PLACES: &str = "{i} (the number of the call), {i%K} (its remainder by K), {worker}, {run}, {random}, \
     {volume_id}, {snapshot_id}, {group_snapshot_id} or {node_id}";

/// A text that cannot be filled in.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TemplateError {
    /// A name that stands for nothing.
    #[error("{{{0}}} stands for nothing: write {PLACES}; for a brace itself write {{{{ or }}}}")]
    Unknown(String),
    /// A brace alone.
    #[error("{0:?} has a brace without its partner: for a brace itself write {{{{ or }}}}")]
    Unbalanced(String),
    /// Not a request.
    #[error("the request cannot be read back: {0}")]
    Wire(#[from] WireError),
}

/// Everything learnt so far, as the contents of fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge(Vec<(Given, Vec<Bytes>)>);

impl Knowledge {
    /// The contents of what was learnt; empty for nothing.
    pub fn get(&self, what: Given) -> &[Bytes] {
        let known = self.0.iter().find(|(known, _)| *known == what);
        known.map_or(&[], |(_, contents)| contents)
    }

    /// Learns, in the place of what was known.
    pub fn set(&mut self, what: Given, contents: Vec<Bytes>) {
        self.0.retain(|(known, _)| *known != what);
        self.0.push((what, contents));
    }
}

/// The values that replace the variables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'a> {
    /// The number of the call, from 0.
    pub number: u64,
    /// The number of the worker, from 0.
    pub worker: usize,
    /// The id of the run.
    pub run: &'a str,
    /// The seed of `{random}`.
    pub seed: u64,
    /// The values that were learned from earlier calls.
    pub known: &'a Knowledge,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number,
    Remainder(u64),
    Worker,
    Run,
    Random,
    Learnt(Given),
}

/// A text, taken apart.
type Parts = Vec<Part>;

#[derive(Clone, Debug)]
enum Piece {
    /// Fields as they stand.
    Bytes(Vec<u8>),
    Text(u32, Parts),
    Message(u32, Vec<Piece>),
    /// A field for each content.
    Learnt(u32, Given),
}

/// A request, taken apart.
#[derive(Clone, Debug)]
pub struct Template {
    pieces: Vec<Piece>,
    /// The whole, where nothing is to be filled in.
    whole: Option<Bytes>,
}

impl Template {
    /// Takes apart the bytes of a `message`.
    ///
    /// # Errors
    /// When a text has a place that does not exist.
    pub fn new(message: &'static Message, bytes: &[u8]) -> Result<Self, TemplateError> {
        let pieces = pieces(Some(message), bytes)?;
        // Plain fields that follow each other are one piece.
        let whole = match pieces.as_slice() {
            [] => Some(Bytes::new()),
            [Piece::Bytes(bytes)] => Some(Bytes::copy_from_slice(bytes)),
            _ => None,
        };
        Ok(Self { pieces, whole })
    }

    /// Adds a field that holds what was learnt; entries of a map that the request has already win over it.
    pub fn carry(&mut self, number: u32, what: Given) {
        self.pieces.insert(0, Piece::Learnt(number, what));
        self.whole = None;
    }

    /// Whether a text of the request itself differs from call to call, or from run to run.
    pub fn is_own(&self, number: u32) -> bool {
        self.holds(number, |part| {
            matches!(
                part,
                Part::Number | Part::Remainder(_) | Part::Run | Part::Random | Part::Worker
            )
        })
    }

    /// Whether a text of the request itself holds what was learnt.
    pub(crate) fn holds_learnt(&self, number: u32) -> bool {
        self.holds(number, |part| matches!(part, Part::Learnt(_)))
    }

    /// Whether a text of the request itself holds the id of the run.
    pub(crate) fn holds_run(&self, number: u32) -> bool {
        self.holds(number, |part| *part == Part::Run)
    }

    fn holds(&self, number: u32, wanted: impl Fn(&Part) -> bool) -> bool {
        self.pieces.iter().any(|piece| {
            matches!(piece, Piece::Text(of, parts) if *of == number && parts.iter().any(&wanted))
        })
    }

    /// Whether anything in it needs what `what` says.
    pub fn needs(&self, what: Given) -> bool {
        needs(&self.pieces, what)
    }

    /// The request's bytes.
    pub fn fill(&self, filling: &Filling<'_>) -> Bytes {
        if let Some(whole) = &self.whole {
            return whole.clone();
        }
        let mut out = Vec::with_capacity(128);
        fill(&self.pieces, filling, &mut out);
        Bytes::from(out)
    }
}

fn needs(pieces: &[Piece], what: Given) -> bool {
    pieces.iter().any(|piece| match piece {
        Piece::Bytes(_) | Piece::Learnt(..) => false,
        Piece::Text(_, parts) => parts.contains(&Part::Learnt(what)),
        Piece::Message(_, pieces) => needs(pieces, what),
    })
}

/// The pieces of a message, or without one of a map's entry, whose key and value are text.
fn pieces(message: Option<&'static Message>, bytes: &[u8]) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut plain = Vec::new();
    for field in wire::fields(bytes) {
        let (number, raw) = field?;
        let known = |message: &Message| message.fields.iter().find(|field| field.number == number);
        let piece = match (message.map(known), raw) {
            (None, Raw::Bytes(text)) => text_piece(number, text)?,
            (Some(Some(field)), Raw::Bytes(text)) if !field.secret => match field.kind {
                Kind::String if field.cardinality != Cardinality::Map => text_piece(number, text)?,
                Kind::String | Kind::Message(_) => {
                    let inner = self::pieces(field.message(), text)?;
                    variable(&inner).then_some(Piece::Message(number, inner))
                }
                _ => None,
            },
            _ => None,
        };
        match piece {
            None => wire::put(&mut plain, number, raw),
            Some(piece) => {
                if !plain.is_empty() {
                    pieces.push(Piece::Bytes(std::mem::take(&mut plain)));
                }
                pieces.push(piece);
            }
        }
    }
    if !plain.is_empty() {
        pieces.push(Piece::Bytes(plain));
    }
    Ok(pieces)
}

fn variable(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| !matches!(piece, Piece::Bytes(_)))
}

/// `None` for a text without braces.
fn text_piece(number: u32, text: &[u8]) -> Result<Option<Piece>, TemplateError> {
    match std::str::from_utf8(text) {
        Ok(text) if text.contains(['{', '}']) => Ok(Some(Piece::Text(number, parse(text)?))),
        _ => Ok(None),
    }
}

/// Takes a text apart.
fn parse(text: &str) -> Result<Parts, TemplateError> {
    let unbalanced = || TemplateError::Unbalanced(text.to_owned());
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            plain.push_str(brace);
            rest = after;
            continue;
        }
        if brace == "}" {
            return Err(unbalanced());
        }
        let (name, after) = rest.split_once('}').ok_or_else(unbalanced)?;
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        parts.push(place(name)?);
        rest = after;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}

fn place(name: &str) -> Result<Part, TemplateError> {
    Ok(match name {
        "i" => Part::Number,
        "worker" => Part::Worker,
        "run" => Part::Run,
        "random" => Part::Random,
        "volume_id" => Part::Learnt(Given::Ids(IdKind::Volume)),
        "snapshot_id" => Part::Learnt(Given::Ids(IdKind::Snapshot)),
        "group_snapshot_id" => Part::Learnt(Given::Ids(IdKind::GroupSnapshot)),
        "node_id" => Part::Learnt(Given::Ids(IdKind::Node)),
        _ => {
            let divisor = name.strip_prefix("i%").and_then(|text| text.parse().ok());
            match divisor {
                Some(divisor @ 1..) => Part::Remainder(divisor),
                _ => return Err(TemplateError::Unknown(name.to_owned())),
            }
        }
    })
}

fn fill(pieces: &[Piece], filling: &Filling<'_>, out: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::Text(number, parts) => {
                wire::put_bytes(out, *number, text(parts, filling).as_bytes());
            }
            Piece::Message(number, pieces) => {
                let mut inner = Vec::new();
                fill(pieces, filling, &mut inner);
                wire::put_bytes(out, *number, &inner);
            }
            Piece::Learnt(number, what) => {
                for content in filling.known.get(*what) {
                    wire::put_bytes(out, *number, content);
                }
            }
        }
    }
}

fn text(parts: &[Part], filling: &Filling<'_>) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for part in parts {
        // A string takes every text.
        let _ = match part {
            Part::Text(text) => out.write_str(text),
            Part::Number => write!(out, "{}", filling.number),
            Part::Remainder(by) => write!(out, "{}", filling.number % by),
            Part::Worker => write!(out, "{}", filling.worker),
            Part::Run => out.write_str(filling.run),
            Part::Random => write!(
                out,
                "{:016x}",
                random::from_seed(filling.seed, filling.number)
            ),
            Part::Learnt(what) => {
                let known = filling.known.get(*what).first();
                out.write_str(&String::from_utf8_lossy(known.map_or(&[], |id| id)))
            }
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::{tables, v1};
    use prost::Message as _;

    fn filled<M: prost::Message + Default>(
        template: &Template,
        number: u64,
        known: &Knowledge,
    ) -> M {
        let filling = Filling {
            number,
            worker: 3,
            run: "r1",
            seed: 7,
            known,
        };
        M::decode(template.fill(&filling)).unwrap()
    }

    #[test]
    fn places_are_filled_in_at_any_depth_but_not_in_secrets() {
        let request = v1::CreateVolumeRequest {
            name: "pvc-{i}-{i%10}-{worker}".into(),
            parameters: [("{run}".to_owned(), "{{{volume_id}}}".to_owned())].into(),
            secrets: [("password".to_owned(), "{i}".to_owned())].into(),
            volume_content_source: Some(v1::VolumeContentSource {
                r#type: Some(v1::volume_content_source::Type::Snapshot(
                    v1::volume_content_source::SnapshotSource {
                        snapshot_id: "{snapshot_id}".into(),
                    },
                )),
            }),
            capacity_range: Some(v1::CapacityRange {
                required_bytes: 1 << 30,
                limit_bytes: 0,
            }),
            ..Default::default()
        };
        let template =
            Template::new(&tables::CREATE_VOLUME_REQUEST, &request.encode_to_vec()).unwrap();
        let mut known = Knowledge::default();
        known.set(Given::Ids(IdKind::Volume), vec!["vol-1".into()]);
        known.set(Given::Ids(IdKind::Snapshot), vec!["snap-1".into()]);
        let mut expected = request.clone();
        expected.name = "pvc-123-3-3".into();
        expected.parameters = [("r1".to_owned(), "{vol-1}".to_owned())].into();
        expected.volume_content_source = Some(v1::VolumeContentSource {
            r#type: Some(v1::volume_content_source::Type::Snapshot(
                v1::volume_content_source::SnapshotSource {
                    snapshot_id: "snap-1".into(),
                },
            )),
        });
        let got: v1::CreateVolumeRequest = filled(&template, 123, &known);
        assert_eq!(got, expected);
        assert!(
            template.needs(Given::Ids(IdKind::Volume))
                && template.needs(Given::Ids(IdKind::Snapshot))
        );
        assert!(!template.needs(Given::Ids(IdKind::Node)));
    }

    #[test]
    fn a_request_without_places_is_made_once() {
        let request = v1::NodePublishVolumeRequest {
            volume_id: "v".into(),
            target_path: "/t".into(),
            readonly: true,
            ..Default::default()
        };
        let bytes = request.encode_to_vec();
        let template = Template::new(&tables::NODE_PUBLISH_VOLUME_REQUEST, &bytes).unwrap();
        assert!(template.whole.is_some());
        let known = Knowledge::default();
        assert_eq!(
            filled::<v1::NodePublishVolumeRequest>(&template, 5, &known),
            request
        );
    }

    #[test]
    fn what_was_learnt_is_carried_over_field_by_field() {
        let reply = v1::Volume {
            volume_context: [
                ("a".to_owned(), "1".to_owned()),
                ("b".to_owned(), "2".to_owned()),
            ]
            .into(),
            ..Default::default()
        };
        let bytes = reply.encode_to_vec();
        let contexts = wire::fields(&bytes).map(|field| match field.unwrap() {
            (_, Raw::Bytes(bytes)) => Bytes::copy_from_slice(bytes),
            _ => panic!("an entry is bytes"),
        });
        let mut known = Knowledge::default();
        known.set(Given::VolumeContext, contexts.collect());
        let message = &tables::NODE_PUBLISH_VOLUME_REQUEST;
        let mut template = Template::new(message, &[]).unwrap();
        let number = message.field("volume_context").unwrap().number;
        template.carry(number, Given::VolumeContext);
        let got: v1::NodePublishVolumeRequest = filled(&template, 0, &known);
        assert_eq!(got.volume_context, reply.volume_context);
    }

    #[test]
    fn nonsense_is_refused_with_what_is_right() {
        for (text, part) in [
            ("{I}", "{I} stands for nothing: write {i}"),
            ("{i%0}", "{i%0} stands for nothing"),
            ("{i%x}", "stands for nothing"),
            ("{}", "stands for nothing"),
            ("a{n", "without its partner"),
            ("a}n", "without its partner"),
            ("{\"json\": 1}", "for a brace itself write {{ or }}"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(parse("{{i}}").unwrap(), [Part::Text("{i}".into())]);
    }
}
