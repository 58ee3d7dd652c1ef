//! Explains failed TLS handshakes to people: rustls words its reasons for programmers, and the usual ones have a
//! remedy.

use rustls::{AlertDescription, CertificateError};
use std::io;
use thiserror::Error;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::{ServerName, UnixTime};

/// A handshake that failed, or a refusal that came right after it.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The server shows an authority's certificate, mostly one that has signed itself.
    #[error(
        "the server's certificate is an authority's own (CA:TRUE), which is not for servers: make a server certificate that the authority signs, or a self-signed one with CA:FALSE"
    )]
    AuthorityAsServer,
    /// A certificate without extensions, as `openssl x509 -req` makes them unless told otherwise.
    #[error(
        "the server's certificate is of an old version of X.509: make one of version 3, with its names as subjectAltName"
    )]
    OldVersion,
    /// No chain leads to an authority that is trusted.
    #[error("the server's certificate is signed by no authority that is trusted here")]
    UnknownIssuer,
    /// The authority was made anew, mostly.
    #[error(
        "the server's certificate is not signed by the authority that is trusted here, only by one of the same name"
    )]
    OtherKey,
    /// Too old.
    #[error("the server's certificate has expired{}", .0.as_ref().map_or_else(String::new, |time| format!(": it was valid until {time}")))]
    Expired(Option<String>),
    /// Too new.
    #[error("the server's certificate is not valid yet{}; is the clock of this machine right?", .0.as_ref().map_or_else(String::new, |time| format!(", but from {time}")))]
    NotYetValid(Option<String>),
    /// Another server's.
    #[error("the server's certificate is not for {expected} but for {}: give one of its names as --server-name, or make a certificate with the right names", listed(.names))]
    OtherName {
        /// The name that was asked for.
        expected: String,
        /// The certificate's names. Untrusted text.
        names: Vec<String>,
    },
    /// A certificate for clients only, for example.
    #[error("the server's certificate may not be used for servers (extendedKeyUsage)")]
    OtherPurpose,
    /// Another reason to refuse the server's certificate.
    #[error("the server's certificate is not accepted: {0}")]
    Certificate(CertificateError),
    /// The server wants to know who calls.
    #[error(
        "the server asks for this client's certificate (CertificateRequired): name it with --cert and --key"
    )]
    ClientCertificateMissing,
    /// The server knows who calls and does not like it.
    #[error("the server refused this client's certificate ({0:?})")]
    ClientCertificateRefused(AlertDescription),
    /// A TLS server for something else.
    #[error("the server does not speak HTTP/2, so it is no gRPC server")]
    NoHttp2,
    /// Plain text, mostly.
    #[error("the server does not answer in TLS: for gRPC without TLS write tcp://HOST:PORT")]
    NotTls,
    /// Nothing more was said.
    #[error(
        "the server closed the connection in the handshake: for gRPC without TLS write tcp://HOST:PORT"
    )]
    Closed,
    /// An error that rustls words well enough.
    #[error("{0}")]
    Other(io::Error),
}

impl HandshakeError {
    /// The reason inside an error of a TLS stream.
    pub(super) fn new(error: io::Error) -> Self {
        match reason(&error) {
            Some(reason) => reason,
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::Closed,
            None => Self::Other(error),
        }
    }
}

/// The reason that has words of its own.
pub(super) fn reason(error: &io::Error) -> Option<HandshakeError> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match inner {
        rustls::Error::InvalidCertificate(error) => of_certificate(error),
        rustls::Error::InvalidMessage(_) => HandshakeError::NotTls,
        rustls::Error::NoApplicationProtocol
        | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            HandshakeError::NoHttp2
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            HandshakeError::ClientCertificateMissing
        }
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied),
        ) => HandshakeError::ClientCertificateRefused(*alert),
        _ => return None,
    })
}

fn of_certificate(error: &CertificateError) -> HandshakeError {
    match error {
        CertificateError::UnknownIssuer => HandshakeError::UnknownIssuer,
        CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            HandshakeError::OtherKey
        }
        CertificateError::Expired => HandshakeError::Expired(None),
        CertificateError::ExpiredContext { not_after, .. } => {
            HandshakeError::Expired(Some(date(*not_after)))
        }
        CertificateError::NotValidYet => HandshakeError::NotYetValid(None),
        CertificateError::NotValidYetContext { not_before, .. } => {
            HandshakeError::NotYetValid(Some(date(*not_before)))
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => HandshakeError::OtherName {
            expected: ServerName::to_str(expected).into_owned(),
            names: presented.iter().map(|name| bare(name)).collect(),
        },
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            HandshakeError::OtherPurpose
        }
        // The reasons of the library beneath have no variants in rustls; their text is their name.
        CertificateError::Other(inner) => match inner.to_string().as_str() {
            "CaUsedAsEndEntity" => HandshakeError::AuthorityAsServer,
            "UnsupportedCertVersion" => HandshakeError::OldVersion,
            _ => HandshakeError::Certificate(error.clone()),
        },
        _ => HandshakeError::Certificate(error.clone()),
    }
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    prost_types::Timestamp { seconds, nanos: 0 }.to_string()
}

/// `DnsName("localhost")` and `IpAddress(127.0.0.1)` without what is around them.
fn bare(name: &str) -> String {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"').to_owned()
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "no name at all (it has no subjectAltName)".to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_by_a_key_of_another_kind_is_another_authoritys() {
        let other = CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id: vec![1],
            public_key_algorithm_id: vec![2],
        };
        for error in [other, CertificateError::BadSignature] {
            let reason = of_certificate(&error);
            assert!(matches!(reason, HandshakeError::OtherKey), "{reason}");
        }
    }
}
