//! Numbers that a test draws, the same ones for the same seed.

use csi_proto::random;

/// Draws numbers, the same ones for the same seed.
pub struct Dice {
    seed: u64,
    drawn: u64,
}

impl Dice {
    /// The numbers of one of those who draw in a test.
    pub fn of(seed: u64, player: u64) -> Self {
        Self {
            seed: random::from_seed(seed, player),
            drawn: 0,
        }
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.drawn += 1;
        random::from_seed(self.seed, self.drawn)
    }

    /// True once in that many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these; nothing when there is none.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let count = all.len() as u64;
        (count > 0).then(|| all[self.below(count) as usize])
    }
}
