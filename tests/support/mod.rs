//! What the integration tests share: programs to run and drivers to run them against. No test stands here.
//!
//! Every test program includes this folder by path and uses a part of it.
#![allow(dead_code)]

pub mod alerts;
pub mod calls;
pub mod certificates;
pub mod dice;
pub mod disk;
pub mod driver;
pub mod executable;
pub mod placed;
pub mod process;
pub mod program;
pub mod reference;
pub mod scripted;
pub mod storm;
pub mod strace;
pub mod terminal;
pub mod torture;

/// How long a test waits for what must happen at once, before it fails. Longer than the default of `--timeout`, so that a
/// program that hangs says so itself, and for machines that are many times slower; it only matters on failure.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(90);

/// Where a text differs from what was recorded, as a patch that would record it.
pub fn difference(recorded: &str, now: &str) -> String {
    similar::TextDiff::from_lines(recorded, now)
        .unified_diff()
        .context_radius(3)
        .header("recorded", "now")
        .to_string()
}
