//! `csi-nfs get`: asks a driver over HTTP, for probes of containers that have no other program, and for people. Owns the question
//! and what comes of the answer.

use super::HttpAddress;
use crate::process::config::Endpoint;
use csi_proto::socket_file::connect;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a driver may take to have room for one more connection.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// How long one step of the conversation may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks for `path`. Returns the text of the answer, and whether its status says success.
///
/// # Errors
/// When the path is none, or there is no answer, or it is not one of HTTP.
pub fn get(address: &HttpAddress, path: &str) -> io::Result<(bool, String)> {
    if !path.starts_with('/') {
        let problem = format!("{path:?} is no path: give /healthz, /readyz or /metrics");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    match &address.0 {
        Endpoint::Unix(socket) => {
            let stream = connect(socket, ROOM_PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            converse(stream, path)
        }
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            converse(stream, path)
        }
    }
}

fn converse(mut stream: impl Read + Write, path: &str) -> io::Result<(bool, String)> {
    // With 1.0 the answer comes in one piece, and its end is that of the connection.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    read.map_err(|error| match error.kind() {
        // What Linux calls a time that is over.
        io::ErrorKind::WouldBlock => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {PATIENCE:?}"),
        ),
        _ => error,
    })?;
    let not_http = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP");
    let (head, text) = answer.split_once("\r\n\r\n").ok_or_else(not_http)?;
    let status = head.split(' ').nth(1).ok_or_else(not_http)?;
    Ok((status == "200", text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_no_path_is_said_before_anybody_is_asked() {
        let nobody = "unix:///nonexistent/http.sock".parse().unwrap();
        for path in ["", "readyz"] {
            let error = get(&nobody, path).unwrap_err().to_string();
            assert!(error.contains("is no path: give /healthz"), "{error}");
        }
    }

    #[test]
    fn that_nobody_answers_in_time_is_said() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        let error = converse(ours, "/healthz").unwrap_err();
        assert_eq!(error.to_string(), "no answer within 30s");
    }
}
