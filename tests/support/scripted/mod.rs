//! A CSI driver that does what a test tells it: any reply to any RPC, correct or not, and a record of what it was asked.
//!
//! It speaks gRPC's framing by itself over hyper, because a gRPC library would refuse to misbehave. It runs in a thread of
//! its own, so that tests stay plain functions. What it answers is [`Reply`]'s subject.

mod listen;
mod reply;
mod serve;

pub use reply::Reply;

use crate::support::certificates::Certificates;
use crate::support::patience::until_changed;
use csi_proto::methods;
use csi_proto::schema::Method;
use csi_proto::value::{self, Secrets};
use listen::Listener;
use prost::Message;
use prost::bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A running scripted driver. It stops when it is dropped.
pub struct ScriptedDriver {
    endpoint: String,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

/// A call as the driver received it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path of the call, such as `/csi.v1.Identity/Probe`.
    pub path: String,
    /// The authority that the client sent.
    pub authority: String,
    /// All headers in the order of their arrival, gRPC's own among them.
    pub metadata: Vec<(String, String)>,
    /// The bytes of the request's message.
    pub message: Bytes,
}

impl Request {
    /// The method that was called, which must be one of CSI's.
    pub fn method(&self) -> &'static Method {
        methods::by_path(&self.path).unwrap_or_else(|| panic!("{} is no RPC of CSI", self.path))
    }

    /// The request as a message.
    pub fn decode<M: Message + Default>(&self) -> M {
        M::decode(self.message.clone())
            .unwrap_or_else(|error| panic!("request of {}: {error}", self.path))
    }

    /// The request as canonical JSON, with secret values masked.
    pub fn json(&self) -> serde_json::Value {
        let value = value::decode(self.method().request, &self.message, Secrets::Mask)
            .unwrap_or_else(|error| panic!("request of {}: {error}", self.path));
        serde_json::to_value(value).expect("a message is JSON")
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.metadata.iter().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value.as_str())
    }
}

type Script = Box<dyn FnMut(&Request) -> Reply + Send>;

/// What the test's thread and the server's share.
#[derive(Default)]
struct Shared {
    scripts: Mutex<HashMap<String, Script>>,
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<Request>,
    cancelled: Vec<String>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        // A test that failed while it held the lock must not make others fail.
        self.seen
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen());
        self.changed.notify_all();
    }

    /// What the script says; a driver that has no such method says UNIMPLEMENTED.
    fn reply_to(&self, request: &Request) -> Reply {
        let name = request.path.rsplit('/').next().unwrap_or_default();
        let mut scripts = self
            .scripts
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match scripts.get_mut(name) {
            Some(script) => script(request),
            None => Reply::error(tonic::Code::Unimplemented, format!("unknown method {name}")),
        }
    }
}

impl ScriptedDriver {
    /// A driver on a unix socket in a folder of its own.
    pub fn unix() -> Self {
        Self::start(Listener::unix)
    }

    /// A driver on a socket in the abstract namespace.
    pub fn unix_abstract() -> Self {
        Self::start(Listener::unix_abstract)
    }

    /// A driver on a free TCP port of 127.0.0.1.
    pub fn tcp() -> Self {
        Self::start(|_| Listener::tcp())
    }

    /// A driver on a free TCP port of 127.0.0.1 that speaks TLS as the server of `certificates`, and accepts only clients of
    /// the same authority.
    pub fn tls(certificates: &Certificates) -> Self {
        let config = certificates.server_config();
        Self::start(|_| Listener::tls(config))
    }

    /// A unix socket whose connections are accepted and never answered, not even with HTTP/2's first frame.
    pub fn silent() -> Self {
        Self::start(|folder| Listener::unix(folder).never_answering())
    }

    fn start(listen: impl FnOnce(&std::path::Path) -> Listener) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = {
            let _context = runtime.enter();
            listen(folder.path())
        };
        let endpoint = listener.endpoint().to_owned();
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve::connections(listener, shared) => {}
                        _ = stopped => {}
                    }
                });
            }
        });
        Self {
            endpoint,
            shared,
            stop: Some(stop),
            thread: Some(thread),
            _folder: folder,
        }
    }

    /// How a client names this driver.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Lets every call of the RPC of that name, such as `CreateVolume`, be answered so.
    pub fn on(&self, rpc: &str, reply: impl Into<Reply>) -> &Self {
        let reply = reply.into().of(named(rpc));
        self.answer(rpc, move |_| reply.clone())
    }

    /// Lets the calls of an RPC be answered one after the other; the last reply stays.
    pub fn on_each(&self, rpc: &str, replies: impl IntoIterator<Item: Into<Reply>>) -> &Self {
        let replies = replies.into_iter();
        let mut replies: Vec<Reply> = replies.map(|reply| reply.into().of(named(rpc))).collect();
        replies.reverse();
        self.answer(rpc, move |_| match replies.len() {
            0 => panic!("no reply was given"),
            1 => replies[0].clone(),
            _ => replies.pop().expect("more than one"),
        })
    }

    /// Lets calls of an RPC be answered by a function of the request.
    pub fn answer<R: Into<Reply>>(
        &self,
        rpc: &str,
        mut script: impl FnMut(&Request) -> R + Send + 'static,
    ) -> &Self {
        let method = named(rpc);
        let script = move |request: &Request| script(request).into().of(method);
        let mut scripts = self.shared.scripts.lock().expect("no script has panicked");
        scripts.insert(rpc.to_owned(), Box::new(script));
        self
    }

    /// All calls so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.seen().requests.clone()
    }

    /// The names of the RPCs that were called so far, in order.
    pub fn calls(&self) -> Vec<String> {
        let requests = self.requests();
        let names = requests
            .iter()
            .map(|request| request.path.rsplit('/').next());
        names
            .map(|name| name.unwrap_or_default().to_owned())
            .collect()
    }

    /// The only call so far.
    pub fn request(&self) -> Request {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "calls: {:?}", self.calls());
        requests[0].clone()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.shared.seen().connections
    }

    /// Waits until the RPC has been called.
    pub fn wait_for_call(&self, rpc: &str) {
        self.wait(rpc, |seen| {
            seen.requests
                .iter()
                .any(|request| request.path.rsplit('/').next() == Some(rpc))
        });
    }

    /// Waits until that many calls have come, since the driver was started.
    pub fn wait_for_requests(&self, count: usize) {
        self.wait(&format!("{count} calls"), |seen| {
            seen.requests.len() >= count
        });
    }

    /// Waits until the client has given up a call of the RPC before the reply's end.
    pub fn wait_for_cancellation(&self, rpc: &str) {
        self.wait(&format!("{rpc} to be cancelled"), |seen| {
            seen.cancelled.iter().any(|name| name == rpc)
        });
    }

    fn wait(&self, what: &str, reached: impl Fn(&Seen) -> bool) {
        let seen = until_changed(&self.shared.changed, self.shared.seen(), &reached);
        let calls: Vec<_> = seen.requests.iter().map(|request| &request.path).collect();
        assert!(
            reached(&seen),
            "waited in vain for {what}; calls: {calls:?}, cancelled: {:?}",
            seen.cancelled
        );
    }
}

fn named(rpc: &str) -> &'static Method {
    methods::by_name(rpc).unwrap_or_else(|| panic!("{rpc} is no RPC of CSI"))
}

impl Drop for ScriptedDriver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the scripted driver panicked");
        }
    }
}
