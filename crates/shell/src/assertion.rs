//! `assert`: compares values; sizes compare as numbers.

use csi_arguments::size;
use csi_error::Error;

/// The operators.
const OPERATORS: [&str; 7] = ["==", "!=", "<=", ">=", "<", ">", "contains"];

/// Demands that the words of an expression hold: `VALUE`, or `VALUE OP VALUE`. `typed` are the words before their variables
/// were expanded.
///
/// # Errors
/// When it does not hold, or is none.
pub fn check(words: &[String], typed: &[String]) -> Result<(), Error> {
    let operator = words
        .iter()
        .position(|word| OPERATORS.contains(&word.as_str()));
    let holds = match (words, operator) {
        ([value], None) => {
            // `a==b` would be one word, which is always something.
            if let Some(operator) = OPERATORS[..4].iter().find(|one| value.contains(**one)) {
                return Err(Error::usage(format!(
                    "write blanks around {operator}, and quote a value that holds it"
                )));
            }
            !matches!(value.as_str(), "" | "false" | "0")
        }
        ([left, operator, right], Some(1)) => compare(left, operator, right)?,
        _ => {
            return Err(Error::usage(format!(
                "write assert VALUE, or assert VALUE OP VALUE with {}; quote a value that holds blanks",
                OPERATORS.join(", ")
            )));
        }
    };
    match holds {
        true => Ok(()),
        false => {
            let values = match words {
                [left, _, right] => format!("left is {left:?}, right is {right:?}"),
                words => format!("it is {:?}", words.join(" ")),
            };
            let expression = typed.join(" ");
            Err(Error::local(format!(
                "assertion failed: {expression}: {values}"
            )))
        }
    }
}

fn compare(left: &str, operator: &str, right: &str) -> Result<bool, Error> {
    let order = match (size::parse_exact(left), size::parse_exact(right)) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        _ => match operator {
            "<" | ">" | "<=" | ">=" => {
                return Err(Error::usage(format!(
                    "{operator} compares numbers and sizes, not {left:?} and {right:?}"
                )));
            }
            _ => left.cmp(right),
        },
    };
    Ok(match operator {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        _ => left.contains(right),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_error::ErrorKind;

    fn kind(words: &[&str]) -> Option<ErrorKind> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        check(&words, &words).err().map(|error| error.kind())
    }

    #[test]
    fn what_does_not_hold_is_shown_with_both_values() {
        let words = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).collect()
        };
        for (typed, values, expected) in [
            (
                &["$vol.volume.capacity_bytes", "==", "2Gi"][..],
                &["1073741824", "==", "2Gi"][..],
                "assertion failed: $vol.volume.capacity_bytes == 2Gi: left is \"1073741824\", right is \"2Gi\"",
            ),
            (
                &["$p.ready"],
                &["false"],
                "assertion failed: $p.ready: it is \"false\"",
            ),
        ] {
            let error = check(&words(values), &words(typed)).expect_err("it holds");
            let text = error.render(csi_error::Style::Text);
            assert_eq!(text, format!("error: {expected}\n"));
        }
    }

    #[test]
    fn what_holds_passes_and_what_does_not_fails() {
        for words in [
            &["10737418240", "==", "10Gi"][..],
            &["1Gi", "!=", "1G"],
            &["1", "<", "2k"],
            &["2k", ">=", "2000"],
            &["a", "==", "a"],
            &["abc", "contains", "b"],
            &["true"],
            &["-1", "<", "0"],
            &["1.5Gi", "<", "2Gi"],
            &["1.5", "==", "1.5"],
            &["1.5", "!=", "2"],
        ] {
            assert_eq!(kind(words), None, "{words:?}");
        }
        for words in [
            &["1", "==", "2"][..],
            &["a", "!=", "a"],
            &["2", "<=", "1"],
            &["1.5", "==", "2"],
            &["1.2", "==", "1.5"],
            &["abc", "contains", "x"],
            &["false"],
            &[""],
        ] {
            assert_eq!(kind(words), Some(ErrorKind::Local), "{words:?}");
        }
        for words in [
            &["a==b"][..],
            &["a", "<", "1"],
            &["1.5", "<", "2"],
            &["a", "b"],
            &["=="],
            &["a", "=", "a"],
        ] {
            assert_eq!(kind(words), Some(ErrorKind::Usage), "{words:?}");
        }
    }
}
