//! Failed calls and connections as errors for people: with the cause, decoded status details, and a hint where one helps.
//!
//! Owns the hints. The wording and the exit codes belong to `csi_error`.

use super::answered::Unreadable;
use super::endpoint::{Endpoint, EndpointError, HandshakeError};
use super::secrets::mask;
use super::session::{CallError, Lost};
use super::status_details;
use csi_error::Error;
use csi_proto::Method;
use std::time::Duration;
use tonic::Code;

/// What hints offer where a driver may come.
const WAIT_OFFER: &str = "--wait 1m waits for it";

/// The error of a connection that cannot be made.
pub fn connection_error(endpoint: &Endpoint, cause: &EndpointError) -> Error {
    let hint = hint_for_connection(cause).map(str::to_owned);
    connection_error_with(endpoint, cause, hint)
}

/// That of a connection that was waited for.
pub fn connection_error_after_waiting(endpoint: &Endpoint, cause: &EndpointError) -> Error {
    let hint = hint_for_connection(cause).map(|hint| {
        let rest = hint.strip_suffix(WAIT_OFFER).unwrap_or(hint);
        rest.trim_end_matches([' ', ';']).to_owned()
    });
    connection_error_with(endpoint, cause, hint)
}

fn connection_error_with(
    endpoint: &Endpoint,
    cause: &EndpointError,
    hint: Option<String>,
) -> Error {
    let error = match cause {
        EndpointError::Syntax { .. }
        | EndpointError::TlsUnused(..)
        | EndpointError::TlsMaterial(..) => return Error::usage(cause.to_string()),
        EndpointError::Settings { .. } => {
            return Error::unusable(format!("no connection to {endpoint}"), cause);
        }
        _ => Error::rpc(Code::Unavailable, format!("no connection to {endpoint}")),
    };
    let slash = match cause {
        EndpointError::NoSocket(..) => hint_for_slashes(&endpoint.to_string()),
        _ => None,
    };
    let error = error.caused_by(cause).with_hint(slash);
    error.with_hint(hint)
}

/// The hint for a socket below the working folder that was most likely meant to be below the root.
fn hint_for_slashes(endpoint: &str) -> Option<String> {
    let path = endpoint.strip_prefix("unix://")?;
    let is_meant = path.starts_with(['.', '/']);
    (!is_meant).then(|| {
        format!("three slashes? unix:///{path} is /{path}, {endpoint} is {path} below the working folder")
    })
}

/// The error of a failed call, with what the endpoint knows about its connection.
pub fn call_error(error: &CallError, endpoint: &Endpoint) -> Error {
    let status = &error.status;
    if Lost::of(status).is_some()
        && let Some(cause) = endpoint.last_error()
    {
        return connection_error(endpoint, &cause);
    }
    if let Some(reason) = Unreadable::of(status) {
        return Error::local(reason.to_string());
    }
    let mut out = Error::rpc(status.code(), status.message());
    if let Some(source) = std::error::Error::source(status) {
        out = out.caused_by(source);
    }
    for mut detail in status_details::decoded(status.details()) {
        mask(&mut detail, &error.secrets);
        out = out.detail(detail);
    }
    out.with_hint(hint_for(error.method, status.code(), error.timeout))
}

/// The hint for a status code of a method, whatever the driver's message.
fn hint_for(method: &Method, code: Code, timeout: Option<Duration>) -> Option<String> {
    let hint = match code {
        Code::Unimplemented if method.service == "Identity" => {
            "every CSI driver serves Identity: is this endpoint one?"
        }
        Code::Unimplemented => {
            "the driver does not serve this RPC; `csi identity plugin-capabilities` and the \
             `get-capabilities` of each service list what it serves"
        }
        Code::DeadlineExceeded => {
            let repeat = "the call may still take effect; repeat it";
            // The driver may have a limit of its own, which is shorter.
            return Some(match timeout.map(to_a_millisecond) {
                Some(timeout) => format!("{repeat} (it had {timeout:?}: see --timeout)"),
                None => repeat.to_owned(),
            });
        }
        Code::Aborted if method.request.field("starting_token").is_some() => {
            "the starting_token is not one that the driver takes, or takes any more: begin without it"
        }
        Code::Aborted => {
            "another operation on this volume is running; repeat the call when it is done"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// A time as people read it: 60s, and not 59.999999975s.
fn to_a_millisecond(time: Duration) -> Duration {
    match u64::try_from(time.as_micros().div_ceil(1000)) {
        Ok(rounded) if time > Duration::from_secs(1) => Duration::from_millis(rounded),
        _ => time,
    }
}

/// The hint for a connection that cannot be made.
fn hint_for_connection(cause: &EndpointError) -> Option<&'static str> {
    Some(match cause {
        EndpointError::NoSocket(..) => {
            "is the driver running, and is its socket visible here? --wait 1m waits for it"
        }
        EndpointError::PermissionDenied(..) => {
            "a driver's socket usually belongs to root: try as root, or as a member of the socket's group"
        }
        EndpointError::TimedOut(..) => {
            "the driver may hang, or the way to it: `csi doctor` looks at both; --timeout is how long to wait"
        }
        EndpointError::NotASocket(..) => "name the socket that the driver's --endpoint names",
        EndpointError::Refused(..) => {
            "the driver has ended or does not listen yet: look at its log; --wait 1m waits for it"
        }
        EndpointError::Closed(..) | EndpointError::Broken(..) => {
            "a call that was under way may have taken effect: repeat it when the driver is back"
        }
        EndpointError::Tls(_, cause) if trusts_or_names(cause) => {
            "--cacert names the authority to trust, --server-name the name in the certificate"
        }
        EndpointError::Silent { endpoint, .. } if endpoint.starts_with("https:") => {
            "the server may want a certificate of the client: --cert and --key"
        }
        EndpointError::ExecStart(..) => "the command must be found in PATH and be executable",
        EndpointError::PodLacksRelay { .. } => {
            "name another container: pod:NAMESPACE/POD/CONTAINER; or add `csi` to the image"
        }
        EndpointError::NoPod(..) | EndpointError::SeveralDrivers { .. } => {
            "`kubectl get pods -A -l app.kubernetes.io/name=csi-nfs` shows the pods of the chart; -e pod:NAMESPACE/POD names one"
        }
        EndpointError::ExecEnded { .. } => {
            "the command must carry the connection on its stdin and stdout, as `csi proxy --stdio SOCKET` does at its far end"
        }
        _ => return None,
    })
}

/// Whether a handshake failed for what `--cacert` and `--server-name` can mend; the other reasons say what to do.
fn trusts_or_names(cause: &HandshakeError) -> bool {
    matches!(
        cause,
        HandshakeError::UnknownIssuer | HandshakeError::OtherKey | HandshakeError::OtherName { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_to_the_millisecond() {
        for (nanos, expected) in [
            (59_999_999_975, "60s"),
            (1, "1ns"),
            (300_000_000, "300ms"),
            (1_500_000_000, "1.5s"),
        ] {
            let shown = format!("{:?}", to_a_millisecond(Duration::from_nanos(nanos)));
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn two_slashes_where_three_were_meant_are_noticed() {
        let hint = hint_for_slashes("unix://tmp/x").expect("a hint");
        assert!(
            hint.starts_with("three slashes? unix:///tmp/x is /tmp/x, "),
            "{hint}"
        );
        for fine in [
            "unix:///tmp/x",
            "unix://./x",
            "unix:tmp/x",
            "/tmp/x",
            "tmp/x",
        ] {
            assert_eq!(hint_for_slashes(fine), None, "{fine}");
        }
    }
}
