//! Ctrl-D that is pressed while a call runs: it is kept for the next prompt, as all else that is typed ahead.
//!
//! A terminal that collects lines takes that key for the end of its input, and tells nobody who reads keys later. While a call
//! runs nobody reads: the key has no meaning then. Programs that do read have it.

use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

/// The letter for a key that a terminal does not have.
const NO_KEY: u8 = 0;

/// The key of the terminal in which somebody types; without one, nothing is done.
#[derive(Default)]
pub struct TypeAhead(Option<u8>);

/// Keeps the key for the next prompt as long as it lives.
pub struct Kept<'a>(&'a TypeAhead);

impl TypeAhead {
    /// The terminal's key as it is now.
    pub fn of_terminal() -> Self {
        let settings = tcgetattr(stdin());
        Self(
            settings
                .ok()
                .map(|now| now.special_codes[SpecialCodeIndex::VEOF]),
        )
    }

    /// Keeps what is typed from now on.
    pub fn keep(&self) -> Kept<'_> {
        self.set(NO_KEY);
        Kept(self)
    }

    /// Lets the key end input. A pager that began while it was kept has put the terminal back to how it was then.
    pub fn let_go(&self) {
        if let Some(key) = self.0 {
            self.set(key);
        }
    }

    fn set(&self, key: u8) {
        if self.0.is_some()
            && let Ok(mut settings) = tcgetattr(stdin())
        {
            settings.special_codes[SpecialCodeIndex::VEOF] = key;
            // A terminal that is gone has no keys.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &settings);
        }
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.let_go();
    }
}
