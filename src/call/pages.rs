//! The pages of a list, which a driver may never end.
//!
//! Owns when that is so: a token comes again, or there are more pages than any list has. Asks nobody.

use crate::error::Error;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use thiserror::Error;
use tonic::Code;

/// The most pages of a list that are read in a row. A list of a million volumes has a hundred on a page.
const PAGES_AT_MOST: usize = 10_000;

/// A list without an end.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Endless {
    /// A page leads back to one that was read.
    #[error("the driver answered twice with the next_token {0:?}: its list has no end")]
    Again(String),
    /// Page after page has a new token.
    #[error(
        "the driver's list has no end after {PAGES_AT_MOST} pages; if it has one, --starting-token {0:?} goes on there"
    )]
    TooMany(String),
}

/// The pages of one list that were read so far.
#[derive(Debug, Default)]
pub struct Pages {
    hasher: RandomState,
    /// The tokens that led to them, as hashes: a token may be of any length.
    tokens: HashSet<u64>,
}

impl Pages {
    /// Whether another page is to be read, behind one with this `next_token`.
    ///
    /// # Errors
    /// When the list has no end.
    pub fn go_on(&mut self, next: &str) -> Result<bool, Endless> {
        if next.is_empty() {
            return Ok(false);
        }
        if !self.tokens.insert(self.hasher.hash_one(next)) {
            return Err(Endless::Again(next.to_owned()));
        }
        match self.tokens.len() < PAGES_AT_MOST {
            true => Ok(true),
            false => Err(Endless::TooMany(next.to_owned())),
        }
    }
}

impl From<Endless> for Error {
    fn from(endless: Endless) -> Self {
        Self::rpc(Code::Internal, endless.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_or_is_found_to_be_endless() {
        let read = |tokens: &[&str]| {
            let mut pages = Pages::default();
            let ends = tokens.iter().map(|token| pages.go_on(token));
            ends.collect::<Result<Vec<_>, _>>()
        };
        assert_eq!(read(&["a", "b", ""]), Ok(vec![true, true, false]));
        for circle in [&["a", "a"][..], &["a", "b", "a"], &["a", "b", "c", "a"]] {
            assert_eq!(read(circle), Err(Endless::Again("a".to_owned())));
        }
        let mut pages = Pages::default();
        let read = (1..).take_while(|page: &usize| pages.go_on(&page.to_string()) == Ok(true));
        assert_eq!(read.count(), PAGES_AT_MOST - 1);
    }
}
