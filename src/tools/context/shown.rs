//! Contexts as lines or as JSON.

use csi_arguments::map;
use csi_call::Endpoint;
use csi_error::{Error, say};
use csi_invocation::contexts::file::{Context, Contexts};
use csi_output::columns::{Columns, aligned};
use csi_output::{Format, json, table, terminal};
use csi_proto::escaped;
use serde_json::{Value as Json, json as object};

/// All contexts; `counts` is the one that counts.
///
/// # Errors
/// None that is known: a vector takes every byte.
pub fn list(
    contexts: &Contexts,
    counts: Option<String>,
    format: Format,
    has_heads: bool,
) -> Result<String, Error> {
    let counts = |name: &String| counts.as_ref() == Some(name);
    let all = contexts.contexts.iter();
    match format {
        Format::Json | Format::Jsonl => {
            let list = all.map(|(name, context)| value(name, context, counts(name)));
            Ok(json::in_format(&Json::Array(list.collect()), format)?)
        }
        Format::Name => Ok(all.map(|(name, _)| format!("{name}\n")).collect()),
        _ if contexts.contexts.is_empty() => {
            say!("no contexts");
            Ok(String::new())
        }
        _ => {
            let mut cells: Vec<String> = Vec::new();
            for (name, context) in all {
                cells.extend([
                    if counts(name) { "*" } else { "" }.to_owned(),
                    name.clone(),
                    escaped(&without_credentials(&context.endpoint)).into_owned(),
                    escaped(context.cap.as_deref().unwrap_or_default()).into_owned(),
                    escaped(&map::text(&context.params)).into_owned(),
                ]);
            }
            let heads = ["CURRENT", "NAME", "ENDPOINT", "CAP", "PARAMS"];
            let width = terminal::width();
            Ok(table::of_cells(&heads, &cells, width, has_heads))
        }
    }
}

/// The name of one alone.
///
/// # Errors
/// As [`list`].
pub fn name(name: &str, format: Format) -> Result<String, Error> {
    match format {
        Format::Json | Format::Jsonl => Ok(json::in_format(&object!({ "name": name }), format)?),
        _ => Ok(format!("{name}\n")),
    }
}

/// One context.
///
/// # Errors
/// As [`list`].
pub fn one(name: &str, context: &Context, counts: bool, format: Format) -> Result<String, Error> {
    let shown = value(name, context, counts);
    if format != Format::Table {
        return Ok(json::in_format(&shown, format)?);
    }
    let mut cells = Vec::new();
    for (key, value) in shown.as_object().into_iter().flatten() {
        let text = match value {
            Json::String(text) => text.clone(),
            Json::Object(_) => map::text(&context.params),
            other => other.to_string(),
        };
        cells.extend([format!("{key}:"), escaped(&text).into_owned()]);
    }
    Ok(aligned(Columns::new(2, 1), &cells))
}

/// A list shows it to whoever looks over a shoulder.
fn without_credentials(endpoint: &str) -> String {
    let parsed = Endpoint::parse(endpoint);
    parsed.map_or_else(
        |_| endpoint.to_owned(),
        |parsed| parsed.without_credentials(),
    )
}

fn value(name: &str, context: &Context, counts: bool) -> Json {
    let mut shown = object!({"name": name, "counts": counts});
    if let (Json::Object(shown), Ok(Json::Object(said))) =
        (&mut shown, serde_json::to_value(context))
    {
        shown.extend(said);
    }
    shown
}
