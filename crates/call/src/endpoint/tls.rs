//! TLS for `https` endpoints: the certificates that are trusted, this client's own certificate, and the handshake.
//!
//! It is done here and not by the channel, so that the reason of a failed handshake stays typed.

use super::error::EndpointError;
use super::handshake::HandshakeError;
use csi_arguments::text::bytes_of;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The certificates that a TLS connection trusts, and its own. All files are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// The authorities to trust, instead of the system's.
    pub cacert: Option<PathBuf>,
    /// This client's certificate, with those that lead to its authority.
    pub cert: Option<PathBuf>,
    /// The key of `cert`.
    pub key: Option<PathBuf>,
    /// The name to ask for and to check the server's certificate against, instead of the endpoint's host. Requests name it as
    /// their authority too.
    pub server_name: Option<String>,
}

/// A client's side of TLS, ready for any number of connections.
pub(super) struct Tls {
    connector: TlsConnector,
    server_name: ServerName<'static>,
    renamed: Option<String>,
}

impl Tls {
    /// Reads certificates and keys, for that long.
    pub(super) fn new(
        options: &TlsOptions,
        host: &str,
        timeout: Duration,
    ) -> Result<Self, EndpointError> {
        let deadline = Instant::now().checked_add(timeout);
        let name = options.server_name.as_deref().unwrap_or(host);
        let server_name = ServerName::try_from(name.to_owned()).map_err(|_| {
            material(
                "server name",
                format!("{name:?} is not a host's name or address"),
            )
        })?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| material("TLS versions", error))?
            .with_root_certificates(roots(options.cacert.as_deref(), deadline)?);
        let mut config = match (&options.cert, &options.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let chain = certificates("client certificate", cert, deadline)?;
                let private = PrivateKeyDer::from_pem_slice(&read("client key", key, deadline)?)
                    .map_err(|error| material(named("client key", key), describe(&error)))?;
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| material(named("client certificate", cert), error))?
            }
            (Some(_), None) => {
                return Err(material(
                    "client certificate",
                    "it needs its key too: add --key FILE",
                ));
            }
            (None, Some(_)) => {
                return Err(material(
                    "client key",
                    "it needs its certificate too: add --cert FILE",
                ));
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            connector: Arc::new(config).into(),
            server_name,
            renamed: options.server_name.clone(),
        })
    }

    /// The name that replaces the endpoint's host.
    pub(super) fn renamed(&self) -> Option<&str> {
        self.renamed.as_deref()
    }

    /// A server that does not say which protocol it speaks is taken to speak HTTP/2.
    pub(super) async fn handshake(
        &self,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, EndpointError> {
        self.connector
            .connect(self.server_name.clone(), stream)
            .await
            .map_err(|cause| {
                EndpointError::Tls(
                    self.server_name.to_str().into_owned(),
                    Arc::new(HandshakeError::new(cause)),
                )
            })
    }
}

fn roots(cacert: Option<&Path>, deadline: Option<Instant>) -> Result<RootCertStore, EndpointError> {
    let mut roots = RootCertStore::empty();
    match cacert {
        Some(path) => {
            let what = "authorities' certificate";
            for certificate in certificates(what, path, deadline)? {
                roots
                    .add(certificate)
                    .map_err(|error| material(named(what, path), error))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // Systems carry odd certificates; those that cannot be used are left out.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(material(
                    "system's certificates",
                    "there are none; name the authority with --cacert FILE",
                ));
            }
        }
    }
    Ok(roots)
}

/// At least one certificate.
fn certificates(
    what: &str,
    path: &Path,
    deadline: Option<Instant>,
) -> Result<Vec<CertificateDer<'static>>, EndpointError> {
    let text = read(what, path, deadline)?;
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let list = list.map_err(|error| material(named(what, path), describe(&error)))?;
    match list.is_empty() {
        true => Err(material(
            named(what, path),
            describe(&pem::Error::NoItemsFound),
        )),
        false => Ok(list),
    }
}

fn read(what: &str, path: &Path, deadline: Option<Instant>) -> Result<Vec<u8>, EndpointError> {
    bytes_of(path, deadline).map_err(|error| material(named(what, path), error))
}

fn describe(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => {
            "the file holds none; it must be PEM, with BEGIN and END lines".to_owned()
        }
        error => format!("the file is not PEM ({error})"),
    }
}

fn named(what: &str, path: &Path) -> String {
    format!("{what} {}", path.display())
}

fn material(what: impl Into<String>, problem: impl ToString) -> EndpointError {
    EndpointError::TlsMaterial(what.into(), problem.to_string())
}
