//! The syntax of a typed line: words, quotes, comments, `;`, `|`, `>` and the places of variables. Nothing is looked up
//! or run here.
//!
//! Quotes are a POSIX shell's: `'…'` takes everything as it is, `"…"` expands variables and knows `\"`, `\\` and `\$`, a
//! backslash outside takes the next character as it is. There are no globs and no commands inside words. Signs that only
//! other shells know are errors.
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
    /// Its end.
    pub end: usize,
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
    pub(crate) fn as_typed(&self) -> String {
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
    /// A sign that a shell knows and this one does not.
    Foreign(Foreign),
}

impl Token {
    /// Whether it ends a command.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::End(_))
    }
}

/// A sign that sh has and this shell has not. It is an error, because as a word it would name a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    sign: &'static str,
    /// What to write.
    instead: &'static str,
}

impl Foreign {
    const AND: Self = Self {
        sign: "&&",
        instead: "; separates commands, and a script stops at its first failure",
    };
    const OR: Self = Self {
        sign: "||",
        instead: "expect CODE COMMAND demands a failure, --keep-going goes on after one",
    };
    const BACKGROUND: Self = Self {
        sign: "&",
        instead: "one command runs after the other; Ctrl-Z leaves the shell",
    };
    const DESCRIPTOR: Self = Self {
        sign: "2>, >& or |&",
        instead: "> FILE and | PROGRAM take what a command prints; errors go where those of the shell go",
    };
    const INPUT: Self = Self {
        sign: "<",
        instead: "flags such as --request and --secrets-file name the files that are read",
    };
    const SUBSTITUTION: Self = Self {
        sign: "$( ) or ` `",
        instead: "NAME = COMMAND keeps a reply, and $NAME.field is a part of it",
    };
    const BRACES: Self = Self {
        sign: "${ } without its end, or inside of another",
        instead: "there are ${NAME} and ${NAME:-TEXT}",
    };
    const SPECIAL: Self = Self {
        sign: "$#, $@, $*, $?, $$, $! or $-",
        instead: "a script has its arguments in $1, $2 …, and expect CODE COMMAND looks at an exit code",
    };

    /// What follows a `$` that is not quoted, where only sh knows it.
    fn variable(rest: &str) -> Option<Self> {
        if let Some(inner) = rest.strip_prefix('{') {
            let inside = inner.split_once('}').map(|(inside, _)| inside);
            let is_variable = inside.is_some_and(|inside| !inside.contains("${"));
            return (!is_variable).then_some(Self::BRACES);
        }
        match rest.chars().next()? {
            '(' => Some(Self::SUBSTITUTION),
            '#' | '@' | '*' | '?' | '$' | '!' | '-' => Some(Self::SPECIAL),
            _ => None,
        }
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

impl Open {
    /// Whether it may end in the next line: a quote does so at its sign alone.
    pub fn may_end_in(self, line: &str) -> bool {
        match self {
            Self::Single => line.contains('\''),
            Self::Double => line.contains('"'),
            Self::Backslash => true,
        }
    }
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
    /// A sign of sh.
    #[error("there is no {} here: {}; quoted it is text", .0.sign, .0.instead)]
    Foreign(Foreign),
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
    /// The command as it was typed.
    pub source: String,
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
    pub(crate) fn has_no_target(&self) -> bool {
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
        if let Some(word) = &mut word {
            word.end = position;
        }
        match letter {
            '<' | '>' if compares(&lexed.tokens) => {
                word.get_or_insert_with(|| at(position)).push(letter);
            }
            '<' => lexed.tokens.push(Token::Foreign(Foreign::INPUT)),
            '&' => {
                let sign = match letters.next_if(|(_, letter)| "&>".contains(*letter)) {
                    Some((_, '&')) => Foreign::AND,
                    Some(_) => Foreign::DESCRIPTOR,
                    None => Foreign::BACKGROUND,
                };
                lexed.tokens.push(Token::Foreign(sign));
            }
            '`' => lexed.tokens.push(Token::Foreign(Foreign::SUBSTITUTION)),
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
                let next = letters.next_if(|(_, letter)| "|&".contains(*letter));
                lexed.tokens.push(match next {
                    Some((_, '|')) => Token::Foreign(Foreign::OR),
                    Some(_) => Token::Foreign(Foreign::DESCRIPTOR),
                    None => Token::Pipe,
                });
            }
            '>' => {
                let is_number = |word: &Word| {
                    let bare = word.bare();
                    bare.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                };
                if word.take_if(|word| is_number(word)).is_some()
                    || letters.peek().is_some_and(|(_, letter)| *letter == '&')
                {
                    lexed.tokens.push(Token::Foreign(Foreign::DESCRIPTOR));
                }
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
                let foreign = Foreign::variable(&text[position + 1..]);
                lexed.tokens.extend(foreign.map(Token::Foreign));
                let word = word.get_or_insert_with(|| at(position));
                variable(text, position, &mut letters, word);
            }
            letter => word.get_or_insert_with(|| at(position)).push(letter),
        }
    }
    if let Some(word) = &mut word {
        word.end = text.len();
    }
    lexed.in_word = word.is_some();
    lexed.tokens.extend(word.map(Token::Word));
    lexed
}

/// Whether the statement at the end of `tokens` is an expression, in which the signs compare: `assert`, also inside of another
/// command.
fn compares(tokens: &[Token]) -> bool {
    let last = tokens.rsplit(Token::is_end).next().unwrap_or_default();
    let words = last.iter().map(|token| match token {
        Token::Word(word) => word.as_typed(),
        _ => String::new(),
    });
    let words: Vec<String> = words.collect();
    innermost(&words)
        .first()
        .is_some_and(|word| word == "assert")
}

/// The command inside those that take a command.
pub fn innermost(mut words: &[String]) -> &[String] {
    loop {
        words = match words {
            [name, sign, rest @ ..] if sign == "=" && is_name(name) && !rest.is_empty() => rest,
            [csi, rest @ ..] if (csi == "csi" || csi == "defer") && !rest.is_empty() => rest,
            [watch, n, _, rest @ ..] if watch == "watch" && n == "-n" && !rest.is_empty() => rest,
            [watch, rest @ ..]
                if watch == "watch" && !rest.is_empty() && !rest[0].starts_with('-') =>
            {
                rest
            }
            [outer, _, rest @ ..]
                if (outer == "repeat" || outer == "expect") && !rest.is_empty() =>
            {
                rest
            }
            words => return words,
        };
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
        } else if rest.starts_with('[') {
            // What is no index in there is an error of whoever looks it up.
            let ends = |c: char| c.is_whitespace() || "]\"'".contains(c);
            length += match rest.find(ends) {
                Some(end) if rest[end..].starts_with(']') => end + 1,
                end => end.unwrap_or(rest.len()),
            };
        } else {
            return length;
        }
    }
}

/// The unfinished construct at the end of `text`, to which another line belongs.
pub fn open(text: &str) -> Option<Open> {
    lex(text).open
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
            let statement = statement(text, tokens)?;
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
pub(crate) fn is_psql(text: &str) -> bool {
    let name = text.strip_prefix('\\');
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || "?!".contains(c)))
}

fn statement(text: &str, tokens: &[Token]) -> Result<Statement, LineError> {
    for token in tokens {
        if let Token::Foreign(sign) = token {
            return Err(LineError::Foreign(*sign));
        }
    }
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
                    match tokens.next() {
                        Some(Token::Word(word)) => {
                            return Err(LineError::AfterFile(word.as_typed()));
                        }
                        Some(Token::Redirect { .. }) => {
                            return Err(LineError::AfterFile(">".to_owned()));
                        }
                        _ => {}
                    }
                    statement.file = Some((file.clone(), *append));
                }
                Token::Pipe | Token::End(_) | Token::Foreign(_) => {}
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
    if let (Some(first), Some(last)) = (statement.words.first(), statement.words.last()) {
        text[first.start..last.end].clone_into(&mut statement.source);
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
    let plain = |c: char| c.is_alphanumeric() || "_-./:,=@+%{}#~^[]()?*!".contains(c);
    // A # begins a comment, and a lone = an assignment, only where a word begins.
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with(['#', '!', '=']) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
