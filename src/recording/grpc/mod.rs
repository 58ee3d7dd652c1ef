//! gRPC as it stands on HTTP/2, in bytes and headers: for those who look at calls that are not their own.

pub mod framing;
pub mod status;
