//! Tests of the syntax of lines.

use super::*;
use proptest::prelude::*;

fn words(text: &str) -> Vec<String> {
    let all = statements(text).unwrap();
    let words = all.into_iter().flat_map(|one| one.words);
    words.map(|word| word.as_typed()).collect()
}

#[test]
fn words_are_a_shell_s() {
    for (text, expected) in [
        ("a  b", vec!["a", "b"]),
        ("a 'b c' d", vec!["a", "b c", "d"]),
        ("'it'\\''s'", vec!["it's"]),
        ("\"a \\\"b\\\" \\x\"", vec!["a \"b\" \\x"]),
        ("a\\ b", vec!["a b"]),
        ("a#b #c", vec!["a#b"]),
        ("a \\\nb", vec!["a", "b"]),
        ("'a\nb'", vec!["a\nb"]),
        ("''", vec![""]),
        ("größe 日本", vec!["größe", "日本"]),
        ("# nothing", vec![]),
        ("a; b", vec!["a", "b"]),
        ("assert $x >= 10Gi", vec!["assert", "$x", ">=", "10Gi"]),
        ("5$ $", vec!["5$", "$"]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

#[test]
fn variables_end_where_a_path_ends() {
    let of = |text: &str| {
        let statement = statements(text).unwrap().remove(0);
        statement.words[0].pieces.clone()
    };
    let variable = |path: &str| WordPiece::Variable(path.to_owned());
    let text = |text: &str| WordPiece::Text(text.to_owned());
    assert_eq!(of("$_"), [variable("_")]);
    assert_eq!(of("$a.b_c[0].d:/x"), [variable("a.b_c[0].d"), text(":/x")]);
    assert_eq!(of("$a."), [variable("a"), text(".")]);
    assert_eq!(of("${a.b}c"), [variable("a.b"), text("c")]);
    assert_eq!(of("$a[*].b:c"), [variable("a[*].b"), text(":c")]);
    assert_eq!(of("$a[x b"), [variable("a[x")]);
    assert_eq!(of("\"$a[x\" b]"), [variable("a[x")]);
    assert_eq!(of("x$a[\"k.v/w\"]"), [text("x"), variable("a[\"k.v/w\"]")]);
    assert_eq!(of("\"$a b\""), [variable("a"), text(" b")]);
    assert_eq!(of("'$a'"), [text("$a")]);
    assert_eq!(of("\\$a"), [text("$a")]);
}

#[test]
fn output_goes_where_it_is_sent() {
    let one = |text: &str| statements(text).unwrap().remove(0);
    let statement = one("v = a b | c d | e >> f");
    assert_eq!(statement.name.as_deref(), Some("v"));
    assert_eq!(statement.words.len(), 2);
    assert_eq!(statement.programs.len(), 2);
    let (file, append) = statement.file.unwrap();
    assert_eq!((file.as_typed().as_str(), append), ("f", true));
    for (text, error) in [
        ("a |", LineError::NoProgram),
        ("a >", LineError::NoFile),
        ("| a", LineError::NoCommand("|")),
        ("> a", LineError::NoCommand(">")),
        ("a > b c", LineError::AfterFile("c".to_owned())),
        ("a > b > c", LineError::AfterFile(">".to_owned())),
        ("a | b >> c > d", LineError::AfterFile(">".to_owned())),
        ("a =", LineError::NoValue("a".to_owned())),
        ("a 'b", LineError::Quote('\'')),
    ] {
        assert_eq!(statements(text), Err(error), "{text}");
    }
}

#[test]
fn signs_that_only_other_shells_know_are_no_words() {
    for (text, sign) in [
        ("a && b", Foreign::AND),
        ("a &&b", Foreign::AND),
        ("a&& b", Foreign::AND),
        ("a&&b", Foreign::AND),
        ("a || b", Foreign::OR),
        ("a &", Foreign::BACKGROUND),
        ("a&", Foreign::BACKGROUND),
        ("a x=1&y=2", Foreign::BACKGROUND),
        ("& a", Foreign::BACKGROUND),
        ("a 2> b", Foreign::DESCRIPTOR),
        ("a b 2>b", Foreign::DESCRIPTOR),
        ("a 2>&1", Foreign::DESCRIPTOR),
        ("a >& b", Foreign::DESCRIPTOR),
        ("a &> b", Foreign::DESCRIPTOR),
        ("a |& b", Foreign::DESCRIPTOR),
        ("a | b 2>/dev/null", Foreign::DESCRIPTOR),
        ("a < b", Foreign::INPUT),
        ("a <b", Foreign::INPUT),
        ("a b<c", Foreign::INPUT),
        ("a $(b)", Foreign::SUBSTITUTION),
        ("a x$(b)", Foreign::SUBSTITUTION),
        ("a `b`", Foreign::SUBSTITUTION),
        ("a ${b", Foreign::BRACES),
        ("a ${b:-${c}}", Foreign::BRACES),
        ("a $# b", Foreign::SPECIAL),
        ("a x$?", Foreign::SPECIAL),
        ("v = a && b", Foreign::AND),
        ("a; b && c", Foreign::AND),
    ] {
        let error = statements(text).unwrap_err();
        assert_eq!(error, LineError::Foreign(sign), "{text}");
        assert!(error.to_string().contains("quoted it is text"), "{error}");
    }
    for (text, expected) in [
        ("a '&&' \"<\" '2>' \\&", vec!["a", "&&", "<", "2>", "&"]),
        ("a 'x=1&y=2' a$ $", vec!["a", "x=1&y=2", "a$", "$"]),
        (
            "a '$(b)' '`b`' \"`b`\" \\$(b",
            vec!["a", "$(b)", "`b`", "`b`", "$(b"],
        ),
        ("assert 1 < 2", vec!["assert", "1", "<", "2"]),
        (
            "expect LOCAL assert 1 > 2",
            vec!["expect", "LOCAL", "assert", "1", ">", "2"],
        ),
        (
            "defer assert 1 >= 2",
            vec!["defer", "assert", "1", ">=", "2"],
        ),
        ("a b2", vec!["a", "b2"]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
    let statement = statements("a b2> c").unwrap().remove(0);
    assert_eq!(statement.file.unwrap().0.as_typed(), "c");
}

#[test]
fn a_command_is_known_as_it_was_typed() {
    for (text, source) in [
        ("a  'b c' | d > e", "a  'b c'"),
        ("x = a ${b:-c}; d", "a ${b:-c}"),
        ("\\! ls", "\\! ls"),
    ] {
        assert_eq!(statements(text).unwrap()[0].source, source, "{text}");
    }
}

#[test]
fn a_semicolon_and_a_backslash_are_known() {
    let quiet = |text: &str| {
        let all = statements(text).unwrap().into_iter();
        let quiet = all.map(|one| one.is_quiet);
        quiet.collect::<Vec<bool>>()
    };
    assert_eq!(quiet("a; b"), [false, false]);
    assert_eq!(quiet("a; b;\nc"), [false, true, false]);
    assert_eq!(quiet("a;\n"), [true]);
    assert_eq!(quiet("a\nb ; # c"), [false, true]);
    assert_eq!(quiet("'a;' \\;"), [false]);
    for (text, expected) in [
        ("\\q", true),
        ("a; \\?", true),
        (" \\! ls", true),
        ("\\'q", false),
        ("a \\q", false),
        ("'\\q'", false),
        ("q", false),
    ] {
        let last = statements(text).unwrap().pop().unwrap();
        assert_eq!(last.is_psql, expected, "{text}");
    }
    let named = Err(LineError::NamedPsql("v".to_owned()));
    assert_eq!(statements("a; v = \\d"), named);
    assert!(statements("v = '\\d'").is_ok());
}

#[test]
fn an_open_quote_or_a_backslash_goes_on() {
    for (text, expected, ends_it, does_not) in [
        ("'a", Open::Single, "b'", "b\""),
        ("\"a", Open::Double, "b\"", "it's"),
        ("a 'b\nc", Open::Single, "'", ""),
    ] {
        let found = open(text).unwrap();
        assert_eq!(found, expected, "{text}");
        assert!(
            found.may_end_in(ends_it) && !found.may_end_in(does_not),
            "{text}"
        );
    }
    let backslash = open("a \\").unwrap();
    assert!(backslash == Open::Backslash && backslash.may_end_in(""));
    for text in ["a", "'a'", "# it's", "a\\\\"] {
        assert_eq!(open(text), None, "{text}");
    }
}

#[test]
fn a_word_that_would_mean_more_is_quoted() {
    for text in ["=", "#", "!", "&", "a&b", "<", "2>", "`", "$(a)", "", "a b"] {
        assert_eq!(words(&format!("x {}", quoted(text))), ["x", text]);
    }
}

proptest! {
    #[test]
    fn a_quoted_text_is_one_word(text in ".*", id in "[a-z#:/ '\"$;|>&<`\\\\]{1,12}") {
        for text in [text, id] {
            prop_assert_eq!(words(&format!("x {}", quoted(&text))), ["x".to_owned(), text]);
        }
    }

    #[test]
    fn nothing_panics(text in ".*", near in "[a$\\[\\].{}\"'\\\\ >|;=#0]{0,16}") {
        let _ = (statements(&text), statements(&near));
    }
}
