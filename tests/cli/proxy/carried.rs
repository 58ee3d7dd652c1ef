//! What passes through, byte for byte: streams, trailers, resets, large messages, of any service.

use super::wire::{self, Seen, Stranger};
use super::{Proxy, plugin_info};
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use bytes::Bytes;
use h2::Reason;

#[test]
fn nothing_is_added_to_the_wire() {
    let driver = ScriptedDriver::unix();
    let reply = Reply::json("{}").with_header("x-reply", "kept");
    driver.on("Probe", reply);
    let proxy = Proxy::to(driver.endpoint());
    let flags = "-m x-own=1,x-own-bin=AAEC identity probe";
    Csi::at(driver.endpoint()).run(flags).succeeds();
    proxy.run(flags).succeeds();
    let [direct, proxied] = &driver.requests()[..] else {
        panic!("two calls");
    };
    assert_eq!(direct.metadata, proxied.metadata);
    assert_eq!(direct.authority, proxied.authority);
    assert_eq!(direct.message, proxied.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_nobody_knows_and_streams_in_both_directions_pass() {
    let stranger = Stranger::new();
    let proxy = Proxy::to(&stranger.endpoint());
    let mut direct = wire::connect(stranger.socket()).await;
    let mut proxied = wire::connect(&proxy.socket).await;
    let mut replies = Vec::new();
    for sender in [&mut direct, &mut proxied] {
        let (response, mut up) = wire::call_of(sender, "/own.v1.Streams/Echo");
        let Seen::Head(head) = stranger.next() else {
            panic!("a head");
        };
        // The answer begins before the request has a body.
        let (reply, mut down) = response.await.unwrap().into_parts();
        let mut echoed = Vec::new();
        for number in 0..3_u8 {
            // One at a time: nothing waits for the end of the stream.
            wire::send(&mut up, wire::frame(&[number; 9]), false).await;
            echoed.push(down.data().await.unwrap().unwrap());
        }
        up.send_data(Bytes::new(), true).unwrap();
        assert!(down.data().await.is_none());
        let trailers = down.trailers().await.unwrap();
        replies.push((
            head.method,
            head.headers,
            reply.status,
            reply.headers,
            echoed,
            trailers,
        ));
    }
    assert_eq!(replies[0], replies[1]);
    let (shown, _) = proxy.ends();
    assert!(
        shown.contains("-> /own.v1.Streams/Echo (9 bytes, unknown method)"),
        "{shown}"
    );
    assert!(shown.contains("<- /own.v1.Streams/Echo OK"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_nothing_but_trailers_pass() {
    let stranger = Stranger::new();
    let proxy = Proxy::to(&stranger.endpoint());
    let mut heads = Vec::new();
    for socket in [&stranger.socket(), &proxy.socket] {
        let mut sender = wire::connect(socket).await;
        let (response, mut up) = wire::call_of(&mut sender, "/own.v1.S/Only");
        // The answer may be there before the request is sent.
        let _ = up.send_data(wire::frame(b""), true);
        let (head, body) = response.await.unwrap().into_parts();
        assert!(body.is_end_stream(), "the first frame is the last");
        heads.push((head.status, head.headers));
    }
    assert_eq!(heads[0], heads[1]);
    let (shown, _) = proxy.ends();
    assert!(shown.contains("FAILED_PRECONDITION"), "{shown}");
    assert!(shown.contains("50% ü"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resets_pass_with_their_reasons() {
    let stranger = Stranger::new();
    let proxy = Proxy::to(&stranger.endpoint());
    let mut sender = wire::connect(&proxy.socket).await;
    let (response, _up) = wire::call_of(&mut sender, "/own.v1.S/Refuse");
    let error = response.await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM));
    for ends in [false, true] {
        let (_response, mut up) = wire::call_of(&mut sender, "/own.v1.S/Wait");
        if ends {
            wire::send(&mut up, wire::frame(b"x"), true).await;
        }
        while !matches!(stranger.next(), Seen::Head(head) if head.uri.path().ends_with("Wait")) {}
        up.send_reset(Reason::CANCEL);
        assert!(matches!(stranger.next(), Seen::Reset(Reason::CANCEL)));
    }
    // A caller that dies gives up its calls.
    let mut caller = wire::connect(&proxy.socket).await;
    let waiting = wire::call_of(&mut caller, "/own.v1.S/Wait");
    while !matches!(stranger.next(), Seen::Head(_)) {}
    drop((waiting, caller));
    assert!(matches!(stranger.next(), Seen::Reset(Reason::CANCEL)));
    let (shown, _) = proxy.ends();
    assert!(
        shown.contains("ended by the driver without a status (REFUSED_STREAM)"),
        "{shown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_pass_and_a_slow_reader_holds_the_driver_back() {
    let stranger = Stranger::new();
    let proxy = Proxy::with(&stranger.endpoint(), "--quiet");
    let mut sender = wire::connect(&proxy.socket).await;
    let (response, mut up) = wire::call_of(&mut sender, "/own.v1.S/Echo");
    let sent: Vec<u8> = (0..16_u32 << 20)
        .map(|number| (number % 251) as u8)
        .collect();
    let large = wire::frame(&sent);
    let sending = tokio::spawn({
        let large = large.clone();
        async move { wire::send(&mut up, large, true).await }
    });
    let mut down = response.await.unwrap().into_body();
    let mut echoed = Vec::new();
    while let Some(piece) = down.data().await {
        let piece = piece.unwrap();
        echoed.extend_from_slice(&piece);
        down.flow_control().release_capacity(piece.len()).unwrap();
    }
    sending.await.unwrap();
    assert!(echoed == large, "{} of {} bytes", echoed.len(), large.len());
    proxy.ends();
}

#[test]
fn garbage_disturbs_nobody() {
    use std::io::{Read as _, Write as _};
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    let proxy = Proxy::to(driver.endpoint());
    let mut stream = std::os::unix::net::UnixStream::connect(&proxy.socket).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: \x1b[31m\r\n\r\n")
        .unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    // One that only looks whether somebody listens is no news.
    drop(std::os::unix::net::UnixStream::connect(&proxy.socket).unwrap());
    proxy.run("identity plugin-info").succeeds();
    let (_, said) = proxy.ends();
    assert_eq!(
        said.matches("a caller does not speak gRPC").count(),
        1,
        "{said}"
    );
    assert_eq!(said.lines().count(), 2, "{said}");
}
