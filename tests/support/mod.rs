//! What the integration tests share: programs to run and drivers to run them against. No test stands here.
//!
//! Every test program includes this folder by path and uses a part of it.
#![allow(dead_code)]

pub mod alerts;
pub mod calls;
pub mod certificates;
pub mod corpus;
pub mod dice;
pub mod disk;
pub mod driver;
pub mod executable;
pub mod patience;
pub mod placed;
pub mod process;
pub mod program;
pub mod reference;
pub mod scripted;
pub mod storm;
pub mod strace;
pub mod terminal;
pub mod torture;
pub mod unserved;

pub use patience::PATIENCE;

/// Where a text differs from what was recorded, as a patch that would record it.
pub fn difference(recorded: &str, now: &str) -> String {
    similar::TextDiff::from_lines(recorded, now)
        .unified_diff()
        .context_radius(3)
        .header("recorded", "now")
        .to_string()
}
