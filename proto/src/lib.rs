//! The Container Storage Interface, for a client and for a driver.
//!
//! This package owns `csi.proto` and `pluginregistration.proto`, the Rust types and service traits made from them, the
//! constant tables that describe the first ([`schema`], [`tables`]), what answers a request ([`request`]), and the
//! one walk from a message's bytes to a value ([`value`]) and back ([`json`]). Beside them stands what both programs must
//! agree on: how a duration and a fault on purpose are written, what a deadline on the wire means, how text is made safe to show, where random
//! numbers come from, who may take the place of a socket,
//! and how lines wait for a reader who is slow.
//! It must not call a driver, print, or know either program.

/// The messages, and with the feature `server` the service traits. Generated.
#[allow(missing_docs, clippy::all, clippy::unwrap_used)]
pub mod v1 {
    include!("generated/csi.v1.rs");
}

/// The kubelet's plugin registration: how a driver makes itself known on a node. Generated.
#[cfg(feature = "server")]
#[allow(missing_docs, clippy::all, clippy::unwrap_used)]
pub mod pluginregistration {
    include!("generated/pluginregistration.rs");
}

/// The descriptors of the protocol as constant tables. Generated.
pub mod tables {
    include!("generated/tables.rs");
}

pub mod capabilities;
pub mod codes;
pub mod duration;
pub mod faults;
pub mod grpc_timeout;
pub mod guess;
pub mod json;
pub mod line_queue;
pub mod lock;
pub mod methods;
pub mod path;
pub mod place_lock;
pub mod random;
pub mod request;
pub mod schema;
pub mod socket_file;
pub mod socket_place;
pub mod text;
pub mod value;
pub mod wire;

pub use lock::lock;
pub use path::contents;
pub use request::Request;
pub use schema::Method;
pub use tables::SPEC_VERSION;
pub use text::escaped;
