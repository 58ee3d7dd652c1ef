//! Ties each request to its RPC and to the type of the reply, so that a call needs no more than its request.
//!
//! The implementations are generated: an RPC that `csi.proto` has cannot be missing here. This file must not know how a
//! call is made.

use crate::schema::Method;
use prost::Message;

/// The request of an RPC.
pub trait Request: Message + Default + 'static {
    /// What the RPC answers; of a stream, each of its messages.
    type Reply: Message + Default + 'static;
    /// The RPC.
    const METHOD: &'static Method;
}

include!("generated/requests.rs");
