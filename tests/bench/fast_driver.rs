//! A driver that answers every call with the same reply and does as little as HTTP/2 lets it, so that what a load costs
//! is what the client costs.

use csi_proto::v1::GetPluginInfoResponse;
use prost::Message;
use prost::bytes::{BufMut as _, Bytes, BytesMut};
use std::os::unix::net::UnixListener;
use tempfile::TempDir;

/// The driver, in a thread that ends with the process.
pub struct FastDriver {
    folder: TempDir,
}

impl FastDriver {
    /// One that answers with `reply`.
    pub fn start(reply: &GetPluginInfoResponse) -> Self {
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join("s")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let message = reply.encode_to_vec();
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).unwrap());
        frame.put_slice(&message);
        let frame = frame.freeze();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::UnixListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, frame.clone()));
                }
            });
        });
        Self { folder }
    }

    /// How a client names it.
    pub fn endpoint(&self) -> String {
        format!("unix://{}/s", self.folder.path().display())
    }
}

async fn serve(stream: tokio::net::UnixStream, frame: Bytes) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(1000);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else {
        return;
    };
    let mut head = http::Response::new(());
    let kind = http::HeaderValue::from_static("application/grpc");
    head.headers_mut().insert("content-type", kind);
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    while let Some(Ok((request, mut answer))) = connection.accept().await {
        let (head, frame, trailers) = (head.clone(), frame.clone(), trailers.clone());
        tokio::spawn(async move {
            // A stream whose request was not read to its end would be reset, and too many of these end the connection.
            let mut request = request.into_body();
            while let Some(Ok(part)) = request.data().await {
                let _ = request.flow_control().release_capacity(part.len());
            }
            if let Ok(mut body) = answer.send_response(head, false) {
                let _ = body.send_data(frame, false);
                let _ = body.send_trailers(trailers);
            }
        });
    }
}
