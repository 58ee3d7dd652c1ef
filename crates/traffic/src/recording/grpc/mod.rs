//! gRPC on the level of HTTP/2, in bytes and headers, for a proxy that looks at other programs' calls.

pub mod framing;
pub mod status;
