//! Whole documents, one after the other, and lists that arrive in pages, in the formats that have documents.
//!
//! Owns which format does what. How JSON and YAML are written, and what an expression finds, is said in their files.

use super::json::{self, Pages};
use super::jsonpath::Template;
use super::reply::{Format, Options, OutputError};
use super::yaml::Yaml;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::io::Write;

/// The documents of one command.
pub struct Documents(Form);

enum Form {
    Pretty(Pages),
    Lines,
    Yaml(Yaml),
    /// What the expressions find in each document; a list's entries are kept until it is whole.
    Found(Template, Vec<Json>),
}

impl Documents {
    /// Documents in the format of `options`; pretty JSON where that has none of its own.
    pub fn new(options: &Options) -> Self {
        Self(match (options.format, &options.template) {
            (Format::Jsonl, _) => Form::Lines,
            (Format::Yaml, _) => Form::Yaml(Yaml::default()),
            (Format::Jsonpath, Some(template)) => Form::Found(template.clone(), Vec::new()),
            _ => Form::Pretty(Pages::default()),
        })
    }

    /// Writes a document.
    ///
    /// # Errors
    /// When the value cannot be read, or `out` cannot be written.
    pub fn write(
        &mut self,
        document: &impl Serialize,
        out: &mut impl Write,
    ) -> Result<(), OutputError> {
        match &mut self.0 {
            Form::Pretty(_) => json::pretty(document, out),
            Form::Lines => json::line(document, out),
            Form::Yaml(yaml) => yaml.document(document, out),
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
        match &mut self.0 {
            Form::Pretty(pages) => pages.entry(list, entry, out),
            Form::Lines => json::line(entry, out),
            Form::Yaml(yaml) => yaml.entry(list, entry, out),
            Form::Found(_, entries) => {
                entries.push(value(entry)?);
                Ok(())
            }
        }
    }

    /// Closes the list after the last page, whose token is empty.
    ///
    /// # Errors
    /// As [`Documents::write`].
    pub fn finish(&mut self, list: &str, out: &mut impl Write) -> Result<(), OutputError> {
        match &mut self.0 {
            Form::Pretty(pages) => Ok(pages.finish(list, out)?),
            Form::Lines => Ok(()),
            Form::Yaml(yaml) => Ok(yaml.finish(list, out)?),
            Form::Found(template, entries) => {
                let entries = Json::Array(std::mem::take(entries));
                let end = Json::String(String::new());
                let whole = [(list.to_owned(), entries), ("nextToken".to_owned(), end)];
                found(template, &Json::Object(Map::from_iter(whole)), out)
            }
        }
    }
}

fn found(template: &Template, document: &Json, out: &mut impl Write) -> Result<(), OutputError> {
    Ok(out.write_all(template.text(document).as_bytes())?)
}

fn value(document: &impl Serialize) -> Result<Json, OutputError> {
    serde_json::to_value(document).map_err(OutputError::Json)
}
