//! Everything beside its own flags that a request is built from: the flags that every RPC has, the secrets, the document of
//! `--request`; and the request while flags are put into it, as bytes: fields are found by name, so that no message is known here.

use super::from_reply::FromReplyError;
use clap::Args;
use csi_arguments::request::{self, RequestSource};
use csi_arguments::secrets::{Secrets, parse_key};
use csi_arguments::volume_paths::NoPath;
use csi_proto::json::{self, JsonError};
use csi_proto::schema::{Cardinality, Field, Message};
use csi_proto::wire::{self, Raw};
use csi_proto::{contents, duration, v1};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;

/// Flags of every RPC beside its own.
#[derive(Args, Debug)]
pub struct RequestFlags {
    /// The whole request as JSON: a file, - for stdin, or the document itself; other flags override it
    #[arg(long, value_name = "FILE|-|JSON", value_parser = request::parse, help_heading = REQUEST)]
    pub request: Option<RequestSource>,
    /// Print the request as JSON instead of sending it; secrets are left out
    #[arg(long, help_heading = REQUEST)]
    pub dry_run: bool,
    /// With several names or ids: go on after a failure, and exit with the first one's code
    #[arg(long, help_heading = REQUEST)]
    pub keep_going: bool,
    /// Secrets from a file: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE", help_heading = REQUEST)]
    pub secrets_file: Option<String>,
    /// Secrets to ask for on the terminal, without echo
    #[arg(long, value_name = "KEY,…", value_delimiter = ',', value_parser = parse_key, help_heading = REQUEST)]
    pub secrets_prompt: Vec<String>,
}

const REQUEST: &str = "Request";

/// Flags of RPCs that only read.
#[derive(Args, Debug)]
pub struct WatchFlags {
    /// Go on asking, and print what has changed, until Ctrl-C
    #[arg(short, long, help_heading = REQUEST)]
    watch: bool,
    /// How long to wait before asking again
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse, requires = "watch", help_heading = REQUEST)]
    watch_interval: Duration,
}

impl WatchFlags {
    /// How long to wait before asking again; `None` where nothing is watched.
    pub fn pause(&self) -> Option<Duration> {
        self.watch.then_some(self.watch_interval)
    }
}

/// Everything beside its own flags that a request is built from.
#[derive(Debug, Default)]
pub struct RequestContext {
    /// The required capability that is sent when no flag names one; none is sent without it, as csc does.
    pub default_capability: Option<v1::VolumeCapability>,
    /// The parameters of new volumes; flags change single ones of them. Those of a whole request stay as they are.
    pub parameters: BTreeMap<String, String>,
    /// The secrets, for every request that has such a field.
    pub secrets: Secrets,
    /// The document of `--request`.
    pub base: Option<Json>,
}

/// Flags that do not make a request.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A needed argument is missing.
    #[error("missing {0}: name at least one, or give the whole request with --request")]
    NoSubject(&'static str),
    /// Two ways to say one thing.
    #[error("{0}")]
    Conflict(String),
    /// An argument without a path.
    #[error("{0}")]
    NoPath(#[from] NoPath),
    /// A file without the map of an earlier reply.
    #[error("{0}")]
    FromReply(#[from] FromReplyError),
    /// The document of `--request` does not fit.
    #[error("--request does not fit {message}: {source}")]
    Json {
        /// The request's message.
        message: &'static str,
        /// The place that does not fit.
        source: JsonError,
    },
}

impl RequestContext {
    /// The beginning of a request: that of `--request`, with the secrets, which replace those of the same key.
    pub(super) fn draft(&self, message: &'static Message) -> Result<Draft, RequestError> {
        let base = self.base.as_ref();
        let base = base
            .map(|document| json::encode(message, document))
            .transpose();
        let base = base.map_err(|source| RequestError::Json {
            message: message.short_name(),
            source,
        })?;
        let mut draft = Draft::new(message, base.unwrap_or_default());
        draft.put_secrets(self.secrets.reveal());
        Ok(draft)
    }

    /// Adds the secrets to a request's own, whose keys they replace.
    pub fn add_secrets(&self, secrets: &mut BTreeMap<String, String>) {
        secrets.extend(self.secrets.reveal().clone());
    }
}

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
    use csi_proto::tables::{CREATE_VOLUME_REQUEST, LIST_VOLUMES_REQUEST};
    use csi_proto::value::secret_values;
    use serde_json::json;

    #[test]
    fn what_is_replaced_is_not_sent() {
        let context = RequestContext {
            secrets: Secrets::from_record("key=new").expect("a record"),
            base: Some(json!({"name": "old", "secrets": {"key": "old", "other": "kept"}})),
            ..RequestContext::default()
        };
        let mut draft = context.draft(&CREATE_VOLUME_REQUEST).expect("a request");
        draft.put("name", "new");
        let values = |name| contents(draft.message, &draft.bytes, name);
        assert_eq!(values("name"), [b"new"]);
        let mut secrets = secret_values(draft.message, &draft.bytes);
        secrets.sort();
        assert_eq!(secrets, ["kept", "new"]);
        let mut page = Draft::new(&LIST_VOLUMES_REQUEST, Vec::new());
        for number in [1, 2] {
            page.put_number("max_entries", number);
        }
        assert_eq!(page.bytes, [8, 2]);
    }
}
