//! Colours for a terminal that shows them.

use std::io::IsTerminal;

/// Whether stdout is a terminal whose owner wants colours: `NO_COLOR` is empty, and the terminal not a dumb one.
pub fn is_wanted() -> bool {
    let off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !off && !dumb && std::io::stdout().is_terminal()
}

/// A colour or weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Less important text.
    Dim,
    /// A name.
    Bold,
    /// Success.
    Green,
    /// A failure.
    Red,
    /// A warning.
    Yellow,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Green => "32",
            Self::Red => "31",
            Self::Yellow => "33",
        }
    }
}

/// Paints words, or leaves them as they are.
#[derive(Clone, Copy, Debug)]
pub struct Brush(pub bool);

impl Brush {
    /// `text`, which must be safe to show, in a colour.
    pub fn paint(self, colour: Colour, text: &str) -> String {
        match self.0 {
            true => format!("\x1b[{}m{text}\x1b[0m", colour.code()),
            false => text.to_owned(),
        }
    }
}
