//! Everything beside its own flags that a request is built from: the flags that every RPC has, the secrets, the document of
//! `--request`.

use super::draft::Draft;
use super::from_reply::FromReplyError;
use clap::Args;
use csi_arguments::request::{self, RequestSource};
use csi_arguments::secrets::{Secrets, parse_key};
use csi_arguments::volume_paths::NoPath;
use csi_proto::json::{self, JsonError};
use csi_proto::schema::Message;
use csi_proto::{duration, v1};
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
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval, requires = "watch", help_heading = REQUEST)]
    watch_interval: Duration,
}

/// Reads a pause that leaves a driver time for others.
fn interval(text: &str) -> Result<Duration, Box<dyn std::error::Error + Send + Sync>> {
    let pause = duration::parse(text)?;
    match pause < SHORTEST_INTERVAL {
        true => Err(format!(
            "write {SHORTEST_INTERVAL:?} or longer: a driver is not to be asked without a pause"
        )
        .into()),
        false => Ok(pause),
    }
}

/// The shortest pause between two looks.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

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

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::contents;
    use csi_proto::tables::{CREATE_VOLUME_REQUEST, LIST_VOLUMES_REQUEST};
    use csi_proto::value::secret_values;
    use serde_json::json;

    #[test]
    fn a_driver_is_not_asked_without_a_pause() {
        for text in ["0", "0s", "9ms"] {
            let error = interval(text).expect_err(text).to_string();
            assert!(error.starts_with("write 10ms or longer"), "{error}");
        }
        assert_eq!(interval("10ms").ok(), Some(Duration::from_millis(10)));
    }

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
