//! YAML: the documents of `json.rs`, drawn by serde-saphyr, which quotes keys and values that a reader of YAML 1.1 or 1.2 would take
//! for a number, a truth value, a date or nothing.
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
pub fn text(value: &impl Serialize) -> Result<String, OutputError> {
    let options = ser_options! { folded_wrap_chars: NEVER_FOLD };
    let text = serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| OutputError::Yaml(error.to_string()))?;
    let is_safe = |letter: char| letter == '\n' || !is_hazardous(letter);
    if text.chars().all(is_safe) {
        return Ok(text);
    }
    Ok(json::line_text(value)? + "\n")
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
