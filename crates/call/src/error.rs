//! Failed calls and connections as errors for people: with the cause, decoded status details, and a hint where one helps.
//!
//! Owns the hints. The wording and the exit codes belong to `csi_error`.

use super::answered::{Teller, Unreadable};
use super::endpoint::{Endpoint, EndpointError, HandshakeError};
use super::secrets::mask;
use super::session::{CallError, Lost};
use super::status_details;
use csi_error::Error;
use csi_output::shell_word::word;
use csi_proto::Method;
use std::path::Path;
use std::time::Duration;
use tonic::Code;

/// The error of a connection that cannot be made.
pub fn connection_error(endpoint: &Endpoint, cause: &EndpointError) -> Error {
    let error = match cause {
        EndpointError::Syntax { .. }
        | EndpointError::TlsUnused(..)
        | EndpointError::TlsMaterial(..) => return Error::usage(cause.to_string()),
        EndpointError::Settings { .. } => {
            return Error::unusable(format!("no connection to {endpoint}"), cause);
        }
        _ => Error::rpc(Code::Unavailable, format!("no connection to {endpoint}")),
    };
    let spelling = match cause {
        EndpointError::NoSocket(..) => hint_for_spelling(&endpoint.to_string()),
        _ => None,
    };
    let hint =
        moved_aside(endpoint, cause).or(hint_for_connection(endpoint, cause).map(str::to_owned));
    error.caused_by(cause).with_hint(spelling).with_hint(hint)
}

/// Whether a driver that starts mends it.
pub fn may_come(endpoint: &Endpoint, cause: &EndpointError) -> bool {
    match cause {
        EndpointError::NoSocket(..) => true,
        EndpointError::Refused(..) => moved_aside(endpoint, cause).is_none(),
        _ => false,
    }
}

/// The hint for a driver whose socket a proxy has moved aside, and not back: its own is left at the path.
fn moved_aside(endpoint: &Endpoint, cause: &EndpointError) -> Option<String> {
    let is_left = matches!(cause, EndpointError::Refused(..));
    let aside = endpoint.moved_aside().filter(|_| is_left)?;
    Some(hint_for_moved(&endpoint.socket()?, &aside))
}

/// What brings a socket back to its path.
pub fn hint_for_moved(path: &Path, aside: &Path) -> String {
    let [path, aside] = [path, aside].map(|path| word(&path.to_string_lossy()));
    format!(
        "a proxy has moved the driver's socket to {aside} and ended: start `csi proxy --take-over {path}` again, or run `mv {aside} {path}`"
    )
}

/// The hint for an endpoint that was most likely meant otherwise: a driver in `csi` itself, or a socket below the root and not below the
/// working folder.
fn hint_for_spelling(endpoint: &str) -> Option<String> {
    if matches!(endpoint, "embedded" | "mock") {
        return Some(format!(
            "the driver in csi itself is {endpoint}: with a colon"
        ));
    }
    let path = endpoint.strip_prefix("unix://")?;
    let is_meant = path.starts_with(['.', '/']);
    (!is_meant).then(|| {
        format!("three slashes? unix:///{path} is /{path}, {endpoint} is {path} below the working folder")
    })
}

/// The error of a failed call, with what the endpoint knows about its connection.
pub fn call_error(error: &CallError, endpoint: &Endpoint) -> Error {
    let status = &error.status;
    if let Some(lost) = Lost::of(status)
        && let Some(cause) = endpoint.last_error()
    {
        let is_cut_off = matches!(cause, EndpointError::Closed(..) | EndpointError::Broken(..));
        let is_open = is_cut_off && lost.is_sent && !only_reads(error.method);
        return connection_error(endpoint, &cause).with_hint(is_open.then_some(
            "a call that was under way may have taken effect: repeat it when the driver is back",
        ));
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
    out.with_hint(hint_for(error))
}

/// The hint for a failed call, whatever the message: of what is known, and nothing that may be otherwise.
fn hint_for(error: &CallError) -> Option<String> {
    let (method, code) = (error.method, error.status.code());
    if code == Code::DeadlineExceeded && error.teller != Some(Teller::Gateway) {
        let repeat = (!only_reads(method)).then_some("the call may still take effect; repeat it");
        let timeout = error.timeout.filter(|_| error.is_out_of_time);
        let had =
            timeout.map(|timeout| format!("it had {:?}: see --timeout", to_a_millisecond(timeout)));
        return match (repeat, had) {
            (Some(repeat), Some(had)) => Some(format!("{repeat} ({had})")),
            (repeat, had) => repeat.map(str::to_owned).or(had),
        };
    }
    let hint = match (error.teller?, code) {
        (Teller::Gateway, _) => {
            "something else answers in the driver's place, or stands before it: is this endpoint the driver's?"
        }
        (_, Code::Unimplemented) if method.service == "Identity" => {
            "every CSI driver serves Identity: is this endpoint one?"
        }
        (_, Code::Unimplemented) => {
            "the driver does not serve this RPC; `csi identity plugin-capabilities` and the \
             `get-capabilities` of each service list what it serves"
        }
        (_, Code::Aborted) if error.had_token => {
            "the starting_token is not one that the driver takes, or takes any more: begin without it"
        }
        (_, Code::Aborted) if !only_reads(method) => {
            "another operation on the same thing is running; repeat the call when it is done"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Whether a call changes nothing, so far as the names of CSI's methods tell.
pub fn only_reads(method: &Method) -> bool {
    let verb = method.name.strip_prefix(method.service);
    let verb = verb.unwrap_or(method.name);
    let reads = ["Get", "List", "Validate"];
    method.service == "Identity" || reads.iter().any(|read| verb.starts_with(read))
}

/// A time as people read it: 60s, and not 59.999999975s.
fn to_a_millisecond(time: Duration) -> Duration {
    match u64::try_from(time.as_micros().div_ceil(1000)) {
        Ok(rounded) if time > Duration::from_secs(1) => Duration::from_millis(rounded),
        _ => time,
    }
}

/// The hint for a connection that cannot be made.
fn hint_for_connection(endpoint: &Endpoint, cause: &EndpointError) -> Option<&'static str> {
    Some(match cause {
        EndpointError::NoSocket(..) => "is the driver running, and is its socket visible here?",
        EndpointError::PermissionDenied(..) => {
            "a driver's socket usually belongs to root: try as root, or as a member of the socket's group"
        }
        EndpointError::FolderClosed(..) => {
            "a folder above it may not be entered by this user: try as root"
        }
        EndpointError::TimedOut(..) => {
            "the driver may hang, or the way to it: `csi doctor` looks at both; --timeout is how long to wait"
        }
        EndpointError::NotASocket(..) => "name the socket that the driver's --endpoint names",
        EndpointError::Refused(..) => {
            "the driver has ended or does not listen yet: look at its log"
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
        // At a pod it is this program's own command, and kubectl has said what is wrong.
        EndpointError::ExecEnded { .. } if endpoint.to_string().starts_with("exec:") => {
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
    use crate::endpoint::ExecOutcome;
    use csi_proto::methods;
    use tonic::Status;

    #[test]
    fn what_a_command_must_do_is_said_to_those_who_wrote_it() {
        let ended = EndpointError::ExecEnded {
            program: "kubectl".to_owned(),
            outcome: ExecOutcome::ClosedOutput,
            stderr: None,
        };
        for (endpoint, has_hint) in [("exec:kubectl exec", true), ("pod:a/b", false)] {
            let endpoint = Endpoint::parse(endpoint).expect("an endpoint");
            let hint = hint_for_connection(&endpoint, &ended);
            assert_eq!(hint.is_some(), has_hint, "{endpoint}");
        }
    }

    #[test]
    fn a_hint_says_nothing_that_is_not_known() {
        use Code::{Aborted, DeadlineExceeded, Unimplemented};
        let driver = Some(Teller::Driver);
        let token = "begin without it";
        let running = "another operation on the same thing is running";
        let limit = "it had 60s: see --timeout";
        let open = "the call may still take effect; repeat it";
        let late = "the call may still take effect; repeat it (it had 60s: see --timeout)";
        let (wrong, lacks) = ("is this endpoint the driver's?", "does not serve this RPC");
        // Without a teller, the time was over.
        for (name, code, teller, expected) in [
            ("ListVolumes", Aborted, driver, token),
            ("ListVolumes", Aborted, driver, ""),
            ("ListSnapshots", Aborted, driver, ""),
            ("Probe", Aborted, driver, ""),
            ("ControllerGetVolume", Aborted, driver, ""),
            ("CreateVolumeGroupSnapshot", Aborted, driver, running),
            ("CreateVolume", Aborted, driver, running),
            ("NodePublishVolume", Aborted, driver, running),
            ("Probe", DeadlineExceeded, driver, ""),
            ("Probe", DeadlineExceeded, None, limit),
            ("CreateVolume", DeadlineExceeded, driver, open),
            ("CreateVolume", DeadlineExceeded, None, late),
            ("ListVolumes", Unimplemented, Some(Teller::Gateway), wrong),
            ("ListVolumes", Unimplemented, driver, lacks),
        ] {
            let error = CallError {
                method: methods::by_name(name).expect("an RPC"),
                status: Status::new(code, ""),
                teller,
                timeout: Some(Duration::from_secs(60)),
                is_out_of_time: teller.is_none(),
                had_token: expected == token,
                secrets: Vec::new(),
            };
            let hint = hint_for(&error).unwrap_or_default();
            assert!(hint.contains(expected), "{name}: {hint}");
            assert_eq!(hint.is_empty(), expected.is_empty(), "{name}: {hint}");
        }
    }

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
        let hint = hint_for_spelling("mock").expect("a hint");
        assert!(hint.ends_with(" is mock: with a colon"), "{hint}");
        let hint = hint_for_spelling("unix://tmp/x").expect("a hint");
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
            assert_eq!(hint_for_spelling(fine), None, "{fine}");
        }
    }
}
