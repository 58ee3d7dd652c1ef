//! The values of flags and how they are parsed: sizes, maps, metadata, capabilities, topologies, secrets, requests.
//!
//! One file a syntax, and `likest` for what a mistyped name may mean. Each syntax offers `parse(&str)`, which a flag can use as its
//! value parser, with errors that say what would be right. Nothing here knows of flags, connects or prints. The errors hold their
//! cause in their own text and name no source, because whoever reports a bad argument shows that text alone.

pub mod capability;
pub mod likest;
pub mod map;
pub mod metadata;
pub mod record;
pub mod request;
pub mod secrets;
pub mod size;
pub mod text;
pub mod toml;
pub mod topology;
mod unique_keys;
pub mod volume_paths;
