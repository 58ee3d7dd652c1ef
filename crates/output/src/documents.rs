//! Whole documents, one after the other, and lists that arrive in pages, in the formats that have documents.
//!
//! Owns which format does what. How JSON and YAML are written, and what an expression finds, is said in their files.

use super::jsonpath::{Shape, Template};
use super::reply::{Expressions, Format, Options, OutputError};
use super::{json, yaml};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::io::Write;

/// The documents of one command.
pub struct Documents {
    form: Form,
    /// How many documents and entries are written.
    written: usize,
}

enum Form {
    Pretty,
    Lines,
    Yaml,
    /// What the expressions find in each document; a list's entries are kept until it is whole.
    Found(Template, Vec<Json>),
}

impl Documents {
    /// Documents of a shape in the format of `options`; pretty JSON where that has none of its own.
    ///
    /// # Errors
    /// When an expression has a name that they cannot have.
    pub fn new(options: &Options, shape: Shape) -> Result<Self, OutputError> {
        let form = match (options.format, &options.expressions) {
            (Format::Jsonl, _) => Form::Lines,
            (Format::Yaml, _) => Form::Yaml,
            (_, Expressions::Template(template)) => {
                Form::Found(template.for_documents(shape)?, Vec::new())
            }
            _ => Form::Pretty,
        };
        Ok(Self { form, written: 0 })
    }

    /// Writes a document; one of YAML behind a `---` where another one came before.
    ///
    /// # Errors
    /// When the value cannot be read, or `out` cannot be written.
    pub fn write(
        &mut self,
        document: &impl Serialize,
        out: &mut impl Write,
    ) -> Result<(), OutputError> {
        let is_first = self.written == 0;
        self.written += 1;
        match &self.form {
            Form::Pretty => json::pretty(document, out),
            Form::Lines => json::line(document, out),
            Form::Yaml => {
                let mark = if is_first { "" } else { "---\n" };
                Ok(write!(out, "{mark}{}", yaml::text(document)?)?)
            }
            Form::Found(template, _) => found(template, &value(document)?, out),
        }
    }

    /// Writes an entry of the field `list`, as part of the one document that a single page would have been.
    ///
    /// # Errors
    /// As [`Documents::write`].
    pub fn entry(
        &mut self,
        list: &str,
        entry: &impl Serialize,
        out: &mut impl Write,
    ) -> Result<(), OutputError> {
        let is_first = self.written == 0;
        self.written += 1;
        match &mut self.form {
            Form::Pretty => {
                let before = match is_first {
                    true => format!("{{\n  \"{list}\": [\n"),
                    false => ",\n".to_owned(),
                };
                let text = indented(&json::text(entry)?, "    ", "    ");
                Ok(write!(out, "{before}{}", text.trim_end())?)
            }
            Form::Lines => json::line(entry, out),
            Form::Yaml => {
                if is_first {
                    writeln!(out, "{list}:")?;
                }
                let text = indented(&yaml::text(entry)?, "- ", "  ");
                Ok(out.write_all(text.as_bytes())?)
            }
            Form::Found(_, entries) => {
                entries.push(value(entry)?);
                Ok(())
            }
        }
    }

    /// Ends what is written after a page that failed. The document stays open: behind a pipe nobody sees the exit code, and no reader
    /// is to take a part for the whole. An expression finds nothing in a part.
    ///
    /// # Errors
    /// As [`Documents::write`].
    pub fn cut_off(&self, out: &mut impl Write) -> Result<(), OutputError> {
        let open = match self.form {
            _ if self.written == 0 => "",
            Form::Pretty => "\n",
            Form::Yaml => "nextToken: \"\n",
            Form::Lines | Form::Found(..) => "",
        };
        Ok(out.write_all(open.as_bytes())?)
    }

    /// Closes the list after the last page, whose token is empty.
    ///
    /// # Errors
    /// As [`Documents::write`].
    pub fn finish(&mut self, list: &str, out: &mut impl Write) -> Result<(), OutputError> {
        let is_empty = self.written == 0;
        match &mut self.form {
            Form::Pretty if is_empty => {
                writeln!(out, "{{\n  \"{list}\": [],\n  \"nextToken\": \"\"\n}}")?;
            }
            Form::Pretty => writeln!(out, "\n  ],\n  \"nextToken\": \"\"\n}}")?,
            Form::Lines => {}
            Form::Yaml => {
                let list = if is_empty {
                    format!("{list}: []\n")
                } else {
                    String::new()
                };
                writeln!(out, "{list}nextToken: \"\"")?;
            }
            Form::Found(template, entries) => {
                let entries = Json::Array(std::mem::take(entries));
                let end = Json::String(String::new());
                let whole = [(list.to_owned(), entries), ("nextToken".to_owned(), end)];
                found(template, &Json::Object(Map::from_iter(whole)), out)?;
            }
        }
        Ok(())
    }
}

/// A text further in: `first` before its first line, `rest` before the others. An empty line stays empty: it belongs to a
/// text of several lines.
fn indented(text: &str, first: &str, rest: &str) -> String {
    let mut out = String::with_capacity(2 * text.len());
    for (index, line) in text.lines().enumerate() {
        let before = match (index, line) {
            (0, _) => first,
            (_, "") => "",
            (_, _) => rest,
        };
        out.push_str(before);
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn found(template: &Template, document: &Json, out: &mut impl Write) -> Result<(), OutputError> {
    Ok(out.write_all(template.text(document).as_bytes())?)
}

fn value(document: &impl Serialize) -> Result<Json, OutputError> {
    serde_json::to_value(document).map_err(OutputError::Json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn documents(format: Format) -> Documents {
        let options = Options {
            format,
            ..Options::default()
        };
        Documents::new(&options, Shape::Unknown).unwrap()
    }

    fn text(out: &[u8]) -> String {
        String::from_utf8_lossy(out).into_owned()
    }

    #[test]
    fn documents_of_yaml_are_told_apart() {
        let (mut yaml, mut out) = (documents(Format::Yaml), Vec::new());
        for value in [json!({"a": []}), json!({"b": {}})] {
            yaml.write(&value, &mut out).expect("written");
        }
        assert_eq!(text(&out), "a: []\n---\nb: {}\n");
    }

    #[test]
    fn a_list_that_arrives_in_pages_is_one_document() {
        let entries = [json!({"a": "x\n\ny", "b": ["c"]}), json!({"a": "\u{202e}"})];
        for (format, expected, empty) in [
            (
                Format::Yaml,
                "entries:\n- a: |-\n    x\n\n    y\n  b:\n  - c\n- {\"a\":\"\\u202e\"}\nnextToken: \"\"\n",
                "entries: []\nnextToken: \"\"\n",
            ),
            (
                Format::Json,
                "{\n  \"entries\": [\n    {\n      \"a\": \"x\\n\\ny\",\n      \"b\": [\n        \"c\"\n      ]\n    },\n    {\n      \"a\": \"\\u202e\"\n    }\n  ],\n  \"nextToken\": \"\"\n}\n",
                "{\n  \"entries\": [],\n  \"nextToken\": \"\"\n}\n",
            ),
        ] {
            let (mut list, mut out) = (documents(format), Vec::new());
            for entry in &entries {
                list.entry("entries", entry, &mut out).expect("written");
            }
            list.finish("entries", &mut out).expect("written");
            assert_eq!(text(&out), expected);
            let mut out = Vec::new();
            let finished = documents(format).finish("entries", &mut out);
            finished.expect("written");
            assert_eq!(text(&out), empty);
        }
    }
}
