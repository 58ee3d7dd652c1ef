//! Colours for a terminal that shows them.

use csi_error::{Error, ErrorKind, Style, code_name};
use std::io::{IsTerminal, Write as _};

/// Whether stdout is a terminal whose owner wants colours: `NO_COLOR` is empty, and the terminal not a dumb one.
pub fn is_wanted() -> bool {
    is_wanted_on(&std::io::stdout())
}

fn is_wanted_on(output: &impl IsTerminal) -> bool {
    let off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !off && !dumb && output.is_terminal()
}

/// Shows an error on stderr, unless it was shown before. When stderr is gone too, the exit code is all that is left.
pub fn report(error: &Error, style: Style) {
    if !error.is_reported() {
        let _ = std::io::stderr().write_all(of_error(error, style).as_bytes());
    }
}

/// The text of an error for stderr, with its code in colour where that is a terminal which shows them.
pub fn of_error(error: &Error, style: Style) -> String {
    let text = error.render(style);
    match style {
        Style::Text => painted(error, &text, Brush(is_wanted_on(&std::io::stderr()))),
        Style::Json | Style::Csc => text,
    }
}

fn painted(error: &Error, text: &str, brush: Brush) -> String {
    let text = text.replacen("error:", &brush.paint(Colour::Red, "error:"), 1);
    match error.kind() {
        ErrorKind::Rpc(code) => {
            let code = code_name(code);
            let shown = format!(" {}:", brush.paint(Colour::Red, code));
            text.replacen(&format!(" {code}:"), &shown, 1)
        }
        _ => text,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn the_code_of_an_error_is_painted_and_nothing_else_changed() {
        let error = Error::rpc(Code::NotFound, "no such volume NOT_FOUND: x").doing("get-volume v");
        let text = error.render(Style::Text);
        assert_eq!(painted(&error, &text, Brush(false)), text);
        assert_eq!(
            painted(&error, &text, Brush(true)),
            "\x1b[31merror:\x1b[0m get-volume v: \x1b[31mNOT_FOUND\x1b[0m: no such volume NOT_FOUND: x\n"
        );
    }
}
