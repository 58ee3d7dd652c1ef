//! The pages of a list, which a driver may never end.
//!
//! Owns when that is so: a token comes again, or there are more pages than any list has. Asks nobody.

use csi_error::Error;
use csi_output::shell_word::word;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use tonic::Code;

/// The most pages of a list that are read in a row. A list of a million volumes has a hundred on a page.
const PAGES_AT_MOST: usize = 10_000;

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
    pub fn go_on(&mut self, next: &str) -> Result<bool, Error> {
        let endless = |why| Err(Error::rpc(Code::Internal, why));
        if next.is_empty() {
            return Ok(false);
        }
        if !self.tokens.insert(self.hasher.hash_one(next)) {
            return endless(format!(
                "the driver answered twice with the next_token {next:?}: its list has no end"
            ));
        }
        match self.tokens.len() < PAGES_AT_MOST {
            true => Ok(true),
            false => endless(format!(
                "the driver's list has no end after {PAGES_AT_MOST} pages; if it has one, --starting-token {} goes on there",
                word(next)
            )),
        }
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
        assert_eq!(read(&["a", "b", ""]).unwrap(), [true, true, false]);
        for circle in [&["a", "a"][..], &["a", "b", "a"], &["a", "b", "c", "a"]] {
            let error = read(circle).unwrap_err().first_line();
            assert!(error.contains("twice with the next_token \"a\""), "{error}");
        }
        let mut pages = Pages::default();
        let mut goes_on = |page: &usize| pages.go_on(&page.to_string()).is_ok_and(|on| on);
        let read = (1..).take_while(|page| goes_on(page));
        assert_eq!(read.count(), PAGES_AT_MOST - 1);
        // As a shell takes it.
        let error = pages.go_on("it's").unwrap_err().first_line();
        assert!(
            error.contains("--starting-token \"it's\" goes on"),
            "{error}"
        );
        let error = pages.go_on("$x").unwrap_err().first_line();
        assert!(error.contains("--starting-token '$x' goes on"), "{error}");
    }
}
