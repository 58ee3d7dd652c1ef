//! What makes one request another: the fields that differ.

use serde_json::Value as Json;

/// The paths of the values that differ, such as `capacityRange.requiredBytes`.
pub fn differences(one: &Json, other: &Json) -> Vec<String> {
    let mut found = Vec::new();
    compare(String::new(), one, other, &mut found);
    found
}

fn compare(path: String, one: &Json, other: &Json, found: &mut Vec<String>) {
    match (one, other) {
        (Json::Object(left), Json::Object(right)) => {
            let new = right.keys().filter(|key| !left.contains_key(*key));
            for key in left.keys().chain(new) {
                let at = match path.is_empty() {
                    true => key.clone(),
                    false => format!("{path}.{key}"),
                };
                let side = |side: &serde_json::Map<String, Json>| side.get(key).cloned();
                let (left, right) = (side(left), side(right));
                compare(
                    at,
                    &left.unwrap_or_default(),
                    &right.unwrap_or_default(),
                    found,
                );
            }
        }
        _ if one == other => {}
        _ => found.push(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_fields_that_differ_are_named() {
        for (one, other, expected) in [
            (
                json!({"a": 1, "b": {"c": 2}}),
                json!({"b": {"c": 2}, "a": 1}),
                vec![],
            ),
            (
                json!({"a": 1, "b": {"c": 2}}),
                json!({"a": 1, "b": {"c": 3}}),
                vec!["b.c"],
            ),
            (json!({"a": 1}), json!({"d": 1}), vec!["a", "d"]),
            (json!({"l": [1, 2]}), json!({"l": [2, 1]}), vec!["l"]),
        ] {
            assert_eq!(differences(&one, &other), expected);
        }
    }
}
