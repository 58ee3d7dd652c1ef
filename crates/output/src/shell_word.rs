//! Quotes text as one word of a shell, safe to show on a terminal.

use csi_proto::escaped;
use std::fmt::Write as _;

/// `text` as one word for a shell, safe to show.
pub fn word(text: &str) -> String {
    if let (Ok(quoted), true) = (shlex::try_quote(text), escaped(text) == text) {
        return quoted.into_owned();
    }
    // bash, zsh, ksh and busybox read this form.
    let mut out = String::from("$'");
    for byte in text.bytes() {
        match byte {
            b'\'' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_reads_every_word_back_and_a_terminal_sees_no_controls() {
        for text in [
            "vol-1",
            "embedded/#x.y",
            "it's $(rm -rf ~) `x`",
            "\x1b[31mred\n'quoted' \\ größe",
            "\u{9b}31m",
            "",
        ] {
            let word = word(text);
            assert_eq!(escaped(&word), word);
            let echo = Command::new("bash")
                .args(["-c", &format!("printf %s {word}")])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(echo.stdout).unwrap(), text, "{word}");
        }
    }
}
