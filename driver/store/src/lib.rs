//! What the driver does with a share's files: records and what they are about, trees that are copied, walked and measured, quotas. Plain
//! Rust, which knows neither gRPC nor Kubernetes, and mounts nothing.

// One thread serves all calls: what blocks is denied, but to rooms that other threads run.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(test)]
#[path = "../../../tests/support/corpus.rs"]
mod corpus;
pub mod export;
pub mod files;
pub mod metrics;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub mod quota;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub mod share;
pub mod upstream;
