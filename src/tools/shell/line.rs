//! The syntax of a typed line: words, quotes, comments, `;`, `|`, `>` and the places of variables. Nothing is looked up
//! or run here.
//!
//! Quotes are a POSIX shell's: `'…'` takes everything as it is, `"…"` expands variables and knows `\"`, `\\` and `\$`, a
//! backslash outside takes the next character as it is. There are no globs and no commands inside words.
//!
//! Our own, because shlex knows no variables, no pipes, and no place of a word that is still being typed.

use thiserror::Error;

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordPiece {
    /// Text as it is.
    Text(String),
    /// `$path` or `${path}`, without the `$`.
    Variable(String),
}

/// A word as it was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The parts of the word; an empty quoted word has none.
    pub pieces: Vec<WordPiece>,
    /// The start of the word in the text, in bytes.
    pub start: usize,
    /// Whether any of it was quoted or escaped.
    pub quoted: bool,
}

impl Word {
    /// The word, when it has neither quotes nor variables: only such a word can be a keyword.
    pub fn bare(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [WordPiece::Text(text)] if !self.quoted => Some(text),
            _ => None,
        }
    }

    /// The word with its variables as they were typed.
    pub fn as_typed(&self) -> String {
        let mut typed = String::new();
        for piece in &self.pieces {
            match piece {
                WordPiece::Text(text) => typed.push_str(text),
                WordPiece::Variable(path) => {
                    typed.push('$');
                    typed.push_str(path);
                }
            }
        }
        typed
    }

    fn push(&mut self, letter: char) {
        match self.pieces.last_mut() {
            Some(WordPiece::Text(text)) => text.push(letter),
            _ => self.pieces.push(WordPiece::Text(letter.to_string())),
        }
    }
}

/// A token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word.
    Word(Word),
    /// `|`.
    Pipe,
    /// `>`, or `>>` when it appends.
    Redirect {
        /// Whether the file is kept.
        append: bool,
    },
    /// The `;` or the end of the line that ends a command.
    End(char),
}

impl Token {
    /// Whether it ends a command.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::End(_))
    }
}

/// The unfinished construct at the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// A `'` without its partner.
    Single,
    /// A `"` without its partner.
    Double,
    /// A backslash at the very end.
    Backslash,
}

/// A text in its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lexed {
    /// The parts in order.
    pub tokens: Vec<Token>,
    /// Why more must follow.
    pub open: Option<Open>,
    /// Whether the text ends inside a word, to which the next letter would belong.
    pub in_word: bool,
    /// Whether the text ends inside a comment.
    pub in_comment: bool,
}

/// A line that is not one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LineError {
    /// A quote that is never closed.
    #[error("the quote {0} is not closed")]
    Quote(char),
    /// `| |`, or `|` at an end.
    #[error("a program is missing after |, as in: controller list-volumes -o json | jq .")]
    NoProgram,
    /// `>` without a name.
    #[error("a file is missing after >")]
    NoFile,
    /// Something after `> FILE`.
    #[error("{0:?} follows the file of >; write > FILE at the end")]
    AfterFile(String),
    /// `| PROGRAM` without a command.
    #[error("a command is missing before {0}")]
    NoCommand(&'static str),
    /// `name =` and nothing else.
    #[error("a command or a value is missing after {0} =")]
    NoValue(String),
    /// `name = \d`.
    #[error(
        "a command of psql stands alone: {0} = COMMAND keeps the reply of another command, such as controller list-volumes"
    )]
    NamedPsql(String),
}

/// One command and the place that its output goes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// The variable that gets the reply.
    pub name: Option<String>,
    /// The command; empty only where nothing was typed.
    pub words: Vec<Word>,
    /// Programs that read its output, one after the other.
    pub programs: Vec<Vec<Word>>,
    /// The file that gets the output, and whether it is kept.
    pub file: Option<(Word, bool)>,
    /// Whether a `;` ends it with its line: then what it assigns is not shown.
    pub is_quiet: bool,
    /// Whether it begins with a backslash, as psql's own commands do.
    pub is_psql: bool,
}

impl Statement {
    /// Whether its output goes where all output goes.
    pub fn has_no_target(&self) -> bool {
        self.programs.is_empty() && self.file.is_none()
    }
}

/// Splits `text` into its parts.
pub fn lex(text: &str) -> Lexed {
    let mut lexed = Lexed::default();
    let mut word: Option<Word> = None;
    let mut letters = text.char_indices().peekable();
    let at = |start| Word {
        start,
        ..Word::default()
    };
    while let Some((position, letter)) = letters.next() {
        lexed.in_comment = false;
        // In an expression the signs compare.
        let compares = first_word(&lexed.tokens).is_some_and(|word| word == "assert");
        match letter {
            '\n' | ';' => {
                lexed.tokens.extend(word.take().map(Token::Word));
                lexed.tokens.push(Token::End(letter));
            }
            letter if letter.is_whitespace() => {
                lexed.tokens.extend(word.take().map(Token::Word));
            }
            '#' if word.is_none() => {
                lexed.in_comment = true;
                while letters.next_if(|(_, letter)| *letter != '\n').is_some() {}
            }
            '|' => {
                lexed.tokens.extend(word.take().map(Token::Word));
                lexed.tokens.push(Token::Pipe);
            }
            '>' if !compares => {
                lexed.tokens.extend(word.take().map(Token::Word));
                let append = letters.next_if(|(_, letter)| *letter == '>').is_some();
                lexed.tokens.push(Token::Redirect { append });
            }
            '\\' => match letters.next() {
                None => {
                    lexed.open = Some(Open::Backslash);
                    break;
                }
                // The line goes on.
                Some((_, '\n')) => {}
                Some((_, next)) => {
                    let word = word.get_or_insert_with(|| at(position));
                    word.quoted = true;
                    word.push(next);
                }
            },
            '\'' => {
                let word = word.get_or_insert_with(|| at(position));
                word.quoted = true;
                loop {
                    match letters.next() {
                        None => {
                            lexed.open = Some(Open::Single);
                            break;
                        }
                        Some((_, '\'')) => break,
                        Some((_, letter)) => word.push(letter),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_with(|| at(position));
                word.quoted = true;
                loop {
                    match letters.next() {
                        None => {
                            lexed.open = Some(Open::Double);
                            break;
                        }
                        Some((_, '"')) => break,
                        Some((_, '\\')) => match letters.next() {
                            Some((_, '\n')) => {}
                            Some((_, letter @ ('"' | '\\' | '$'))) => word.push(letter),
                            Some((_, letter)) => {
                                word.push('\\');
                                word.push(letter);
                            }
                            None => word.push('\\'),
                        },
                        Some((position, '$')) => variable(text, position, &mut letters, word),
                        Some((_, letter)) => word.push(letter),
                    }
                }
            }
            '$' => {
                let word = word.get_or_insert_with(|| at(position));
                variable(text, position, &mut letters, word);
            }
            letter => word.get_or_insert_with(|| at(position)).push(letter),
        }
    }
    lexed.in_word = word.is_some();
    lexed.tokens.extend(word.map(Token::Word));
    lexed
}

/// The word with which the statement at the end of `tokens` begins.
fn first_word(tokens: &[Token]) -> Option<&str> {
    let last = tokens.rsplit(Token::is_end).next()?;
    match last.first()? {
        Token::Word(word) => word.bare(),
        _ => None,
    }
}

type Letters<'a> = std::iter::Peekable<std::str::CharIndices<'a>>;

/// Takes the variable whose `$` stands at `dollar`; a `$` before anything else is itself.
fn variable(text: &str, dollar: usize, letters: &mut Letters<'_>, word: &mut Word) {
    let rest = &text[dollar + 1..];
    let (path, length) = match rest.strip_prefix('{') {
        Some(inner) => match inner.find('}') {
            Some(end) => (&inner[..end], end + 2),
            None => ("", 0),
        },
        None => {
            let length = path_length(rest);
            (&rest[..length], length)
        }
    };
    if length == 0 {
        return word.push('$');
    }
    word.pieces.push(WordPiece::Variable(path.to_owned()));
    let end = dollar + 1 + length;
    while letters.next_if(|(position, _)| *position < end).is_some() {}
}

/// The length of the path at the start of `text`: `name`, then any number of `.name`, `[0]` or `["key"]`.
fn path_length(text: &str) -> usize {
    let name = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        end.unwrap_or(text.len())
    };
    let mut length = name(text);
    if length == 0 {
        return 0;
    }
    loop {
        let rest = &text[length..];
        if let Some(after) = rest.strip_prefix('.')
            && name(after) > 0
        {
            length += 1 + name(after);
        } else if let Some(inner) = rest.strip_prefix("[\"")
            && let Some(end) = inner.find("\"]")
        {
            length += end + 4;
        } else if let Some(inner) = rest.strip_prefix('[')
            && let Some(end) = inner.find(']')
            && end > 0
            && inner[..end].bytes().all(|byte| byte.is_ascii_digit())
        {
            length += end + 2;
        } else {
            return length;
        }
    }
}

/// Whether another line belongs to `text`.
pub fn goes_on(text: &str) -> bool {
    lex(text).open.is_some()
}

/// The statements of `text`, in order.
///
/// # Errors
/// When quotes or signs do not fit.
pub fn statements(text: &str) -> Result<Vec<Statement>, LineError> {
    let lexed = lex(text);
    match lexed.open {
        Some(Open::Single) => return Err(LineError::Quote('\'')),
        Some(Open::Double) => return Err(LineError::Quote('"')),
        Some(Open::Backslash) | None => {}
    }
    let mut found = Vec::new();
    let mut parts = lexed.tokens.split_inclusive(Token::is_end).peekable();
    while let Some(part) = parts.next() {
        let (tokens, end) = match part.split_last() {
            Some((Token::End(end), tokens)) => (tokens, Some(*end)),
            _ => (part, None),
        };
        if let Some(first) = tokens.first() {
            let ends_line = matches!(parts.peek(), None | Some([Token::End('\n')]));
            let is_psql = |word: &Word| is_psql(&text[word.start..]);
            let statement = statement(tokens)?;
            if let (Some(name), Some(word)) = (&statement.name, statement.words.first())
                && is_psql(word)
            {
                return Err(LineError::NamedPsql(name.clone()));
            }
            found.push(Statement {
                is_quiet: end == Some(';') && ends_line,
                is_psql: matches!(first, Token::Word(word) if is_psql(word)),
                ..statement
            });
        }
    }
    Ok(found)
}

/// Whether a text begins as a command of psql: no letter has to be escaped where a command begins.
pub fn is_psql(text: &str) -> bool {
    let name = text.strip_prefix('\\');
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || "?!".contains(c)))
}

fn statement(tokens: &[Token]) -> Result<Statement, LineError> {
    let mut statement = Statement::default();
    let mut parts = tokens.split(|token| *token == Token::Pipe);
    let mut commands = Vec::new();
    for part in &mut parts {
        let mut words = Vec::new();
        let mut tokens = part.iter();
        while let Some(token) = tokens.next() {
            match token {
                Token::Word(word) => words.push(word.clone()),
                Token::Redirect { append } => {
                    let Some(Token::Word(file)) = tokens.next() else {
                        return Err(LineError::NoFile);
                    };
                    if let Some(Token::Word(word)) = tokens.next() {
                        return Err(LineError::AfterFile(word.as_typed()));
                    }
                    statement.file = Some((file.clone(), *append));
                }
                Token::Pipe | Token::End(_) => {}
            }
        }
        commands.push(words);
    }
    let mut commands = commands.into_iter();
    statement.words = commands.next().unwrap_or_default();
    statement.programs = commands.collect();
    if statement.programs.iter().any(Vec::is_empty) {
        return Err(LineError::NoProgram);
    }
    if let [name, sign, ..] = statement.words.as_slice()
        && sign.bare() == Some("=")
        && let Some(name) = name.bare().filter(|name| is_name(name))
    {
        statement.name = Some(name.to_owned());
        statement.words.drain(..2);
    }
    match &statement.name {
        _ if !statement.words.is_empty() => Ok(statement),
        Some(name) => Err(LineError::NoValue(name.clone())),
        None if statement.programs.is_empty() => Err(LineError::NoCommand(">")),
        None => Err(LineError::NoCommand("|")),
    }
}

/// Whether `text` can name a variable.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && path_length(text) == text.len()
        && !text.contains(['.', '['])
}

/// `text` as a word that means exactly it.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:,=@+%{}#~^[]()?*!&".contains(c);
    // A # begins a comment, and a lone = an assignment, only where a word begins.
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with(['#', '!', '=']) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
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
            ("a =", LineError::NoValue("a".to_owned())),
            ("a 'b", LineError::Quote('\'')),
        ] {
            assert_eq!(statements(text), Err(error), "{text}");
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
        for text in ["'a", "\"a", "a \\", "a 'b\nc"] {
            assert!(goes_on(text), "{text}");
        }
        for text in ["a", "'a'", "# it's", "a\\\\"] {
            assert!(!goes_on(text), "{text}");
        }
    }

    #[test]
    fn a_word_that_would_mean_more_is_quoted() {
        for text in ["=", "#", "!", "", "a b"] {
            assert_eq!(words(&format!("x {}", quoted(text))), ["x", text]);
        }
    }

    proptest! {
        #[test]
        fn a_quoted_text_is_one_word(text in ".*", id in "[a-z#:/ '\"$;|>\\\\]{1,12}") {
            for text in [text, id] {
                prop_assert_eq!(words(&format!("x {}", quoted(&text))), ["x".to_owned(), text]);
            }
        }

        #[test]
        fn nothing_panics(text in ".*", near in "[a$\\[\\].{}\"'\\\\ >|;=#0]{0,16}") {
            let _ = (statements(&text), statements(&near));
        }
    }
}
