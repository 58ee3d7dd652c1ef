//! The status of a gRPC call in trailers: read from calls that pass the proxy, and written where the proxy itself
//! answers.

use base64::Engine as _;
use csi_arguments::metadata::BASE64;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};

const CODE: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// What a message is sent without, beside all that is no ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// The status of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallStatus {
    /// The code's number: 0 to 16, or what the driver says beyond.
    pub code: i32,
    /// The message: untrusted text.
    pub message: String,
    /// An encoded `google.rpc.Status`, or nothing.
    pub details: Vec<u8>,
}

impl CallStatus {
    /// A status of the proxy's own.
    pub fn new(code: tonic::Code, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            details: Vec::new(),
        }
    }

    /// The status in `trailers`, where there is one.
    pub fn read(trailers: &HeaderMap) -> Option<Self> {
        let code = trailers.get(CODE)?.to_str().ok()?.parse().ok()?;
        let message = trailers.get(MESSAGE).map(HeaderValue::as_bytes);
        let details = trailers.get(DETAILS).map(HeaderValue::as_bytes);
        Some(Self {
            code,
            message: message.map_or_else(String::new, |text| {
                percent_decode(text).decode_utf8_lossy().into_owned()
            }),
            details: details
                .and_then(|text| BASE64.decode(text).ok())
                .unwrap_or_default(),
        })
    }

    /// The trailers that say it.
    pub fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        trailers.insert(CODE, HeaderValue::from(self.code));
        let message = utf8_percent_encode(&self.message, ESCAPED).to_string();
        if let Ok(message) = HeaderValue::try_from(message) {
            trailers.insert(MESSAGE, message);
        }
        trailers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for message in ["", "100 % größer\n", "%41", "a%"] {
            let status = CallStatus::new(tonic::Code::NotFound, message);
            assert_eq!(CallStatus::read(&status.trailers()), Some(status));
        }
    }

    #[test]
    fn details_come_with_and_without_padding_and_broken_escapes_stay() {
        for encoded in ["AQI", "AQI="] {
            let mut trailers = HeaderMap::new();
            trailers.insert(CODE, HeaderValue::from_static("5"));
            trailers.insert(MESSAGE, HeaderValue::from_static("50%, %zz and %C3%BC"));
            trailers.insert(DETAILS, HeaderValue::from_static(encoded));
            let status = CallStatus::read(&trailers).expect("a status");
            assert_eq!((status.code, &*status.message), (5, "50%, %zz and ü"));
            assert_eq!(status.details, [1, 2]);
        }
        assert_eq!(CallStatus::read(&HeaderMap::new()), None);
    }
}
