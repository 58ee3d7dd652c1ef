//! Tests every kind of endpoint against a small real server: sockets and TCP in this file, commands and TLS in files of
//! their own.

mod exec;
mod tls;
#[path = "../../../../tests/support/unserved.rs"]
mod unserved;

use super::*;
use crate::session::{Lost, Session};
use csi_proto::v1::identity_server::{Identity, IdentityServer};
use csi_proto::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, ProbeRequest, ProbeResponse,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net as unix;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

/// A driver whose name is the authority that the request named.
struct Mirror;

#[derive(Clone)]
struct Authority(String);

#[tonic::async_trait]
impl Identity for Mirror {
    async fn get_plugin_info(
        &self,
        request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let Authority(name) = request.extensions().get().cloned().expect("an authority");
        Ok(Response::new(GetPluginInfoResponse {
            name,
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(GetPluginCapabilitiesResponse::default()))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        std::future::pending().await
    }
}

macro_rules! serve {
    ($incoming:expr) => {{
        let note = |mut request: http::Request<_>| {
            let authority = request.uri().authority().map(ToString::to_string);
            request
                .extensions_mut()
                .insert(Authority(authority.unwrap_or_default()));
            request
        };
        let server = Server::builder()
            .layer(tower::util::MapRequestLayer::new(note))
            .add_service(IdentityServer::new(Mirror))
            .serve_with_incoming($incoming);
        tokio::spawn(async move { server.await.expect("served") })
    }};
}

fn serve_unix(path: &Path) {
    let listener = UnixListener::bind(path).expect("bound");
    serve!(UnixListenerStream::new(listener));
}

async fn serve_tcp() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("an address").port();
    serve!(TcpListenerStream::new(listener));
    port
}

fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text).expect(text)
}

async fn connect(endpoint: &Endpoint) -> Channel {
    connect_with(endpoint, TlsOptions::default())
        .await
        .expect("connected")
}

async fn connect_with(endpoint: &Endpoint, tls: TlsOptions) -> Result<Channel, EndpointError> {
    let timeout = Duration::from_secs(20);
    endpoint.connect(&ConnectOptions { timeout, tls }).await
}

async fn failure(text: &str) -> EndpointError {
    connect_with(&endpoint(text), TlsOptions::default())
        .await
        .expect_err(text)
}

async fn name(channel: &Channel) -> Result<String, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client
        .ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let path = http::uri::PathAndQuery::from_static("/csi.v1.Identity/GetPluginInfo");
    let codec = ProstCodec::<GetPluginInfoRequest, GetPluginInfoResponse>::default();
    let request = Request::new(GetPluginInfoRequest {});
    let reply = client.unary(request, path, codec).await?;
    Ok(reply.into_inner().name)
}

/// A call that the server has begun and never answers.
async fn hang(channel: &Channel) -> JoinHandle<Result<(), Status>> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.expect("ready");
    let (begun, beginning) = tokio::sync::oneshot::channel();
    let hanging = tokio::spawn(async move {
        let path = http::uri::PathAndQuery::from_static("/csi.v1.Identity/Probe");
        let codec = ProstCodec::<ProbeRequest, ProbeResponse>::default();
        let mut reply = std::pin::pin!(client.unary(Request::new(ProbeRequest {}), path, codec));
        // The first poll hands the request to the connection.
        let first =
            std::future::poll_fn(|cx| std::task::Poll::Ready(reply.as_mut().poll(cx))).await;
        assert!(first.is_pending());
        begun.send(()).expect("awaited");
        reply.await.map(drop)
    });
    beginning.await.expect("begun");
    // Requests of one connection arrive in order, so the answer to a later one proves that this one has arrived.
    name(channel).await.expect("answered");
    hanging
}

/// Why neither a connection nor a call works.
async fn lost(endpoint: &Endpoint) -> EndpointError {
    match connect_with(endpoint, TlsOptions::default()).await {
        Err(error) => error,
        Ok(channel) => {
            name(&channel).await.expect_err("no driver");
            endpoint.last_error().expect("a reason")
        }
    }
}

fn in_folder(name: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name).to_str().expect("text").to_owned();
    (folder, path)
}

#[tokio::test]
async fn abstract_sockets_answer() {
    // The name is unique among the processes of this machine.
    let unique = format!("csi-test-{}", std::process::id());
    let address = unix::SocketAddr::from_abstract_name(&unique).expect("an address");
    let listener = unix::UnixListener::bind_addr(&address).expect("bound");
    listener.set_nonblocking(true).expect("set");
    let listener = UnixListener::from_std(listener).expect("a listener");
    serve!(UnixListenerStream::new(listener));
    let channel = connect(&endpoint(&format!("unix-abstract:{unique}"))).await;
    assert_eq!(name(&channel).await.expect("answered"), "localhost");
    let error = failure(&format!("unix-abstract:{unique}-none")).await;
    assert!(matches!(error, EndpointError::Refused(..)), "{error}");
}

#[tokio::test]
async fn tcp_answers_to_every_spelling() {
    let port = serve_tcp().await;
    for (prefix, host) in [
        ("tcp://", "127.0.0.1"),
        ("TCP4://", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("", "localhost"),
        ("dns:///", "localhost"),
    ] {
        let channel = connect(&endpoint(&format!("{prefix}{host}:{port}"))).await;
        assert_eq!(
            name(&channel).await.expect("answered"),
            format!("{host}:{port}")
        );
    }
    let error = failure(&format!("tcp6://127.0.0.1:{port}")).await;
    assert!(matches!(error, EndpointError::Unresolved(..)), "{error}");
}

#[tokio::test]
async fn a_missing_socket_is_told_from_a_dead_one() {
    let (folder, path) = in_folder("s");
    assert!(matches!(failure(&path).await, EndpointError::NoSocket(..)));
    unserved::socket_file(&path);
    assert!(matches!(failure(&path).await, EndpointError::Refused(..)));
    let folder = folder.path();
    std::fs::write(folder.join("file"), "").expect("written");
    let _packets = unix::UnixDatagram::bind(folder.join("packets")).expect("bound");
    for other in ["", "file", "packets"] {
        let error = failure(folder.join(other).to_str().expect("text")).await;
        assert!(
            matches!(error, EndpointError::NotASocket(..)),
            "{other}: {error}"
        );
    }
}

#[tokio::test]
async fn a_closed_port_is_refused() {
    let (_kept, port) = unserved::port();
    let error = failure(&format!("tcp://127.0.0.1:{port}")).await;
    assert_eq!(
        error.to_string(),
        format!("nobody listens on tcp://127.0.0.1:{port}")
    );
}

#[tokio::test]
async fn what_is_not_grpc_is_shown() {
    let cases: [(&[u8], &str); 4] = [
        (
            b"HTTP/1.1 400 Bad Request\r\n",
            "it answers \"HTTP/1.1 400 Bad Request\\r\\n\"",
        ),
        (
            b"\x15\x03\x01\0\x02\x02\x50",
            "it answers in TLS; write https://HOST:PORT",
        ),
        (b"\x1b[1mhi", "it answers \"\\u{1b}[1mhi\""),
        (b"\0\0\0\x07", "it answers \"\\0\\0\\0\\u{7}\""),
    ];
    for (answer, part) in cases {
        let (_folder, path) = in_folder("s");
        let listener = UnixListener::bind(&path).expect("bound");
        let stranger = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accepted");
            let written = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
            written.expect("answered");
            // The connection ends from the other side.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        });
        let reason = lost(&endpoint(&path)).await.to_string();
        assert!(reason.ends_with(part), "{reason}");
        stranger.await.expect("no panic");
    }
}

#[tokio::test]
async fn a_full_queue_of_connections_takes_its_time() {
    let (_folder, path) = in_folder("s");
    let listener = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None);
    let listener = listener.expect("a socket");
    let address = SocketAddrUnix::new(path.as_str()).expect("an address");
    rustix::net::bind(&listener, &address).expect("bound");
    rustix::net::listen(&listener, 0).expect("listening");
    let mut waiting = Vec::new();
    loop {
        let flags = SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket = socket.expect("a socket");
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(_) => break,
        }
    }
    let options = ConnectOptions {
        timeout: Duration::from_millis(60),
        ..Default::default()
    };
    let error = endpoint(&path).connect(&options).await.expect_err("full");
    assert!(matches!(error, EndpointError::TimedOut(..)), "{error}");
}

#[tokio::test]
async fn a_driver_that_dies_in_a_call_leaves_the_reason() {
    let (folder, path) = in_folder("s");
    let behind = folder.path().join("behind");
    serve_unix(&behind);
    let listener = UnixListener::bind(&path).expect("bound");
    // Passes one connection on, until it is aborted.
    let driver = tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.expect("accepted");
        unserved::stop_listening(&listener);
        let mut far = UnixStream::connect(behind).await.expect("connected");
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    });
    let endpoint = endpoint(&path);
    let channel = connect(&endpoint).await;
    let hanging = hang(&channel).await;
    driver.abort();
    hanging.await.expect("no panic").expect_err("dead");
    let reason = endpoint.last_error().expect("a reason");
    assert!(matches!(reason, EndpointError::Closed(..)), "{reason}");

    // The same channel, while the driver is away, and when it is back.
    let error = name(&channel).await.expect_err("still dead");
    assert_eq!(error.code(), Code::Unavailable);
    let reason = endpoint.last_error().expect("a reason");
    assert!(matches!(reason, EndpointError::Refused(..)), "{reason}");
    std::fs::remove_file(&path).expect("removed");
    serve_unix(Path::new(&path));
    assert_eq!(name(&channel).await.expect("answered"), "localhost");
    assert!(endpoint.last_error().is_none());
    let (all, after_error) = (2, 1);
    assert_eq!(endpoint.connections(), ConnectionCount { all, after_error });
}

#[tokio::test]
async fn a_call_that_a_connection_does_not_take_goes_over_the_next() {
    let (_folder, path) = in_folder("s");
    let listener = UnixListener::bind(&path).expect("bound");
    // Of each connection the first call is refused, the next one answered, and then it ends in order.
    let serve = async {
        loop {
            let (stream, _) = listener.accept().await.expect("a client");
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            let mut is_first = true;
            // The client may close it at any time from its end in order on.
            while let Some(Ok((_, mut reply))) = connection.accept().await {
                if std::mem::take(&mut is_first) {
                    reply.send_reset(h2::Reason::REFUSED_STREAM);
                    continue;
                }
                let head = http::Response::builder().header("content-type", "application/grpc");
                let head = head.body(()).expect("a head");
                let mut body = reply.send_response(head, false).expect("headers");
                body.send_data(vec![0; 5].into(), false).expect("bytes");
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
                body.send_trailers(trailers).expect("trailers");
                connection.graceful_shutdown();
            }
        }
    };
    let endpoint = endpoint(&path);
    let calls = async {
        let session = Session::open(&endpoint, &ConnectOptions::default()).await;
        let session = session.expect("connected");
        for _ in 0..3 {
            let answer = session.ask(&ProbeRequest {}).await;
            assert!(answer.is_ok(), "{answer:?}");
        }
    };
    tokio::select! {
        () = serve => panic!("it serves on"),
        () = calls => {}
    }
    let reason = endpoint.last_error();
    assert!(reason.is_none(), "{reason:?}");
    let count = endpoint.connections();
    assert!(count.all > 1 && count.after_error == 0, "{count:?}");
}

#[tokio::test]
async fn a_call_that_no_connection_takes_is_lost_and_no_answer() {
    let (_folder, path) = in_folder("s");
    let listener = UnixListener::bind(&path).expect("bound");
    let serve = async {
        loop {
            let (stream, _) = listener.accept().await.expect("a client");
            // Each connection ends in order before it takes a call: SETTINGS, and GOAWAY with NO_ERROR.
            let frames = [
                &[0, 0, 0, 4, 0, 0, 0, 0, 0][..],
                &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ];
            let mut stream = stream;
            let _ = stream.write_all(&frames.concat()).await;
            // What the client says is read to its end: else its bytes would be answered with a reset.
            let _ = stream.shutdown().await;
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    };
    let endpoint = endpoint(&path);
    let calls = async {
        let session = Session::open(&endpoint, &ConnectOptions::default()).await;
        let session = session.expect("connected");
        session.ask(&ProbeRequest {}).await.expect_err("not taken")
    };
    let error = tokio::select! {
        () = serve => panic!("it serves on"),
        error = calls => error,
    };
    assert_eq!(error.status.code(), Code::Unavailable, "{error:?}");
    let lost = Lost::of(&error.status);
    assert!(lost.is_some_and(|lost| !lost.is_sent), "{error:?}");
}

#[cfg(feature = "embedded")]
#[tokio::test]
async fn the_embedded_driver_answers() {
    let (_folder, path) = in_folder("state");
    let endpoint = endpoint(&format!("embedded:{path}"));
    let first = connect(&endpoint).await;
    let second = connect(&endpoint).await;
    assert_eq!(name(&first).await.expect("answered"), "nfs.csi.internal");
    assert_eq!(name(&second).await.expect("answered"), "nfs.csi.internal");
    endpoint.settled().await;
    assert!(Path::new(&path).join("share").is_dir());

    let (folder, file) = in_folder("file");
    std::fs::write(&file, "").expect("written");
    let error = failure(&format!("embedded:{file}")).await;
    let expected = format!("cannot open the embedded driver in {file}");
    assert_eq!(error.to_string(), expected, "{}", folder.path().display());
}

#[cfg(not(feature = "embedded"))]
#[tokio::test]
async fn a_driver_that_is_not_linked_is_refused() {
    let error = failure("embedded:/state").await;
    let cause = std::error::Error::source(&error)
        .expect("a cause")
        .to_string();
    assert!(
        cause.contains("build it with --features embedded"),
        "{cause}"
    );
}
