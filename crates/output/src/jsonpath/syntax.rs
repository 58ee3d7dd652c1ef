//! How an expression is written: RFC 9535, and what kubectl writes besides.
//!
//! Owns the grammar alone. Of kubectl: the root may be left out, a name without quotes may have any letter but those that end
//! it, and a backslash takes the next letter as it is, as in `.labels.app\.kubernetes\.io/name`. Where the two differ, the
//! RFC counts: a quoted name is one name, with its dots.

use super::query::{Operand, Operator, Origin, Query, Segment, Selector, Slice, Test};
use serde_json::Value as Json;

/// What ends a name without quotes.
const ENDS: &str = ".,[](){}$@'\"*?:<>=!&|";

/// How deep filters and functions may stand in each other. Each is a call here and wherever an expression is used.
const DEEPEST: usize = 64;

/// The functions that there are.
const FUNCTIONS: &str = "length(), count() and value()";

/// The expression that `text` says.
pub fn parse(text: &str) -> Result<Query, String> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    parser.blank();
    let mut query = match parser.rest() {
        "." => return Ok(origin(Origin::Current)),
        rest if rest.starts_with(['$', '@']) => parser.query()?,
        // kubectl leaves the root out, and the first dot too.
        rest => {
            let mut query = origin(Origin::Current);
            if !rest.starts_with(['.', '[']) {
                query.segments.push(parser.named(false)?);
            }
            query
        }
    };
    query.segments.extend(parser.segments()?);
    parser.blank();
    match parser.rest() {
        "" => Ok(query),
        rest => Err(format!("{rest:?} is more than an expression")),
    }
}

fn origin(from: Origin) -> Query {
    Query {
        from,
        segments: Vec::new(),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// How many filters and functions are open.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    fn blank(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Takes `sign`, where it stands there.
    fn takes(&mut self, sign: &str) -> bool {
        let is_there = self.rest().starts_with(sign);
        if is_there {
            self.at += sign.len();
        }
        is_there
    }

    fn wants(&mut self, sign: &str, after: &str) -> Result<(), String> {
        self.blank();
        match self.takes(sign) {
            true => Ok(()),
            false => Err(format!("{sign:?} is missing {after}, {}", self.here())),
        }
    }

    /// Where it stands, for an error.
    fn here(&self) -> String {
        match self.rest() {
            "" => "at the end".to_owned(),
            rest => format!("before {rest:?}"),
        }
    }

    /// An expression with its root.
    fn query(&mut self) -> Result<Query, String> {
        let from = match self.next() {
            Some('$') => Origin::Root,
            _ => Origin::Current,
        };
        let segments = self.segments()?;
        Ok(Query { from, segments })
    }

    fn segments(&mut self) -> Result<Vec<Segment>, String> {
        let mut segments = Vec::new();
        loop {
            let before = self.at;
            self.blank();
            segments.push(if self.takes("[") {
                self.bracketed(false)?
            } else if self.takes("..") {
                match self.takes("[") {
                    true => self.bracketed(true)?,
                    false => self.named(true)?,
                }
            } else if self.takes(".") {
                // kubectl's `.[0]`.
                match self.takes("[") {
                    true => self.bracketed(false)?,
                    false => self.named(false)?,
                }
            } else {
                self.at = before;
                return Ok(segments);
            });
        }
    }

    /// A name without quotes, or `*`.
    fn named(&mut self, is_deep: bool) -> Result<Segment, String> {
        if self.takes("*") {
            return Ok(segment(is_deep, Selector::All));
        }
        let mut typed = String::new();
        while let Some(letter) = self.peek() {
            if letter.is_whitespace() || ENDS.contains(letter) {
                break;
            }
            self.next();
            // A backslash alone ends nothing.
            typed.push(match letter {
                '\\' => self.next().unwrap_or(letter),
                letter => letter,
            });
        }
        if typed.is_empty() {
            return Err(format!("a name is missing {}", self.here()));
        }
        Ok(segment(is_deep, Selector::Name(typed)))
    }

    fn bracketed(&mut self, is_deep: bool) -> Result<Segment, String> {
        let mut selectors = Vec::new();
        loop {
            self.blank();
            selectors.push(self.selector()?);
            self.blank();
            if !self.takes(",") {
                self.wants("]", "behind a selector")?;
                return Ok(Segment { is_deep, selectors });
            }
        }
    }

    fn selector(&mut self) -> Result<Selector, String> {
        match self.peek() {
            Some('\'' | '"') => Ok(Selector::Name(self.quoted()?)),
            Some('*') => {
                self.next();
                Ok(Selector::All)
            }
            Some('?') => {
                self.next();
                Ok(Selector::Filter(self.any()?))
            }
            Some(':' | '-' | '0'..='9') => self.index_or_slice(),
            _ => Err(format!(
                "a selector is missing {}: 'name' in quotes, an index, *, or ?(…)",
                self.here()
            )),
        }
    }

    fn index_or_slice(&mut self) -> Result<Selector, String> {
        let start = self.integer()?;
        self.blank();
        if !self.takes(":") {
            return match start {
                Some(index) => Ok(Selector::Index(index)),
                None => Err(format!("an index is missing {}", self.here())),
            };
        }
        self.blank();
        let end = self.integer()?;
        self.blank();
        let mut step = None;
        if self.takes(":") {
            self.blank();
            step = self.integer()?;
        }
        Ok(Selector::Slice(Slice {
            start,
            end,
            step: step.unwrap_or(1),
        }))
    }

    fn integer(&mut self) -> Result<Option<i64>, String> {
        let digits = self.taken_while(|letter| letter == '-' || letter.is_ascii_digit());
        match digits {
            "" => Ok(None),
            digits => match digits.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("{digits} is no index")),
            },
        }
    }

    fn taken_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|letter| !fits(letter)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A text in quotes of either kind.
    fn quoted(&mut self) -> Result<String, String> {
        let from = self.at;
        let quote = self.next();
        loop {
            match self.next() {
                Some('\\') => drop(self.next()),
                None => return Err(format!("the quote of {:?} is open", &self.text[from..])),
                letter if letter == quote => break,
                _ => {}
            }
        }
        unquoted(&self.text[from..self.at])
            .ok_or_else(|| format!("{} is no text", &self.text[from..self.at]))
    }

    fn any(&mut self) -> Result<Test, String> {
        let mut tests = vec![self.all()?];
        while self.joined("||") {
            tests.push(self.all()?);
        }
        Ok(one_or(tests, Test::Any))
    }

    fn all(&mut self) -> Result<Test, String> {
        let mut tests = vec![self.test()?];
        while self.joined("&&") {
            tests.push(self.test()?);
        }
        Ok(one_or(tests, Test::All))
    }

    fn joined(&mut self, sign: &str) -> bool {
        self.blank();
        self.takes(sign)
    }

    /// What `read` reads, one level further in.
    fn deeper<T>(&mut self, read: fn(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == DEEPEST {
            return Err(format!("more than {DEEPEST} filters stand in each other"));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn test(&mut self) -> Result<Test, String> {
        self.deeper(Self::test_here)
    }

    fn test_here(&mut self) -> Result<Test, String> {
        self.blank();
        if self.takes("!") {
            return Ok(Test::Not(Box::new(self.test()?)));
        }
        if self.takes("(") {
            let test = self.any()?;
            self.wants(")", "behind a filter")?;
            return Ok(test);
        }
        let left = self.operand()?;
        self.blank();
        let Some(operator) = self.operator() else {
            return match left {
                Operand::Query(query) => Ok(Test::Exists(query)),
                _ => Err(format!("a comparison is missing {}", self.here())),
            };
        };
        self.blank();
        let right = self.operand()?;
        for operand in [&left, &right] {
            if matches!(operand, Operand::Query(query) if !query.is_singular()) {
                let problem =
                    "a comparison is of one value, and an expression in it may find several";
                return Err(problem.to_owned());
            }
        }
        Ok(Test::Compare(left, operator, right))
    }

    fn operator(&mut self) -> Option<Operator> {
        // The longer ones first.
        let signs = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::AtMost),
            (">=", Operator::AtLeast),
            ("<", Operator::Less),
            (">", Operator::More),
        ];
        signs
            .into_iter()
            .find_map(|(sign, operator)| self.takes(sign).then_some(operator))
    }

    fn operand(&mut self) -> Result<Operand, String> {
        match self.peek() {
            Some('$' | '@') => return self.query().map(Operand::Query),
            Some('\'' | '"') => return Ok(Operand::Literal(Json::String(self.quoted()?))),
            _ => {}
        }
        let here = self.here();
        let word =
            self.taken_while(|letter| letter.is_ascii_alphanumeric() || "+-._".contains(letter));
        if self.takes("(") {
            return self.function(word);
        }
        let value = serde_json::from_str(word).ok().map(Operand::Literal);
        value.ok_or_else(|| format!("a value is missing {here}: @.name, \"text\" or a number"))
    }

    fn function(&mut self, name: &str) -> Result<Operand, String> {
        if !matches!(name, "length" | "count" | "value") {
            return Err(format!("there is no function {name}(), only {FUNCTIONS}"));
        }
        self.blank();
        let argument = self.deeper(Self::operand)?;
        self.wants(")", "behind the argument of a function")?;
        match (name, argument) {
            ("count", Operand::Query(query)) => Ok(Operand::Count(query)),
            ("value", Operand::Query(query)) => Ok(Operand::Value(query)),
            ("length", Operand::Query(query)) if !query.is_singular() => {
                Err("length() is of one value: count() counts several".to_owned())
            }
            ("length", argument) => Ok(Operand::Length(Box::new(argument))),
            (name, _) => Err(format!("{name}() takes an expression")),
        }
    }
}

fn segment(is_deep: bool, selector: Selector) -> Segment {
    Segment {
        is_deep,
        selectors: vec![selector],
    }
}

fn one_or(mut tests: Vec<Test>, several: fn(Vec<Test>) -> Test) -> Test {
    match tests.len() {
        1 => tests.remove(0),
        _ => several(tests),
    }
}

/// A text in either kind of quotes, with JSON's escapes.
pub(super) fn unquoted(text: &str) -> Option<String> {
    let json = match text.strip_prefix('\'') {
        Some(rest) => {
            let inner = rest.strip_suffix('\'')?;
            let mut json = String::with_capacity(text.len());
            let mut letters = inner.chars();
            while let Some(letter) = letters.next() {
                match (letter, letters.as_str().chars().next()) {
                    ('"', _) => json.push_str("\\\""),
                    // kubectl escapes dots in quotes too.
                    ('\\', Some('\'' | '.')) => {}
                    ('\\', Some(next)) => {
                        json.extend([letter, next]);
                        letters.next();
                    }
                    _ => json.push(letter),
                }
            }
            json
        }
        None => text.strip_prefix('"')?.strip_suffix('"')?.to_owned(),
    };
    serde_json::from_str(&format!("\"{json}\"")).ok()
}
