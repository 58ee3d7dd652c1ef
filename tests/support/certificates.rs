//! A certificate authority for one test, with a server's and a client's certificate. Valid for `localhost` alone.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};

/// Certificates and keys as PEM files in a temporary folder.
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// A new authority, a server `localhost` and a client, all with keys of their own.
    pub fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let authority = {
            let mut params = params("test authority", &[]);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(params, key()).expect("a certificate")
        };
        let certificates = Self { folder };
        certificates.write("ca.pem", &authority.pem());
        for (name, params) in [
            ("server", params("test server", &["localhost"])),
            ("client", params("test client", &[])),
        ] {
            let key = key();
            let certificate = params.signed_by(&key, &authority).expect("a certificate");
            certificates.write(&format!("{name}.pem"), &certificate.pem());
            certificates.write(&format!("{name}.key"), &key.serialize_pem());
        }
        certificates
    }

    /// The file of that name: `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, pem: &str) {
        std::fs::write(self.file(name), pem).expect("a file in a new folder");
    }

    /// What a server needs to speak TLS with ALPN `h2` to clients of this authority.
    pub(super) fn server_config(&self) -> Arc<ServerConfig> {
        let certificate = |name: &str| {
            CertificateDer::from_pem_file(self.file(name)).expect("a certificate as PEM")
        };
        let key = PrivateKeyDer::from_pem_file(self.file("server.key")).expect("a key as PEM");
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("versions that the provider has");
        let mut roots = RootCertStore::empty();
        roots.add(certificate("ca.pem")).expect("an authority");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .expect("an authority for clients");
        let mut config = config
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate("server.pem")], key)
            .expect("a key that fits its certificate");
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

fn params(common_name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("names of hosts");
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}
