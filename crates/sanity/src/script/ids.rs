//! The texts in requests and answers that a driver chose, such as ids, and variables of a shell in their places.

use csi_proto::text::escaped;
use serde_json::Value as Json;
use std::fmt::Write as _;

/// A text of this length with a digit in it is an id wherever it stands; shorter ones are where a field says so.
const ID_AT_LEAST: usize = 6;

/// The texts in a document, each with its path.
pub(super) fn texts_in(json: &Json, path: &str, texts: &mut Vec<(String, String)>) {
    match json {
        Json::String(text) => texts.push((path.to_owned(), text.clone())),
        Json::Array(list) => {
            for (index, one) in list.iter().enumerate() {
                texts_in(one, &format!("{path}[{index}]"), texts);
            }
        }
        Json::Object(fields) => {
            for (key, value) in fields {
                let is_plain =
                    !key.is_empty() && key.chars().all(|letter| letter.is_ascii_alphanumeric());
                let path = match is_plain {
                    true => format!("{path}.{key}"),
                    false => format!("{path}[{}]", Json::from(key.as_str())),
                };
                texts_in(value, &path, texts);
            }
        }
        _ => {}
    }
}

/// Whether a text is an id.
pub(super) fn is_id(path: &str, text: &str) -> bool {
    let is_long =
        text.len() >= ID_AT_LEAST && text.contains(|letter: char| letter.is_ascii_digit());
    let is_named = ["Id", "Token"].iter().any(|end| path.ends_with(end));
    // A number is a size, which JSON writes as text.
    let is_number = text.bytes().all(|letter| letter.is_ascii_digit());
    (is_named || (is_long && !is_number)) && !text.is_empty()
}

/// Whether a text stands for itself in JSON and in quotes of the shell, so that a variable can hold it; one of several that an
/// answer is split into also without quotes.
pub(super) fn is_plain(text: &str, is_alone: bool) -> bool {
    let own: &[char] = match is_alone {
        true => &['"', '\\', '\''],
        false => &['"', '\\', '\'', '*', '?', '[', ' '],
    };
    !text.contains(own) && matches!(escaped(text), std::borrow::Cow::Borrowed(_))
}

/// A text as it stands in JSON.
pub(super) fn in_json(text: &str) -> String {
    let quoted = Json::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Whether a document has the text, alone or in another one.
pub(super) fn holds(json: &str, text: &str) -> bool {
    !places(json, text).is_empty()
}

/// The places of a text that stands for itself: whole, or within another where it is long enough and no part of a longer word.
fn places(json: &str, text: &str) -> Vec<usize> {
    let found = json.match_indices(text).map(|(at, _)| at);
    let stands_alone = |at: &usize| {
        let (before, after) = (
            json[..*at].chars().next_back(),
            json[at + text.len()..].chars().next(),
        );
        match text.len() >= ID_AT_LEAST {
            true => ![before, after]
                .into_iter()
                .flatten()
                .any(|letter| letter.is_ascii_alphanumeric()),
            false => (before, after) == (Some('"'), Some('"')),
        }
    };
    found.filter(stands_alone).collect()
}

/// A word of the shell in single quotes, with a variable in the places of a text.
pub(super) fn with_variable(quoted: &str, text: &str, variable: &str) -> String {
    let mut out = String::new();
    let mut from = 0;
    for at in places(quoted, text) {
        let _ = write!(out, "{}'\"${variable}\"'", &quoted[from..at]);
        from = at + text.len();
    }
    out + &quoted[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_over_whole_and_within_other_texts() {
        for (json, id, expected) in [
            (
                r#"{"volumeId":"vol-00000001"}"#,
                "vol-00000001",
                r#"{"volumeId":"'"$v"'"}"#,
            ),
            (
                r#"{"a":"/x/vol-00000001/y"}"#,
                "vol-00000001",
                r#"{"a":"/x/'"$v"'/y"}"#,
            ),
            (
                r#"{"a":"vol-000000012"}"#,
                "vol-00000001",
                r#"{"a":"vol-000000012"}"#,
            ),
            (
                r#"{"id":"7","size":"17"}"#,
                "7",
                r#"{"id":"'"$v"'","size":"17"}"#,
            ),
            (r#"{"a":"x7"}"#, "7", r#"{"a":"x7"}"#),
            (r#"{"a":"vol 1 * é"}"#, "vol 1 * é", r#"{"a":"'"$v"'"}"#),
        ] {
            assert_eq!(with_variable(json, id, "v"), expected);
        }
    }

    #[test]
    fn what_the_driver_chose_has_a_path_in_the_answer() {
        let json = serde_json::json!({"group": {"snapshots": [{"snapshotId": "s1"}]}, "context": {"a.b": "x-123456", "n": "memory"}});
        let mut texts = Vec::new();
        texts_in(&json, "", &mut texts);
        texts.retain(|(path, text)| is_id(path, text));
        texts.sort();
        let pair = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let expected = [
            pair(".context[\"a.b\"]", "x-123456"),
            pair(".group.snapshots[0].snapshotId", "s1"),
        ];
        assert_eq!(texts, expected);
        assert!(!is_id(".capacityBytes", "1073741824"));
        for (text, alone, beside) in [
            ("vol-1", true, true),
            ("vol 1", true, false),
            ("vol*", true, false),
            ("vol-é", true, true),
            ("{\"v\":4}", false, false),
            ("it's", false, false),
            ("a\nb", false, false),
            ("a\u{202e}b", false, false),
        ] {
            let plain = [true, false].map(|is_alone| is_plain(text, is_alone));
            assert_eq!(plain, [alone, beside], "{text:?}");
        }
        assert_eq!(in_json("{\"v\":4}"), r#"{\"v\":4}"#);
    }
}
