//! Takes secrets out of a text that goes into a bug report or a history: values that are known to be secret, values behind words
//! that secrets are called by, and keys in PEM.
//!
//! What is not called a secret and is none of the known ones stays; whoever sends the report reads it first.

use crate::secrets::masked;
use csi_proto::value::MASK;

/// How secrets are called, in lower case.
const WORDS: [&str; 9] = [
    "passw",
    "passphrase",
    "secret",
    "token",
    "credential",
    "authorization",
    "api_key",
    "apikey",
    "private",
];

/// The text without `secrets`, and without what is called one.
pub fn redacted(text: &str, secrets: &[String]) -> String {
    let text = masked(text, secrets);
    let mut out = String::with_capacity(text.len());
    let mut in_key = false;
    for line in text.split_inclusive('\n') {
        let (begins, ends) = (line.contains("-----BEGIN "), line.contains("-----END "));
        let is_key = in_key || (begins && line.contains("KEY-----"));
        in_key = is_key && !ends;
        match is_key {
            true => out.push_str(if ends {
                "-----a key was here-----\n"
            } else {
                ""
            }),
            false => out.push_str(&line_without(line)),
        }
    }
    out
}

/// A line whose words for secrets have no values.
fn line_without(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, behind)) = named(rest) {
        out.push_str(before);
        let is_flag = before
            .rsplit(' ')
            .next()
            .is_some_and(|it| it.starts_with("--"));
        let (kept, value, after) = value(behind, is_flag);
        out.push_str(kept);
        if !value.is_empty() {
            out.push_str(MASK);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The text up to the end of the next word for a secret, and what is behind it.
fn named(text: &str) -> Option<(&str, &str)> {
    // Of one byte for each, so that places in it are places in the text.
    let lower = text.to_ascii_lowercase().replace('-', "_");
    let found = WORDS
        .iter()
        .filter_map(|word| Some((lower.find(word)?, word.len())));
    let (place, length) = found.min()?;
    Some(text.split_at(place + length))
}

/// What stands behind a word for a secret: the rest of the name with the sign that gives it a value, that value, and what
/// follows. Without such a sign there is no value, but for a flag's.
fn value(behind: &str, is_flag: bool) -> (&str, &str, &str) {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-\"'\\".contains(letter);
    let name = behind
        .find(|letter| !is_name(letter))
        .unwrap_or(behind.len());
    let sign = behind[name..].trim_start_matches(' ');
    let separated = is_flag && behind[name..].starts_with(' ') && !sign.starts_with('-');
    let given = sign.strip_prefix([':', '=']);
    let Some(given) = given.or_else(|| separated.then_some(sign)) else {
        let (kept, rest) = behind.split_at(name);
        return (kept, "", rest);
    };
    let given = given.trim_start_matches(' ');
    if given.starts_with(['{', '[']) {
        let (kept, rest) = behind.split_at(behind.len() - given.len());
        let (group, after) = rest.split_at(group_length(rest));
        let is_empty = group[1..].starts_with(['}', ']']);
        return match is_empty {
            true => (&behind[..kept.len() + group.len()], "", after),
            false => (kept, group, after),
        };
    }
    let quotes = given.len() - given.trim_start_matches(['"', '\'', '\\']).len();
    let start = behind.len() - given.len() + quotes;
    // "Bearer x" is two words.
    let scheme = ["bearer ", "basic "].into_iter().find(|scheme| {
        let begin = behind.get(start..start + scheme.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    });
    let start = start + scheme.map_or(0, str::len);
    let ends = |letter: char| match quotes {
        // YAML and people write several words behind a colon.
        0 if sign.starts_with(':') => ",;&)}]\n".contains(letter),
        0 => letter.is_whitespace() || ",;&)}]".contains(letter),
        _ => "\"'\\\n".contains(letter),
    };
    let length = behind[start..].find(ends).unwrap_or(behind.len() - start);
    let (kept, rest) = behind.split_at(start);
    let (value, after) = rest.split_at(length);
    (kept, value, after)
}

/// The length of the map or list at the beginning of a text; of all of the text where it does not end.
fn group_length(text: &str) -> usize {
    let (mut depth, mut in_quotes) = (0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => in_quotes = !in_quotes,
            '{' | '[' if !in_quotes => depth += 1,
            '}' | ']' if !in_quotes => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.trim_end_matches('\n').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_masked_and_nothing_else() {
        let known = ["hunter2".to_owned()];
        for (text, expected) in [
            ("mount of abcd by hunter2", "mount of abcd by MASK"),
            ("password=x y", "password=MASK y"),
            ("PASSWORD: x, user: y", "PASSWORD: MASK, user: y"),
            (
                r#"{"adminPassword":"a b","n":1}"#,
                r#"{"adminPassword":"MASK","n":1}"#,
            ),
            (
                r#"msg="{\"token\":\"x\"}""#,
                r#"msg="{\"token\":\"MASK\"}""#,
            ),
            (
                "Authorization: Bearer abc.def",
                "Authorization: Bearer MASK",
            ),
            ("api-key=1&x=2", "api-key=MASK&x=2"),
            ("the secret is out", "the secret is out"),
            ("secrets: {}", "secrets: {}"),
            (
                r#"{"secrets": {"k": "a}b", "l": {}}, "n": 1}"#,
                r#"{"secrets": MASK, "n": 1}"#,
            ),
            (
                r#"msg="{\"secrets\":{\"k\":\"x\"},\"n\":1}""#,
                r#"msg="{\"secrets\":MASK,\"n\":1}""#,
            ),
            ("tokens: [a, b", "tokens: MASK"),
            ("the passphrase is: x", "the passphrase is: x"),
            ("nfsPassphrase=x", "nfsPassphrase=MASK"),
            ("privateKey: x", "privateKey: MASK"),
            ("token=a token=b", "token=MASK token=MASK"),
            ("starting_token: ", "starting_token: "),
            ("ä password=ö", "ä password=MASK"),
            ("password", "password"),
            ("password: two words\n", "password: MASK\n"),
            ("x --password two --y", "x --password MASK --y"),
            ("x --password --y", "x --password --y"),
        ] {
            assert_eq!(
                redacted(text, &known),
                expected.replace("MASK", MASK),
                "{text}"
            );
        }
    }

    #[test]
    fn keys_in_pem_are_left_out() {
        let text = "a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb\n";
        assert_eq!(redacted(text, &[]), "a\n-----a key was here-----\nb\n");
        let certificate = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n";
        assert_eq!(redacted(certificate, &[]), certificate);
    }
}
