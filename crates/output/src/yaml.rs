//! YAML: the documents of `json.rs`, drawn by serde-saphyr, which quotes values that a reader of YAML 1.1 or 1.2 would take
//! for a number, a truth value, a date or nothing. Of keys it quotes those of YAML 1.2 alone; the others are quoted here.
//!
//! What a terminal would act on cannot be escaped in every style of YAML. A document that holds such a character is written
//! as JSON in one line, which is YAML too, with the character escaped.

use super::json;
use super::reply::OutputError;
use csi_proto::text::is_hazardous;
use serde::Serialize;
use serde_saphyr::ser_options;

/// Folding would break long texts into lines, which nobody finds any more.
const NEVER_FOLD: usize = 1 << 30;

/// The value as YAML that is safe to show.
///
/// # Errors
/// When the value cannot be read.
pub fn text(value: &impl Serialize) -> Result<String, OutputError> {
    let options = ser_options! { folded_wrap_chars: NEVER_FOLD };
    let text = serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| OutputError::Yaml(error.to_string()))?;
    let is_safe = |letter: char| letter == '\n' || !is_hazardous(letter);
    if text.chars().all(is_safe) {
        return Ok(with_quoted_keys(&text));
    }
    Ok(json::line_text(value)? + "\n")
}

/// YAML in which no key is left bare that YAML 1.1 takes for something else.
fn with_quoted_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // The column of what has a text of several lines, which goes on where lines stand further in.
    let mut several_lines: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        if several_lines.is_some_and(|column| indent > column || line == "\n") {
            out.push_str(line);
            continue;
        }
        let mut start = indent;
        while line[start..].starts_with("- ") {
            start += 2;
        }
        let (before, rest) = line.split_at(start);
        let key = key_of(rest);
        let value = match key {
            Some((_, after)) => after[1..].trim_start_matches(' '),
            None => rest,
        };
        let column = match key {
            Some(_) => start,
            None => start.saturating_sub(2),
        };
        several_lines = value.starts_with('|').then_some(column);
        match key {
            Some((key, after)) if is_trap(key) => {
                out.push_str(&format!("{before}\"{key}\"{after}"));
            }
            _ => out.push_str(line),
        }
    }
    out
}

/// The key that the rest of a line begins with, as it stands there, and what follows it. A colon within quotes ends no key.
fn key_of(rest: &str) -> Option<(&str, &str)> {
    let end = match rest.as_bytes().first()? {
        b'"' => {
            let mut is_escaped = false;
            let closing = rest[1..].find(|letter| match letter {
                '"' if !is_escaped => true,
                _ => {
                    is_escaped = letter == '\\' && !is_escaped;
                    false
                }
            });
            closing? + 2
        }
        b'\'' => return None,
        _ => rest.find(':')?,
    };
    let (key, after) = rest.split_at(end);
    let is_key = after.starts_with(": ") || after.starts_with(":\n");
    is_key.then_some((key, after))
}

/// Whether a bare key may be a truth value, a number, a date or YAML 1.1's `=`. Rather one too many is quoted.
fn is_trap(key: &str) -> bool {
    let words = ["y", "yes", "n", "no", "on", "off"];
    words.iter().any(|word| key.eq_ignore_ascii_case(word))
        || key.starts_with(|first: char| first.is_ascii_digit() || "+.=".contains(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(value: &serde_json::Value) -> String {
        text(value).expect("YAML")
    }

    #[test]
    fn texts_that_look_like_something_else_are_quoted() {
        for trap in [
            "no",
            "on",
            "Yes",
            "y",
            "N",
            "true",
            "null",
            "~",
            "",
            "1e3",
            "0o7",
            "0x1F",
            "017",
            "1_000",
            "12:30",
            ".5",
            ".inf",
            "-1",
            " a",
            "a ",
            "a: b",
            "a #b",
            "#a",
            "- a",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "[a",
            "{a",
            "2001-01-01",
            "2001-12-14t21:59:43.10-05:00",
            "<<",
            "=",
            "---",
            "'a",
            "| a",
            "> a",
            "1073741824",
        ] {
            let line = shown(&json!({"k": trap}));
            let value = line
                .strip_prefix("k: ")
                .unwrap_or_else(|| panic!("{trap:?}: {line}"));
            let quoted = [format!("'{trap}'\n"), format!("\"{trap}\"\n")];
            let quoted = quoted.iter().any(|quoted| quoted == value);
            assert!(quoted, "{trap:?}: {line}");
        }
        for plain in [
            "a",
            "a:b",
            "a#b",
            "server=x,share=/a",
            "10Gi",
            "vol-1",
            "a, b",
        ] {
            assert_eq!(shown(&json!({"k": plain})), format!("k: {plain}\n"));
        }
    }

    #[test]
    fn keys_that_look_like_something_else_are_quoted() {
        for key in [
            "y",
            "N",
            "no",
            "On",
            "OFF",
            "yes",
            "017",
            "2001-01-01",
            "=",
            "1_0",
        ] {
            assert_eq!(shown(&json!({key: "v"})), format!("\"{key}\": v\n"));
            let nested = shown(&json!({"a": [{key: {"b": "c"}}]}));
            assert_eq!(nested, format!("a:\n- \"{key}\":\n    b: c\n"));
        }
        for key in ["a", "no-fail", "nothing", "one", "k.v/w", "a1"] {
            assert_eq!(shown(&json!({key: "v"})), format!("{key}: v\n"));
        }
        // What looks like a key in a text is none.
        let text = "no: x\n- y: z\n\non: u\n";
        let expected =
            "a: |\n  no: x\n  - y: z\n\n  on: u\n\"b\":\n- |\n  no: x\n  - y: z\n\n  on: u\n";
        let two = shown(&json!({"a": text, "b": [text]}));
        assert_eq!(two, expected.replace("\"b\"", "b"));
        assert_eq!(shown(&json!({"a": "no: x"})), "a: \"no: x\"\n");
        // Nor does a colon within quotes end one.
        for key in ["a: b", "a:", ": ", "\\\": ", "a\": |", "'a: b"] {
            let of_text = shown(&json!({key: "no: x\non: y\n"}));
            let (quoted, lines) = of_text.split_once('\n').unwrap();
            assert!(
                quoted.starts_with('"') && quoted.ends_with("\": |"),
                "{of_text}"
            );
            assert_eq!(lines, "  no: x\n  on: y\n", "{key:?}");
        }
        for text in ["a: |", "'a': |", "\"a\": |", "a\\\": |"] {
            let several = shown(&json!({"a": [text, {"no": "b"}], "on": 1}));
            assert!(several.ends_with("\n- \"no\": b\n\"on\": 1\n"), "{several}");
        }
    }

    #[test]
    fn texts_of_several_lines_and_long_ones_stay_whole() {
        assert_eq!(shown(&json!({"k": "a\n b\n"})), "k: |\n  a\n   b\n");
        assert_eq!(shown(&json!({"k": "a\nb"})), "k: |-\n  a\n  b\n");
        let long = "word ".repeat(100) + "end";
        assert_eq!(shown(&json!({"k": long})), format!("k: {long}\n"));
    }

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        assert_eq!(shown(&json!({"k": "a\x1b[2J"})), "k: \"a\\e[2J\"\n");
        assert_eq!(
            shown(&json!({"k": "a\u{202e}b"})),
            "{\"k\":\"a\\u202eb\"}\n"
        );
    }
}
