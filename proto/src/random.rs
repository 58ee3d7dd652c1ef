//! Random numbers from two sources: the kernel, for numbers that no other process may draw as well, and a seed, for
//! numbers that must be the same when a run is repeated.
//!
//! This file must not know what the numbers are for. The driver's shares, which see nothing of this package, ask the kernel
//! themselves.

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// What a failure of [`from_kernel`] means.
pub const MISSING: &str = "the kernel gives no random numbers";

/// Bytes that nobody can foretell.
///
/// # Errors
/// When the kernel has no such call.
pub fn from_kernel<const LENGTH: usize>() -> io::Result<[u8; LENGTH]> {
    // Up to this length the kernel gives all or nothing.
    const { assert!(LENGTH <= 256) };
    let mut bytes = [0; LENGTH];
    retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))?;
    Ok(bytes)
}

/// The number at `index` of the sequence that `seed` begins (SplitMix64). It looks like any other, and is no secret.
pub fn from_seed(seed: u64, index: u64) -> u64 {
    let step = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut mixed = seed.wrapping_add(step);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_kernel_never_repeats_itself() {
        let drawn: BTreeSet<[u8; 16]> = (0..100).map(|_| from_kernel().unwrap()).collect();
        assert_eq!(drawn.len(), 100);
    }

    #[test]
    fn a_seed_makes_the_published_sequence() {
        // The first outputs of the reference implementation for this seed.
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for (index, number) in (0..).zip(expected) {
            assert_eq!(from_seed(1_234_567, index), number, "{index}");
        }
    }

    #[test]
    fn seeds_and_places_make_numbers_of_their_own() {
        let all: BTreeSet<u64> = (0..100)
            .flat_map(|seed| (0..100).map(move |index| from_seed(seed, index)))
            .collect();
        assert_eq!(all.len(), 100 * 100);
    }
}
