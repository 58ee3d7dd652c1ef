//! The size of the terminal behind stdout.

use std::io::IsTerminal;

/// Its columns; `None` where stdout is no terminal. A terminal that does not know its size counts as 80 wide.
pub fn width() -> Option<usize> {
    size().map(|(_, columns)| columns)
}

/// Its rows and columns; `None` where stdout is no terminal.
pub fn size() -> Option<(usize, usize)> {
    let stdout = rustix::stdio::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    Some(match rustix::termios::tcgetwinsize(stdout) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        }
        _ => (24, 80),
    })
}
