//! Tests TLS with a certificate authority of its own, as client and as server.

use super::*;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

#[tokio::test]
async fn options_of_tls_need_tls() {
    let tls = TlsOptions {
        cacert: Some("/ca.pem".into()),
        ..Default::default()
    };
    for text in ["/p", "tcp://127.0.0.1:1"] {
        let error = connect_with(&endpoint(text), tls.clone()).await;
        assert!(matches!(error, Err(EndpointError::TlsUnused(..))), "{text}");
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("parameters")
}

/// An authority, and files of what it has issued.
struct Certificates {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("signed");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).expect("written");
        Self { folder, authority }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn issue(&self, name: &str) {
        self.issue_as(name, params(&[name]));
    }

    fn issue_as(&self, file: &str, params: CertificateParams) {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.authority).expect("signed");
        self.write(file, &certificate, &key);
    }

    fn self_sign(&self, file: &str, is_ca: IsCa) {
        let mut params = params(&["localhost"]);
        params.is_ca = is_ca;
        params.distinguished_name.push(DnType::CommonName, file);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        self.write(file, &certificate, &key);
    }

    fn write(&self, file: &str, certificate: &Certificate, key: &KeyPair) {
        std::fs::write(self.file(&format!("{file}.pem")), certificate.pem()).expect("written");
        std::fs::write(self.file(&format!("{file}.key")), key.serialize_pem()).expect("written");
    }

    fn trusted(&self) -> TlsOptions {
        TlsOptions {
            cacert: Some(self.file("ca.pem")),
            ..Default::default()
        }
    }

    /// A port where the server named `localhost` speaks TLS, and asks clients for certificates if `strict`.
    async fn serve(&self, strict: bool) -> u16 {
        self.issue("localhost");
        self.serve_as("localhost", strict).await
    }

    /// Serves with the certificate of these files.
    async fn serve_as(&self, file: &str, strict: bool) -> u16 {
        let provider = || std::sync::Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = if strict {
            let mut roots = RootCertStore::empty();
            roots.add(self.authority.der().clone()).expect("a root");
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let certificate = CertificateDer::from_pem_file(self.file(&format!("{file}.pem")));
        let key = PrivateKeyDer::from_pem_file(self.file(&format!("{file}.key")));
        let mut config = builder
            .with_single_cert(vec![certificate.expect("PEM")], key.expect("PEM"))
            .expect("a certificate");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(std::sync::Arc::new(config));
        let plain = serve_tcp().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let mut server = TcpStream::connect(("127.0.0.1", plain)).await?;
                    tokio::io::copy_bidirectional(&mut stream, &mut server).await
                });
            }
        });
        port
    }
}

#[tokio::test]
async fn tls_answers_to_who_trusts_it() {
    let certificates = Certificates::new();
    let port = certificates.serve(false).await;
    let trusted = certificates.trusted();
    let by_name = endpoint(&format!("https://localhost:{port}"));
    let channel = connect_with(&by_name, trusted.clone())
        .await
        .expect("trusted");
    assert_eq!(
        name(&channel).await.expect("answered"),
        format!("localhost:{port}")
    );

    // By another name than its certificate's it is refused, unless that name is given.
    let by_address = endpoint(&format!("https://127.0.0.1:{port}"));
    let error = connect_with(&by_address, trusted.clone())
        .await
        .expect_err("wrong name");
    let EndpointError::Tls(host, cause) = error else {
        panic!("{error}");
    };
    assert_eq!(host, "127.0.0.1");
    let expected = "the server's certificate is not for 127.0.0.1 but for localhost: give one of its names as --server-name";
    assert!(cause.to_string().starts_with(expected), "{cause}");
    let renamed = TlsOptions {
        server_name: Some("localhost".to_owned()),
        ..trusted
    };
    let channel = connect_with(&by_address, renamed).await.expect("renamed");
    assert_eq!(name(&channel).await.expect("answered"), "localhost");

    let stranger = Certificates::new();
    let error = connect_with(&by_name, stranger.trusted())
        .await
        .expect_err("untrusted");
    let EndpointError::Tls(_, cause) = error else {
        panic!("{error}");
    };
    assert_eq!(
        cause.to_string(),
        "the server's certificate is not signed by the authority that is trusted here, only by one of the same name"
    );
}

/// Why a client that trusts the certificates in `cacert` refuses a server that shows those in `file`.
async fn refusal(certificates: &Certificates, file: &str, cacert: &str) -> String {
    let port = certificates.serve_as(file, false).await;
    let tls = TlsOptions {
        cacert: Some(certificates.file(cacert)),
        ..Default::default()
    };
    match connect_with(&endpoint(&format!("https://localhost:{port}")), tls).await {
        Ok(_) => "none".to_owned(),
        Err(EndpointError::Tls(_, cause)) => cause.to_string(),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn refused_certificates_are_explained() {
    let certificates = Certificates::new();
    let mut expired = params(&["localhost"]);
    expired.not_after = rcgen::date_time_ymd(2001, 2, 3);
    let mut future = params(&["localhost"]);
    future.not_before = rcgen::date_time_ymd(3001, 2, 3);
    future.not_after = rcgen::date_time_ymd(3002, 2, 3);
    let mut for_clients = params(&["localhost"]);
    for_clients.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let cases = [
        (
            expired,
            "has expired: it was valid until 2001-02-03T00:00:00Z",
        ),
        (future, "is not valid yet, but from 3001-02-03T00:00:00Z"),
        (for_clients, "may not be used for servers"),
        (
            params(&["a.example", "10.0.0.4"]),
            "is not for localhost but for a.example, 10.0.0.4:",
        ),
        (params(&[]), "but for no name at all"),
    ];
    for (number, (params, part)) in cases.into_iter().enumerate() {
        let file = number.to_string();
        certificates.issue_as(&file, params);
        let refusal = refusal(&certificates, &file, "ca.pem").await;
        assert!(refusal.contains(part), "{refusal}");
    }
}

#[tokio::test]
async fn a_server_that_signs_itself_must_not_be_an_authority() {
    let certificates = Certificates::new();
    // What `openssl req -x509` makes.
    certificates.self_sign("authority", IsCa::Ca(BasicConstraints::Unconstrained));
    let refused = refusal(&certificates, "authority", "authority.pem").await;
    assert!(
        refused.contains("an authority's own (CA:TRUE)"),
        "{refused}"
    );
    certificates.self_sign("server", IsCa::ExplicitNoCa);
    let refused = refusal(&certificates, "server", "authority.pem").await;
    assert!(refused.contains("signed by no authority"), "{refused}");
    assert_eq!(refusal(&certificates, "server", "server.pem").await, "none");
}

#[tokio::test]
async fn tls_shows_the_client_s_certificate() {
    let certificates = Certificates::new();
    let endpoint = endpoint(&format!(
        "https://localhost:{}",
        certificates.serve(true).await
    ));
    certificates.issue("client");
    let shown = TlsOptions {
        cert: Some(certificates.file("client.pem")),
        key: Some(certificates.file("client.key")),
        ..certificates.trusted()
    };
    let channel = connect_with(&endpoint, shown).await.expect("connected");
    name(&channel).await.expect("answered");
    // The server's refusal comes after the handshake.
    let reason = match connect_with(&endpoint, certificates.trusted()).await {
        Err(error) => error,
        Ok(channel) => {
            name(&channel).await.expect_err("refused");
            endpoint.last_error().expect("a reason")
        }
    };
    // No call has gone out, so none may have taken effect.
    let EndpointError::Tls(_, cause) = reason else {
        panic!("{reason}");
    };
    assert!(cause.to_string().contains("CertificateRequired"), "{cause}");
}

#[tokio::test]
async fn unusable_certificates_are_named() {
    let certificates = Certificates::new();
    certificates.issue("client");
    certificates.issue("other");
    std::fs::write(certificates.file("empty.pem"), "nothing").expect("written");
    let file = |name: &str| Some(certificates.file(name));
    let options = |cacert, cert, key| TlsOptions {
        cacert,
        cert,
        key,
        server_name: None,
    };
    let cases = [
        (options(file("none.pem"), None, None), "No such file"),
        (options(file("empty.pem"), None, None), "it must be PEM"),
        (
            options(file("ca.pem"), file("client.pem"), None),
            "add --key FILE",
        ),
        (
            options(file("ca.pem"), None, file("client.key")),
            "add --cert FILE",
        ),
        (
            options(file("ca.pem"), file("client.pem"), file("client.pem")),
            "it must be PEM",
        ),
        (
            options(file("ca.pem"), file("client.pem"), file("other.key")),
            "keys may not be consistent",
        ),
    ];
    for (tls, part) in cases {
        let error = connect_with(&endpoint("https://localhost:1"), tls).await;
        let error = error.expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_told_from_one_that_is_not_there() {
    let port = serve_tcp().await;
    let certificates = Certificates::new();
    let endpoint = endpoint(&format!("https://localhost:{port}"));
    let options = ConnectOptions {
        timeout: Duration::from_secs(20),
        tls: certificates.trusted(),
    };
    let error = endpoint.connect(&options).await.expect_err("no TLS");
    let cause = std::error::Error::source(&error).expect("a cause");
    assert!(
        cause
            .to_string()
            .ends_with("for gRPC without TLS write tcp://HOST:PORT"),
        "{cause}"
    );
}
