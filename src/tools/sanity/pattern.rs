//! The value of `--filter`: any text; completion offers the names of the cases.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use std::ffi::OsStr;

/// Takes any text for a pattern, and offers the names of the cases to completion.
#[derive(Clone)]
pub struct PatternParser;

impl TypedValueParser for PatternParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let cases = super::cases();
        Some(Box::new(cases.map(|case| {
            PossibleValue::new(case.name.as_str()).help(&case.sentence)
        })))
    }
}
