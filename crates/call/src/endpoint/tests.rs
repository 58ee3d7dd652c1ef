//! What each spelling of an endpoint means, and what is said of one that means nothing.

use super::*;
use proptest::prelude::*;

fn parsed(text: &str) -> Target {
    match Endpoint::parse(text) {
        Ok(endpoint) => endpoint.target,
        Err(error) => panic!("{error}"),
    }
}

fn problem(text: &str) -> String {
    match Endpoint::parse(text) {
        Err(EndpointError::Syntax { problem, .. }) => problem,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn sockets() {
    let longest = format!("/{}", "x".repeat(106));
    let cases = [
        ("unix:/p", "/p"),
        ("unix:///p", "/p"),
        ("UNIX:///p/Q", "/p/Q"),
        ("unix://rel/p.sock", "rel/p.sock"),
        ("unix:p.sock", "p.sock"),
        ("unix:a:1", "a:1"),
        ("/p", "/p"),
        ("./x", "./x"),
        ("x.sock", "x.sock"),
        ("dir/x:1", "dir/x:1"),
        ("dir/x://y", "dir/x://y"),
        (" /p ", "/p"),
        (&longest, &longest),
    ];
    for (text, path) in cases {
        assert_eq!(parsed(text), Target::Unix(path.into()), "{text}");
    }
    for text in ["unix-abstract:name", "unix:@name", "@name"] {
        assert_eq!(parsed(text), Target::Abstract("name".to_owned()), "{text}");
    }
    assert_eq!(parsed("@n:1"), Target::Abstract("n:1".to_owned()));
}

#[test]
fn addresses() {
    let of = |host: &str, port, family| Address {
        host: host.to_owned(),
        port,
        family,
    };
    let any = |host, port| of(host, port, Family::Any);
    let cases = [
        (
            "tcp://127.0.0.1:10000",
            Target::Tcp(any("127.0.0.1", 10000)),
        ),
        ("TCP://h:1", Target::Tcp(any("h", 1))),
        ("tcp4://h:1", Target::Tcp(of("h", 1, Family::V4))),
        ("tcp6://[::1]:1", Target::Tcp(of("::1", 1, Family::V6))),
        ("tcp://:10000", Target::Tcp(any("localhost", 10000))),
        ("tcp://h:1/", Target::Tcp(any("h", 1))),
        ("h:1", Target::Tcp(any("h", 1))),
        (
            "my_driver.ns.svc:10000",
            Target::Tcp(any("my_driver.ns.svc", 10000)),
        ),
        ("[::1]:1", Target::Tcp(any("::1", 1))),
        ("[fe80::1%eth0]:1", Target::Tcp(any("fe80::1%eth0", 1))),
        ("tcp:1", Target::Tcp(any("tcp", 1))),
        ("dns:53", Target::Tcp(any("dns", 53))),
        ("dns:///h:1", Target::Dns(any("h", 1))),
        ("dns:///h:1/", Target::Dns(any("h", 1))),
        ("dns:h:1", Target::Dns(any("h", 1))),
        ("https://h", Target::Https(any("h", 443))),
        ("https://h:1/", Target::Https(any("h", 1))),
        ("https://[::1]", Target::Https(any("::1", 443))),
    ];
    for (text, target) in cases {
        assert_eq!(parsed(text), target, "{text}");
    }
}

#[test]
fn commands_and_the_embedded_driver() {
    let words = ["ssh", "a b", "csi proxy"].map(str::to_owned).to_vec();
    assert_eq!(parsed("exec:ssh 'a b' \"csi proxy\""), Target::Exec(words));
    assert_eq!(parsed("EXEC:cat"), Target::Exec(vec!["cat".to_owned()]));
    let default = Target::Embedded(Folder::of_this_user("embedded"));
    assert_eq!(parsed("embedded:"), default);
    assert_eq!(parsed("mock:"), Target::Mock(Folder::of_this_user("mock")));
    assert_eq!(parsed("mock:d1"), Target::Mock(Folder::Named("d1".into())));
    assert_eq!(parsed("mock:/d"), Target::Mock(Folder::Named("/d".into())));
    assert!(matches!(parsed("mock:10000"), Target::Tcp(_)));
    let named = Target::Embedded(Folder::Named("/d".into()));
    assert_eq!(parsed("embedded:/d"), named);
    assert!(matches!(parsed("pod:n/p"), Target::Pod(_)));
    assert!(matches!(parsed("kubectl:"), Target::Cluster(_)));
}

#[test]
fn what_is_wrong_is_said_with_what_is_right() {
    let long = format!("/{}", "x".repeat(107));
    let cases = [
        ("", "write unix:///PATH, PATH,"),
        ("unix:", "write unix:///PATH"),
        ("unix://", "write unix:///PATH"),
        (&long, "has 108 bytes"),
        ("unix-abstract:", "write unix-abstract:NAME"),
        (&long.replace('/', "@x"), "has 108 bytes"),
        ("udp://h:1", "gRPC needs a stream"),
        ("IP4://h", "gRPC needs a stream"),
        ("unixgram:///p", "gRPC needs a stream"),
        ("unixpacket:///p", "gRPC needs a stream"),
        ("http://h:1", "tcp://h:1"),
        ("ftp://h", "there is no scheme \"ftp\""),
        ("tcp://h", "write HOST:PORT"),
        ("tcp://h:0", "from 1 to 65535"),
        ("tcp://h:70000", "from 1 to 65535"),
        ("h:", "from 1 to 65535"),
        ("a:b", "write unix:a:b"),
        ("::1:10000", "stands in brackets"),
        ("tcp:localhost:10000", "write HOST:PORT"),
        ("[::1", "] after the IPv6 address"),
        ("[::1]1", ":PORT can follow"),
        ("[nope]:1", "not an IPv6 address"),
        ("tcp://user@h:1", "not a host's name"),
        ("user@h:1", "not a host's name"),
        ("tcp://h/p:1", "not a host's name"),
        ("tcp://b\u{fc}cher:1", "not a host's name"),
        ("https://", "the host is missing"),
        ("dns://8.8.8.8/h:1", "write dns:///HOST:PORT"),
        ("exec:", "the command is missing"),
        ("exec:ssh 'x", "not closed"),
    ];
    for (text, part) in cases {
        let problem = problem(text);
        assert!(problem.contains(part), "{text}: {problem}");
    }
}

#[test]
fn every_spelling_is_spelled_out_the_same() {
    for (all, one) in [
        (&["/p", "unix:/p", "UNIX:///p"][..], "unix:///p"),
        (&["./p", "unix:./p"], "unix:./p"),
        (&["@n", "unix-abstract:n"], "unix-abstract:n"),
        (&["h:1", "tcp://h:1/"], "tcp://h:1"),
        (&["[::1]:1", "tcp://[::1]:1"], "tcp://[::1]:1"),
        (&["tcp4://h:1"], "tcp4://h:1"),
        (&["https://h"], "https://h"),
        (&["embedded:d"], "embedded:d"),
    ] {
        for text in all {
            let endpoint = Endpoint::parse(text).expect(text);
            assert_eq!(endpoint.spelled_out(), one);
            let again = Endpoint::parse(one).expect(one);
            assert!(endpoint.names_the_same(&again), "{text}");
        }
    }
}

#[test]
fn a_socket_is_the_same_by_every_way_to_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let sub = folder.path().join("sub");
    std::fs::create_dir(&sub).expect("a folder");
    std::os::unix::fs::symlink(&sub, folder.path().join("link")).expect("a link");
    let at = |path: &str| {
        let path = folder.path().join(path);
        Endpoint::parse(&path.display().to_string()).expect("an endpoint")
    };
    for (one, other, is_same) in [
        ("sub/s", "link/s", true),
        ("sub/s", "sub/../sub/s", true),
        ("sub/s", "sub/t", false),
        ("sub/s", "s", false),
        ("none/s", "none/s", true),
        ("none/s", "gone/s", false),
    ] {
        let found = at(one).names_the_same(&at(other));
        assert_eq!(found, is_same, "{one} {other}");
    }
}

#[test]
fn each_kind_says_what_it_is_and_how_it_is_named_elsewhere() {
    let here = std::env::current_dir().expect("a folder");
    let here = here.display();
    for (text, is_here, socket, everywhere, without_credentials) in [
        ("/p", true, Some("/p"), "unix:///p", "unix:///p"),
        (
            "./p",
            true,
            Some("./p"),
            &format!("unix://{here}/p"),
            "unix:./p",
        ),
        ("@n", true, Some("\0n"), "@n", "unix-abstract:n"),
        ("h:1", false, None, "h:1", "tcp://h:1"),
        ("https://h", false, None, "https://h", "https://h"),
        (
            "exec:ssh -i key h",
            false,
            None,
            "exec:ssh -i key h",
            "exec:ssh …",
        ),
        (
            "embedded:d",
            true,
            None,
            &format!("embedded:{here}/d"),
            "embedded:d",
        ),
        ("embedded:", true, None, "embedded:", "embedded:"),
        ("mock:d", true, None, &format!("mock:{here}/d"), "mock:d"),
    ] {
        let endpoint = Endpoint::parse(text).expect(text);
        assert_eq!(endpoint.is_on_this_machine(), is_here, "{text}");
        assert_eq!(
            endpoint.socket().as_deref(),
            socket.map(Path::new),
            "{text}"
        );
        assert_eq!(endpoint.named_everywhere(), everywhere);
        assert_eq!(endpoint.without_credentials(), without_credentials);
        assert_eq!(endpoint.is_tls(), text.starts_with("https:"), "{text}");
        assert_eq!(
            endpoint.is_embedded(),
            text.starts_with("embedded:"),
            "{text}"
        );
    }
}

#[test]
fn authorities_are_hosts() {
    let cases = [
        ("/p", "localhost"),
        ("unix-abstract:n", "localhost"),
        ("exec:cat", "localhost"),
        ("embedded:", "localhost"),
        ("h:1", "h:1"),
        ("[::1]:1", "[::1]:1"),
        ("[fe80::1%eth0]:1", "[fe80::1]:1"),
        ("dns:///h:1", "h:1"),
        ("https://h", "h"),
        ("https://h:443", "h"),
        ("https://h:444", "h:444"),
    ];
    for (text, authority) in cases {
        let endpoint = Endpoint::parse(text).expect(text);
        assert_eq!(endpoint.authority(), authority, "{text}");
        assert_eq!(endpoint.to_string(), text);
    }
}

proptest! {
    #[test]
    fn nothing_panics(text in ".*", near in "(unix|tcp|dns|https|exec)?:?/{0,3}[a-z0-9:@%\\[\\]./]{0,12}") {
        for text in [text, near] {
            if let Ok(endpoint) = Endpoint::parse(&text) {
                let authority = endpoint.authority();
                prop_assert!(authority.parse::<http::uri::Authority>().is_ok(), "{}", authority);
            }
        }
    }
}
