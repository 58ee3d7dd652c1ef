//! Logs every call in one line, with method, redacted request, status and time, and bounds the length of error messages. It is counted and timed, too. A tower layer around all services, so that no RPC can be forgotten.

use crate::mount::redaction;
use crate::process::log::{Level, Log};
use bytes::Bytes;
use csi_nfs_store::metrics::{InProgress, METRICS};
use csi_proto::lock::lock;
use csi_proto::schema::Method;
use csi_proto::value::{self, MASK, Secrets};
use http_body::Frame;
use http_body_util::BodyExt;
use serde_json::Value;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::{Layer, Service};

/// The longest error message that is sent. Clients lose all headers, the status among them, when they exceed 16 KiB,
/// and a byte of the message may become three in a header.
const MESSAGE_LIMIT: usize = 4096;

/// The longest request that is logged. No valid one is longer: maps are bounded to 4 KiB each.
const REQUEST_LIMIT: usize = 64 * 1024;

/// Calls that change nothing, most of which an orchestrator repeats by itself, all the time. Their success is worth no line of its
/// own; their failure is a warning like every other one.
const READ_ONLY: [&str; 13] = [
    "Identity/GetPluginInfo",
    "Identity/GetPluginCapabilities",
    "Identity/Probe",
    "Controller/ControllerGetCapabilities",
    "Controller/ControllerGetVolume",
    "Controller/GetCapacity",
    "Controller/GetSnapshot",
    "Controller/ListSnapshots",
    "Controller/ListVolumes",
    "Controller/ValidateVolumeCapabilities",
    "Node/NodeGetCapabilities",
    "Node/NodeGetInfo",
    "Node/NodeGetVolumeStats",
];

/// Where every path of the specification's services begins.
const PACKAGE: &str = "/csi.v1.";

/// The level of a call that has ended with `code`.
fn level(path: &str, code: Code) -> Level {
    let changes_nothing = || READ_ONLY.contains(&path.trim_start_matches(PACKAGE));
    match code {
        Code::Ok if changes_nothing() => Level::Debug,
        Code::Ok => Level::Info,
        // A defect of this driver.
        Code::Internal | Code::Unknown | Code::DataLoss => Level::Error,
        _ => Level::Warn,
    }
}

/// Wraps services in the log, and counts the calls that run.
#[derive(Clone, Debug)]
pub struct CallLog {
    log: Log,
    running: Arc<watch::Sender<usize>>,
}

impl CallLog {
    /// Calls are logged to `log`.
    pub fn new(log: Log) -> Self {
        Self {
            log,
            running: Arc::new(watch::Sender::new(0)),
        }
    }

    /// A call of the method at `path`, which runs until this is dropped.
    fn begin(&self, path: &str) -> Call {
        self.running.send_modify(|running| *running += 1);
        Call {
            calls: self.clone(),
            path: path.to_owned(),
            request: Arc::default(),
            start: Instant::now(),
            finished: false,
            _counted: InProgress::of(&METRICS.calls_in_progress),
        }
    }

    /// Waits until no call runs.
    pub async fn quiet(&self) {
        // The sender lives in `self`.
        let _ = self
            .running
            .subscribe()
            .wait_for(|running| *running == 0)
            .await;
    }
}

impl Layer<Routes> for CallLog {
    type Service = Logged;

    fn layer(&self, inner: Routes) -> Logged {
        Logged {
            inner,
            calls: self.clone(),
        }
    }
}

/// Services with the log around them.
#[derive(Clone, Debug)]
pub struct Logged {
    inner: Routes,
    calls: CallLog,
}

type Reply = http::Response<Body>;

impl Service<http::Request<Body>> for Logged {
    type Response = Reply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut call = self.calls.begin(request.uri().path());
        let request = if self.calls.log.writes(Level::Error) {
            let copy = Arc::clone(&call.request);
            request.map(|body| Body::new(body.map_frame(move |frame| lock(&copy).of(frame))))
        } else {
            request
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let reply = answer.await?;
            // A unary reply that failed has its status in the headers; without one the call succeeded.
            let status = Status::from_header_map(reply.headers());
            let (code, message) = match &status {
                Some(status) => (status.code(), status.message()),
                None => (Code::Ok, ""),
            };
            call.finish(code, message);
            Ok(match status {
                Some(status) if status.message().len() > MESSAGE_LIMIT => shortened(&status),
                _ => reply,
            })
        })
    }
}

/// The same status with a message that fits into the headers.
fn shortened(status: &Status) -> Reply {
    let mut message = clipped(status.message(), MESSAGE_LIMIT).to_owned();
    let _ = write!(message, " … ({} bytes in all)", status.message().len());
    Status::with_details_and_metadata(
        status.code(),
        message,
        Bytes::copy_from_slice(status.details()),
        status.metadata().clone(),
    )
    .into_http()
}

/// At most the first `limit` bytes, in whole characters.
fn clipped(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// One call while it runs. Dropped without [`Call::finish`], it was given up by the client.
struct Call {
    calls: CallLog,
    path: String,
    request: Arc<Mutex<Copy>>,
    start: Instant,
    finished: bool,
    _counted: InProgress,
}

/// What has been seen of a request's bytes.
#[derive(Default)]
struct Copy {
    bytes: Vec<u8>,
    total: usize,
}

impl Copy {
    /// Takes a copy of `frame`, which goes on.
    fn of(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        if let Some(data) = frame.data_ref() {
            self.total += data.len();
            if self.total <= REQUEST_LIMIT {
                self.bytes.extend_from_slice(data);
            }
        }
        frame
    }
}

impl Call {
    fn finish(&mut self, code: Code, message: &str) {
        self.finished = true;
        let took = self.start.elapsed();
        // Whoever invents methods must not make a series of each.
        let known = method(&self.path).map_or("unknown", |method| method.path);
        METRICS.call(known, go_name(code), took);
        let level = level(&self.path, code);
        if !self.calls.log.writes(level) {
            return;
        }
        let milliseconds = took.as_secs_f64() * 1000.0;
        // What went wrong stands where eyes begin; the long part stands where a line may be cut off.
        let mut fields = vec![
            ("code", csi_proto::codes::name(code.into()).into()),
            ("ms", ((milliseconds * 10.0).round() / 10.0).into()),
        ];
        if !message.is_empty() {
            fields.push(("message", clipped(message, MESSAGE_LIMIT).into()));
        }
        fields.push(("method", self.path.trim_start_matches(PACKAGE).into()));
        fields.push(("request", self.request()));
        self.calls.log.event(level, "call", &fields);
    }

    /// The request without its secrets and the values of mount options; where it cannot be read, why.
    fn request(&self) -> Value {
        let copy = lock(&self.request);
        let Some(method) = method(&self.path) else {
            return "unknown method".into();
        };
        if copy.total > copy.bytes.len() {
            return format!("not shown: {} bytes", copy.total).into();
        }
        // gRPC: a flag for compression and four bytes of length stand before the message.
        let Some(([0, ..], message)) = copy.bytes.split_at_checked(5) else {
            return "not readable".into();
        };
        let mut shown = value::decode(method.request, message, Secrets::Mask)
            .map_err(|error| error.to_string())
            .and_then(|value| {
                serde_json::to_value(without_defaults(value)).map_err(|error| error.to_string())
            })
            .unwrap_or_else(Value::from);
        redact_options(&mut shown, false);
        shown
    }
}

/// Leaves the values of mount options out of `value`, a part of a request, whose texts are such options where it `is_options`. The
/// specification takes them for confidential.
fn redact_options(value: &mut Value, is_options: bool) {
    match value {
        Value::String(text) if is_options && text != MASK => *text = redaction::given(text),
        Value::Array(list) => {
            for value in list {
                redact_options(value, is_options);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let is_options = key == "mountFlags" || key.eq_ignore_ascii_case("mountOptions");
                redact_options(value, is_options);
            }
        }
        _ => {}
    }
}

/// A line needs only what was given.
fn without_defaults(value: value::Value<'_>) -> value::Value<'_> {
    use value::Value as V;
    match value {
        V::Message(fields) => V::Message(
            fields
                .into_iter()
                .map(|(key, value)| (key, without_defaults(value)))
                .filter(|(_, value)| match value {
                    V::Absent | V::Bool(false) | V::Int32(0) | V::Int64(0) | V::Enum(0, _) => false,
                    V::Text(text) => !text.is_empty(),
                    V::List(list) => !list.is_empty(),
                    V::Map(map) => !map.is_empty(),
                    _ => true,
                })
                .collect(),
        ),
        V::List(list) => V::List(list.into_iter().map(without_defaults).collect()),
        other => other,
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.finished {
            self.finish(
                Code::Cancelled,
                "the client gave up; what was begun goes on",
            );
        }
        self.calls.running.send_modify(|running| *running -= 1);
    }
}

fn method(path: &str) -> Option<&'static Method> {
    csi_proto::tables::METHODS
        .iter()
        .copied()
        .find(|method| method.path == path)
}

/// The code's name as Go writes it, and so the metrics of everything written in Go.
fn go_name(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::v1::volume_capability::{AccessType, MountVolume};
    use csi_proto::v1::{NodePublishVolumeRequest, VolumeCapability};
    use prost::Message;

    fn logged(path: &str, request: &NodePublishVolumeRequest) -> Value {
        let body = request.encode_to_vec();
        let mut bytes = vec![0];
        bytes.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(&body);
        let mut call = CallLog::new(Log::off()).begin(path);
        call.request = Arc::new(Mutex::new(Copy {
            total: bytes.len(),
            bytes,
        }));
        call.request()
    }

    #[tokio::test]
    async fn a_call_that_has_ended_runs_no_more() {
        let calls = CallLog::new(Log::off());
        let [given_up, mut answered] = [calls.begin("/a"), calls.begin("/b")];
        answered.finish(Code::Ok, "");
        drop(given_up);
        assert_eq!(*calls.running.borrow(), 1);
        drop(answered);
        calls.quiet().await;
    }

    #[test]
    fn secrets_and_tokens_are_masked_and_defaults_left_out() {
        let token = "csi.storage.k8s.io/serviceAccount.tokens";
        let request = NodePublishVolumeRequest {
            volume_id: "v".into(),
            secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
            volume_context: [(token.to_owned(), "hunter3".to_owned())].into(),
            ..Default::default()
        };
        let shown = logged("/csi.v1.Node/NodePublishVolume", &request);
        assert_eq!(shown["volumeId"], "v");
        assert!(shown.get("readonly").is_none());
        let text = shown.to_string();
        assert!(!text.contains("hunter"), "{text}");
        assert!(text.contains("password"), "{text}");
    }

    #[test]
    fn of_mount_options_only_known_names_are_told() {
        let options = "vers=4.2,ro,hunter=hunter2, hunter3,x-hunter=4";
        let mount = MountVolume {
            mount_flags: options.split(',').map(str::to_owned).collect(),
            ..Default::default()
        };
        let request = NodePublishVolumeRequest {
            volume_context: [("mountoptions".to_owned(), options.to_owned())].into(),
            secrets: [("mountOptions".to_owned(), options.to_owned())].into(),
            volume_capability: Some(VolumeCapability {
                access_type: Some(AccessType::Mount(mount)),
                ..Default::default()
            }),
            ..Default::default()
        };
        let shown = logged("/csi.v1.Node/NodePublishVolume", &request);
        assert_eq!(
            shown["volumeContext"]["mountoptions"],
            "vers=…,ro,…=…,…,x-=…"
        );
        assert_eq!(shown["secrets"]["mountOptions"], MASK);
        let text = shown.to_string();
        assert!(!text.contains("4.2") && !text.contains("hunter"), "{text}");
        assert!(text.contains(r#""mountFlags":["vers=…","ro","#), "{text}");
    }

    #[test]
    fn what_only_reads_is_told_when_it_fails() {
        let served = ["Identity/", "Controller/", "Node/"];
        for path in csi_proto::tables::METHODS.iter().map(|method| method.path) {
            let name = path.strip_prefix(PACKAGE).unwrap();
            if !served.iter().any(|service| name.starts_with(service)) {
                continue;
            }
            let mut reads = ["Get", "List", "Probe", "Validate"].iter();
            let expected = match reads.any(|word| name.contains(word)) {
                true => Level::Debug,
                false => Level::Info,
            };
            assert_eq!(level(path, Code::Ok), expected, "{path}");
            assert_eq!(level(path, Code::Unavailable), Level::Warn, "{path}");
        }
        let publish = "/csi.v1.Node/NodePublishVolume";
        assert_eq!(level(publish, Code::Ok), Level::Info);
        assert_eq!(level(publish, Code::NotFound), Level::Warn);
        assert_eq!(level(publish, Code::Internal), Level::Error);
        assert_eq!(level("/other", Code::Ok), Level::Info);
    }

    #[test]
    fn codes_are_named_as_go_names_them() {
        for (code, name) in [
            (Code::Ok, "OK"),
            (Code::Cancelled, "Canceled"),
            (Code::DeadlineExceeded, "DeadlineExceeded"),
            (Code::DataLoss, "DataLoss"),
        ] {
            assert_eq!(go_name(code), name);
        }
    }

    #[test]
    fn long_messages_fit_into_headers() {
        let reply = shortened(&Status::internal("é".repeat(10_000)));
        let status = Status::from_header_map(reply.headers()).unwrap();
        assert_eq!(status.code(), Code::Internal);
        assert!(status.message().ends_with("(20000 bytes in all)"));
        let size: usize = reply
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        assert!(size < 16 * 1024, "{size}");
    }
}
