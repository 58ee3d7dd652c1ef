//! What the table of values in docs/upstream.md translates is a value of the chart, and is tried by charts/values/translated.yaml.

use super::{chart, resolved};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The paths of all keys in a text of YAML in block style; those in a list have the path of the list before them.
fn paths(text: &str) -> BTreeSet<String> {
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut paths = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let rest = line.trim_start().trim_start_matches("- ");
        let indent = line.len() - rest.len();
        let Some((key, _)) = rest.split_once(':') else {
            continue;
        };
        above.retain(|(outer, _)| *outer < indent);
        above.push((indent, key));
        let path: Vec<&str> = above.iter().map(|(_, key)| *key).collect();
        paths.insert(path.join("."));
    }
    paths
}

/// The values of the chart that the table has, each without what it is set to.
fn translations() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/upstream.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("\n| Their value | Value here |").unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let columns = rows.map(|row| row.split('|').nth(2).unwrap());
    let spans = columns.flat_map(|column| column.split('`').skip(1).step_by(2));
    let values = spans.map(|span| span.split(':').next().unwrap().to_owned());
    values.collect()
}

#[test]
fn the_table_of_values_is_true_and_tried() {
    let schema = fs::read_to_string(chart().join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let tried = fs::read_to_string(chart().join("../values/translated.yaml")).unwrap();
    let tried = paths(&tried);
    let translations = translations();
    assert!(translations.len() > 40, "{translations:?}");
    for value in translations {
        let mut part = &schema;
        for key in value.split('.') {
            let open = part["type"] == "object" && part["properties"].is_null();
            if !open {
                part = resolved(&schema["definitions"], &part["properties"][key]);
                assert!(!part.is_null(), "{value} is no value of the chart");
            }
        }
        assert!(tried.contains(&value), "{value} is not in translated.yaml");
    }
}
