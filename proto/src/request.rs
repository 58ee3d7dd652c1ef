//! Ties each request to its RPC and to the type of the reply: a caller passes the request alone.
//!
//! The implementations are generated: an RPC that `csi.proto` has cannot be missing here. This file must not know how a
//! call is made.

use crate::schema::Method;
use prost::Message;

/// The request of an RPC.
pub trait Request: Message + Default + 'static {
    /// The type of the reply; of a stream, the type of each message.
    type Reply: Message + Default + 'static;
    /// The RPC.
    const METHOD: &'static Method;
}

include!("generated/requests.rs");
