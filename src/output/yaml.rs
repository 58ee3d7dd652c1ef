//! YAML: the documents of `json.rs`, drawn by serde-saphyr, which quotes what a reader of YAML 1.1 or 1.2 would take for a
//! number, a truth value, a date or nothing.
//!
//! What a terminal would act on cannot be escaped in every style of YAML. A document that holds such a character is written
//! as JSON in one line, which is YAML too, with the character escaped.

use super::json;
use super::reply::OutputError;
use csi_proto::text::is_hazardous;
use serde::Serialize;
use serde_saphyr::ser_options;
use std::io::{self, Write};

/// Folding would break long texts into lines, which nobody finds any more.
const NEVER_FOLD: usize = 1 << 30;

/// Documents one after the other, and lists that arrive in pages.
#[derive(Debug, Default)]
pub struct Yaml {
    documents: usize,
    entries: usize,
}

impl Yaml {
    /// Writes a document, behind a `---` where another one came before.
    ///
    /// # Errors
    /// When the value cannot be read, or `out` cannot be written.
    pub fn document(
        &mut self,
        document: &impl Serialize,
        out: &mut impl Write,
    ) -> Result<(), OutputError> {
        if self.documents > 0 {
            out.write_all(b"---\n")?;
        }
        self.documents += 1;
        Ok(out.write_all(text(document)?.as_bytes())?)
    }

    /// Writes an entry of the field `list`, as part of the one document that a single page would have been.
    ///
    /// # Errors
    /// As [`Yaml::document`].
    pub fn entry(
        &mut self,
        list: &str,
        entry: &impl Serialize,
        out: &mut impl Write,
    ) -> Result<(), OutputError> {
        if self.entries == 0 {
            writeln!(out, "{list}:")?;
        }
        self.entries += 1;
        let entry = text(entry)?;
        for (index, line) in entry.lines().enumerate() {
            // An empty line stays empty: it belongs to a text of several lines.
            match (index, line) {
                (0, line) => writeln!(out, "- {line}")?,
                (_, "") => writeln!(out)?,
                (_, line) => writeln!(out, "  {line}")?,
            }
        }
        Ok(())
    }

    /// Closes the list after the last page, whose token is empty.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn finish(&self, list: &str, out: &mut impl Write) -> io::Result<()> {
        if self.entries == 0 {
            writeln!(out, "{list}: []")?;
        }
        writeln!(out, "nextToken: \"\"")
    }
}

/// The value as YAML that is safe to show.
fn text(value: &impl Serialize) -> Result<String, OutputError> {
    let options = ser_options! { folded_wrap_chars: NEVER_FOLD };
    let text = serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| OutputError::Yaml(error.to_string()))?;
    let is_safe = |letter: char| letter == '\n' || !is_hazardous(letter);
    if text.chars().all(is_safe) {
        return Ok(text);
    }
    let mut line = Vec::new();
    json::line(value, &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
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

    #[test]
    fn documents_and_lists_are_told_apart() {
        let (mut yaml, mut out) = (Yaml::default(), Vec::new());
        for value in [json!({"a": []}), json!({"b": {}})] {
            yaml.document(&value, &mut out).expect("written");
        }
        assert_eq!(String::from_utf8_lossy(&out), "a: []\n---\nb: {}\n");
        let (mut yaml, mut out) = (Yaml::default(), Vec::new());
        for value in [json!({"a": "x\n\ny", "b": ["c"]}), json!({"a": "\u{202e}"})] {
            yaml.entry("entries", &value, &mut out).expect("written");
        }
        yaml.finish("entries", &mut out).expect("written");
        let expected = "entries:\n- a: |-\n    x\n\n    y\n  b:\n  - c\n- {\"a\":\"\\u202e\"}\nnextToken: \"\"\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        let mut out = Vec::new();
        Yaml::default()
            .finish("entries", &mut out)
            .expect("written");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "entries: []\nnextToken: \"\"\n"
        );
    }
}
