//! The log of calls on stderr, as `-v` and related flags ask for it.
//!
//! Owns the wording. A line that cannot be written is lost: nothing fails because nobody reads its log.

use crate::session::Session;
use csi_error::say;
use csi_output::json;
use csi_proto::schema::Message;
use csi_proto::value::{MASK, Secrets};
use csi_proto::{Method, escaped};

use std::time::Duration;
use tonic::metadata::{KeyAndValueRef, MetadataMap};

/// The log of calls on stderr.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// A line a call.
    pub calls: bool,
    /// Requests, secrets masked.
    pub requests: bool,
    /// Replies, secrets masked.
    pub replies: bool,
    /// Metadata of calls.
    pub metadata: bool,
}

impl Log {
    /// Logs a request that is about to be sent through `session`.
    pub fn request(&self, session: &Session, method: &'static Method, bytes: &[u8]) {
        if self.metadata {
            // Values may be tokens: which keys are sent is enough to see what is missing.
            for key in session.metadata_keys() {
                say!("request metadata: {key}: {MASK}");
            }
        }
        if self.requests {
            message("request", method.request, bytes);
        }
    }

    /// The metadata that came with a reply.
    pub fn reply_metadata(&self, metadata: &MetadataMap) {
        if !self.metadata {
            return;
        }
        for entry in metadata.iter() {
            match entry {
                KeyAndValueRef::Ascii(key, value) => {
                    let value = String::from_utf8_lossy(value.as_encoded_bytes()).into_owned();
                    say!("reply metadata: {key}: {}", escaped(&value));
                }
                KeyAndValueRef::Binary(key, _) => {
                    say!("reply metadata: {key}: (binary)");
                }
            }
        }
    }

    /// A reply, without the secrets of its request ([`masked_reply`](crate::secrets::masked_reply)).
    pub fn reply(&self, method: &'static Method, bytes: &[u8]) {
        if self.replies {
            message("reply", method.response, bytes);
        }
    }

    /// Logs the end of a call: its description, the name of the code, and the time it took.
    pub fn call(&self, doing: &str, status: &str, took: Duration) {
        if self.calls {
            let milliseconds = took.as_secs_f64() * 1000.0;
            say!("{}: {status} in {milliseconds:.1} ms", escaped(doing));
        }
    }
}

fn message(what: &str, message: &'static Message, bytes: &[u8]) {
    let document = json::Document {
        message,
        bytes,
        secrets: Secrets::Mask,
    };
    match json::line_text(&document) {
        Ok(text) => say!("{what}: {text}"),
        Err(error) => say!("{what}: not valid: {error}"),
    }
}
