//! The names of gRPC's status codes, as the documents of gRPC and CSI spell them.

/// Every name by its number.
pub const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The name of a code; that of UNKNOWN for a number that is none, as gRPC takes it.
pub fn name(code: i32) -> &'static str {
    let known = usize::try_from(code).ok();
    known.and_then(|code| NAMES.get(code)).unwrap_or(&NAMES[2])
}
