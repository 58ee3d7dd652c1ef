//! Variables: replies and texts under names, the script's arguments, the environment. Paths into them are `value_path`'s.
//!
//! A reply stays bytes until somebody asks for a part of it. Nothing here prints or calls a driver.

use super::line::{Word, WordPiece, is_name};
use super::value_path::{self, TypedValue, ValuePathError, split, steps};
use csi_output::columns::{Columns, aligned};
use csi_proto::escaped;
use csi_proto::schema::Message;
use csi_proto::value::{Secrets, decode};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The variable that holds the last reply.
pub(crate) const LAST: &str = "_";

/// The name behind which the environment's variables stand: `$env.HOME`.
pub const ENVIRONMENT: &str = "env";

/// The content of a variable.
#[derive(Clone, Debug)]
pub enum Variable {
    /// A reply or a part of one; the pages of a list are one reply.
    Reply(Reply),
    /// Text.
    Text(String),
}

/// A reply, or what stands at a path in it.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The type of the message.
    pub message: &'static Message,
    /// The bytes of the message, shared by all variables that are parts of it.
    pub bytes: Rc<[u8]>,
    /// The path of the part, such as `.volume`; empty for the whole.
    pub part: String,
}

impl Reply {
    /// The whole of a reply.
    pub fn whole(message: &'static Message, bytes: Vec<u8>) -> Self {
        Self {
            message,
            bytes: bytes.into(),
            part: String::new(),
        }
    }

    /// What stands at `path` in it; `at` is what the person calls it, for errors.
    ///
    /// # Errors
    /// When the path leads nowhere.
    pub fn value(&self, at: &str, path: &str) -> Result<TypedValue<'_>, ValuePathError> {
        let syntax = || ValuePathError::Syntax(format!("{}{path}", at.trim_start_matches('$')));
        let whole = TypedValue {
            value: decode(self.message, &self.bytes, Secrets::Mask)?,
            message: Some(self.message),
        };
        let part = whole.follow(&steps(&self.part).ok_or_else(syntax)?, "")?;
        part.follow(&steps(path).ok_or_else(syntax)?, at)
    }
}

/// All variables by name, and the arguments of the script that runs.
#[derive(Debug, Default)]
pub struct Values {
    named: BTreeMap<String, Variable>,
    arguments: Vec<String>,
}

impl Values {
    /// Lists the variables with what each holds, one a line.
    pub fn listing(&self) -> String {
        let cells: Vec<String> = self
            .iter()
            .flat_map(|(name, value)| {
                let value = match value {
                    Variable::Reply(reply) if reply.part.is_empty() => {
                        let size = reply.bytes.len();
                        format!("{}, {size} bytes", reply.message.short_name())
                    }
                    Variable::Reply(reply) => {
                        let part = escaped(&reply.part);
                        format!("{}{part}", reply.message.short_name())
                    }
                    Variable::Text(value) => escaped(value).into_owned(),
                };
                [format!("${name}"), value]
            })
            .collect();
        if cells.is_empty() {
            return "there are no variables: `name = COMMAND` makes one\n".to_owned();
        }
        aligned(Columns::new(2, 2), &cells)
    }

    /// Gives a variable its value.
    pub fn set(&mut self, name: &str, value: Variable) {
        self.named.insert(name.to_owned(), value);
    }

    /// Forgets a variable; says whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.named.remove(name).is_some()
    }

    /// Makes these the arguments `$1`, `$2` …; returns those of before.
    pub(crate) fn set_arguments(&mut self, arguments: Vec<String>) -> Vec<String> {
        std::mem::replace(&mut self.arguments, arguments)
    }

    /// All variables in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.named
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// A word with its variables expanded.
    ///
    /// # Errors
    /// When a path leads nowhere.
    pub fn expand(&self, word: &Word) -> Result<String, ValuePathError> {
        self.joined(word, |path| self.text(path))
    }

    /// A word as it may be shown: what comes from the environment, often a secret, stays as it was typed.
    ///
    /// # Errors
    /// When a path leads nowhere.
    pub fn shown(&self, word: &Word) -> Result<String, ValuePathError> {
        self.joined(word, |path| match split(path).0 {
            ENVIRONMENT => Ok(format!("${path}")),
            _ => self.text(path),
        })
    }

    fn joined(
        &self,
        word: &Word,
        variable: impl Fn(&str) -> Result<String, ValuePathError>,
    ) -> Result<String, ValuePathError> {
        let pieces = word.pieces.iter().map(|piece| match piece {
            WordPiece::Text(text) => Ok(text.clone()),
            WordPiece::Variable(path) => variable(path),
        });
        pieces.collect()
    }

    /// The text of what is at `path`, which begins with a variable's name. Behind `:-` stands the text for what is missing
    /// or empty.
    ///
    /// # Errors
    /// When the path leads nowhere.
    pub fn text(&self, path: &str) -> Result<String, ValuePathError> {
        let (path, default) = value_path::split_default(path);
        let text = self.at(path).and_then(|variable| match variable {
            Variable::Text(text) => Ok(text),
            Variable::Reply(reply) => Ok(value_path::text(&reply.value("", "")?.value)),
        });
        match (text, default) {
            (Err(error), Some(default)) if error.is_missing() => Ok(default.to_owned()),
            (Ok(text), Some(default)) if text.is_empty() => Ok(default.to_owned()),
            (text, _) => text,
        }
    }

    /// What is at `path`, as a variable of its own.
    ///
    /// # Errors
    /// When the path leads nowhere.
    pub fn at(&self, path: &str) -> Result<Variable, ValuePathError> {
        let (name, rest) = split(path);
        let at = format!("${name}");
        let named = match name {
            ENVIRONMENT => return environment(rest).map(Variable::Text),
            number if number.starts_with(|letter: char| letter.is_ascii_digit()) => {
                Variable::Text(self.argument(number)?)
            }
            name if is_name(name) => {
                let missing = || ValuePathError::Variable {
                    name: name.to_owned(),
                    has: self.named.keys().map(|name| format!("${name}")).collect(),
                };
                self.named.get(name).ok_or_else(missing)?.clone()
            }
            _ => return Err(ValuePathError::Syntax(path.to_owned())),
        };
        match named {
            Variable::Text(text) => match steps(rest).as_deref() {
                Some([]) => Ok(Variable::Text(text)),
                Some([step, ..]) => Err(ValuePathError::Leaf {
                    at,
                    what: "text",
                    step: step.as_text(),
                    others_may_have: false,
                }),
                None => Err(ValuePathError::Syntax(path.to_owned())),
            },
            Variable::Reply(mut reply) => {
                reply.value(&at, rest)?;
                reply.part.push_str(rest);
                Ok(Variable::Reply(reply))
            }
        }
    }

    fn argument(&self, number: &str) -> Result<String, ValuePathError> {
        let place = number.parse::<usize>().ok();
        let found = place
            .and_then(|place| place.checked_sub(1))
            .and_then(|index| self.arguments.get(index));
        found.cloned().ok_or_else(|| ValuePathError::Argument {
            number: number.to_owned(),
            given: self.arguments.len(),
        })
    }

    /// The paths that could go on where `path` ends in an unfinished step, for completion: whole paths, without the `$`.
    pub(crate) fn continuations(&self, path: &str) -> Vec<String> {
        let Some((before, _)) = path.rsplit_once('.') else {
            let names = self.named.keys().map(String::as_str);
            return names.chain([ENVIRONMENT]).map(str::to_owned).collect();
        };
        let names = match before {
            ENVIRONMENT => {
                let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
                names.filter(|name| is_name(name)).collect()
            }
            before => match self.at(before) {
                Ok(Variable::Reply(reply)) => reply
                    .value("", "")
                    .map(|value| value.names())
                    .unwrap_or_default(),
                _ => Vec::new(),
            },
        };
        let whole = names.into_iter().map(|name| format!("{before}.{name}"));
        whole.collect()
    }
}

/// The variable of the environment that the rest of a path names.
fn environment(rest: &str) -> Result<String, ValuePathError> {
    let name = rest.strip_prefix('.').filter(|name| is_name(name));
    let name = name.ok_or_else(|| ValuePathError::Syntax(format!("{ENVIRONMENT}{rest}")))?;
    std::env::var(name).map_err(|_| ValuePathError::Environment(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_arguments::map;
    use csi_proto::{tables, v1};
    use prost::Message as _;

    fn values() -> Values {
        let volume = v1::Volume {
            capacity_bytes: 1 << 30,
            volume_id: "a#b:c d".to_owned(),
            volume_context: [("share", "/x"), ("a.b/c", "1,2"), ("at", "@x")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..v1::Volume::default()
        };
        let list = v1::ListVolumesResponse {
            entries: vec![v1::list_volumes_response::Entry {
                volume: Some(volume.clone()),
                status: None,
            }],
            next_token: String::new(),
        };
        let created = v1::CreateVolumeResponse {
            volume: Some(volume),
        };
        let mut values = Values::default();
        let reply = |message, bytes| Variable::Reply(Reply::whole(message, bytes));
        values.set(
            "vol",
            reply(&tables::CREATE_VOLUME_RESPONSE, created.encode_to_vec()),
        );
        values.set(
            "list",
            reply(&tables::LIST_VOLUMES_RESPONSE, list.encode_to_vec()),
        );
        values.set("t", Variable::Text("text".to_owned()));
        values
    }

    #[test]
    fn paths_lead_to_text() {
        let values = values();
        for (path, expected) in [
            ("vol.volume.volume_id", "a#b:c d"),
            ("vol.volume.volumeId", "a#b:c d"),
            ("vol.volume.capacity_bytes", "1073741824"),
            ("vol.volume.volume_context.share", "/x"),
            ("vol.volume.volume_context[\"a.b/c\"]", "1,2"),
            ("vol.volume.content_source", ""),
            ("vol.volume.content_source.volume.volume_id", ""),
            ("list.entries[0].volume.volume_id", "a#b:c d"),
            ("list.entries.0.volume.volume_id", "a#b:c d"),
            ("list.entries.length", "1"),
            ("list.entries[-1].volume.volume_id", "a#b:c d"),
            ("t", "text"),
        ] {
            assert_eq!(values.text(path).unwrap(), expected, "{path}");
        }
        let context = values.text("vol.volume.volume_context").unwrap();
        assert_eq!(context, "\"a.b/c=1,2\",at=@@x,share=/x");
        let back: Vec<_> = map::parse(&context).unwrap().into_iter().collect();
        assert!(back.contains(&("at".to_owned(), "@x".to_owned())));
        let json = values.text("vol.volume.volume_context.at").unwrap();
        assert_eq!(json, "@x");
    }

    #[test]
    fn what_leads_nowhere_names_what_exists() {
        let values = values();
        for (path, error) in [
            ("x", "there is no variable $x; there is $list, $t, $vol"),
            ("vol.id", "$vol has no field \"id\"; it has volume"),
            (
                "vol.volume.id",
                "$vol.volume has no field \"id\"; it has capacity_bytes, volume_id, volume_context, content_source, accessible_topology",
            ),
            (
                "vol.volume.volume_context.x",
                "$vol.volume.volume_context has no field \"x\"; it has a.b/c, at, share",
            ),
            (
                "list.entries[1]",
                "$list.entries has no element 1; it has one, [0]",
            ),
            (
                "list.entries[-2]",
                "$list.entries has no element -2; it has one, [0]",
            ),
            (
                "list.entries.volume",
                "$list.entries is a list: write [0] for its first element, or .length, which has no field \"volume\"",
            ),
            ("t.x", "$t is text, which has no field \"x\""),
            (
                "vol.volume.volume_id.x",
                "$vol.volume.volume_id is text, which has no field \"x\"",
            ),
        ] {
            assert_eq!(values.text(path).unwrap_err().to_string(), error);
        }
        let none = Values::default().text("_").unwrap_err().to_string();
        assert_eq!(
            none,
            "there is no variable $_; there are none yet: `name = COMMAND` makes one"
        );
    }

    #[test]
    fn paths_go_on() {
        let values = values();
        assert_eq!(values.continuations("v"), ["list", "t", "vol", "env"]);
        assert_eq!(
            values.continuations("list.entries[0]."),
            ["list.entries[0].volume", "list.entries[0].status"]
        );
        assert_eq!(values.continuations("t."), Vec::<String>::new());
    }

    #[test]
    fn a_part_of_a_reply_is_a_variable_too() {
        let mut values = values();
        let part = values.at("list.entries[0]").unwrap();
        values.set("entry", part);
        let part = values.at("entry.volume").unwrap();
        values.set("volume", part);
        assert_eq!(values.text("volume.volume_id").unwrap(), "a#b:c d");
        assert_eq!(
            values.text("entry.x").unwrap_err().to_string(),
            "$entry has no field \"x\"; it has volume, status"
        );
        assert!(
            values
                .continuations("volume.")
                .contains(&"volume.volume_id".to_owned())
        );
    }

    #[test]
    fn values_come_from_outside_and_have_defaults() {
        let mut values = values();
        let before = values.set_arguments(vec!["a".to_owned(), String::new()]);
        assert!(before.is_empty());
        // Cargo sets it for every test.
        let package = env!("CARGO_PKG_NAME");
        for (path, expected) in [
            ("1", "a"),
            ("2", ""),
            ("1:-b", "a"),
            ("2:-b", "b"),
            ("3:-b", "b"),
            ("t:-b", "text"),
            ("x:-b c", "b c"),
            ("x:-", ""),
            ("x:-\"b  c\"", "b  c"),
            ("x:-'b'", "b"),
            ("x:-\"\"", ""),
            ("x:-\"", "\""),
            ("x:-\"b\" \"c\"", "\"b\" \"c\""),
            ("vol.volume.content_source:-none", "none"),
            ("vol.volume.volume_context.x:-none", "none"),
            ("vol.volume.volume_context[\"a.b/c\"]:-none", "1,2"),
            ("vol.volume.volume_context[\"x:-y\"]:-none", "none"),
            ("list.entries[0].status.published_node_ids[0]:-none", "none"),
            ("env.CARGO_PKG_NAME", package),
            ("env.CSI_NO_SUCH_VARIABLE:-b", "b"),
        ] {
            assert_eq!(values.text(path).unwrap(), expected, "{path}");
        }
        for (path, error) in [
            ("3", "there is no argument $3: $1 to $2 were given"),
            ("0", "there is no argument $0: $1 to $2 were given"),
            ("1.x", "$1 is text, which has no field \"x\""),
            ("vol.id:-b", "$vol has no field \"id\"; it has volume"),
            (
                "env",
                "$env is not a path: write $name.field, $name.list[0] or $name.map[\"key\"]",
            ),
            (
                "env.CSI_NO_SUCH_VARIABLE",
                "the environment has no variable \"CSI_NO_SUCH_VARIABLE\": ${env.CSI_NO_SUCH_VARIABLE:-VALUE} is VALUE where it is missing",
            ),
        ] {
            assert_eq!(values.text(path).unwrap_err().to_string(), error, "{path}");
        }
    }

    #[test]
    fn what_comes_from_the_environment_is_not_shown() {
        let values = values();
        let piece = |path: &str| WordPiece::Variable(path.to_owned());
        let word = Word {
            pieces: vec![piece("t"), piece("env.CARGO_PKG_NAME")],
            ..Word::default()
        };
        assert_eq!(values.shown(&word).unwrap(), "text$env.CARGO_PKG_NAME");
    }
}
