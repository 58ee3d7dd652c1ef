//! The chart's alerts, asked of the text that a driver tells as its metrics. Owns the part of Prometheus' language that the alerts use:
//! selectors with `=` and `=~` of plain words, `sum by`, `increase`, a comparison with a number or a series, `and`, `or`. Anything else
//! panics. Must not know where the texts come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Labels = BTreeMap<String, String>;

/// An alert of the chart.
#[derive(Clone, Debug)]
pub struct Alert {
    pub name: String,
    pub query: String,
    /// How long the query has to find something before somebody is told.
    pub patience: String,
}

/// All alerts of the chart.
pub fn of_the_chart() -> Vec<Alert> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/csi-nfs");
    let rules = fs::read_to_string(chart.join("templates/monitoring.yaml")).unwrap();
    let after = |text: &str, key: &str| {
        let rest = text
            .split_once(key)
            .unwrap_or_else(|| panic!("no {key}: {text}"))
            .1;
        rest.lines().next().unwrap().to_owned()
    };
    let rules = rules.split("- alert: ").skip(1);
    rules
        .map(|rule| Alert {
            name: rule.lines().next().unwrap().to_owned(),
            query: after(rule, " expr: "),
            patience: after(rule, " for: "),
        })
        .collect()
}

/// The names of the alerts whose queries find something in the metrics `now`; `before` is what they were when an `increase` begins.
pub fn found(before: &str, now: &str) -> BTreeSet<String> {
    let finds = |alert: &Alert| !vector(&alert.query, before, now).is_empty();
    let alerts = of_the_chart().into_iter().filter(finds);
    alerts.map(|alert| alert.name).collect()
}

/// What a query finds: series by their labels.
pub fn vector(query: &str, before: &str, now: &str) -> BTreeMap<Labels, f64> {
    let mut reader = Reader {
        query,
        rest: query,
        texts: [before, now],
    };
    let Value::Vector(found) = reader.any() else {
        panic!("no series: {query}");
    };
    assert!(reader.rest.is_empty(), "{:?} of {query}", reader.rest);
    found
}

enum Value {
    Number(f64),
    Vector(BTreeMap<Labels, f64>),
}

impl Value {
    fn series(self) -> BTreeMap<Labels, f64> {
        match self {
            Self::Vector(series) => series,
            Self::Number(number) => panic!("{number} is no series"),
        }
    }
}

/// A query that is read and answered from left to right.
struct Reader<'a> {
    query: &'a str,
    rest: &'a str,
    /// The metrics before and now.
    texts: [&'a str; 2],
}

impl<'a> Reader<'a> {
    fn takes(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        if let Some(rest) = rest {
            self.rest = rest.trim_start();
        }
        rest.is_some()
    }

    fn expect(&mut self, word: &str) {
        assert!(
            self.takes(word),
            "{word:?} at {:?} of {}",
            self.rest,
            self.query
        );
    }

    fn until(&mut self, end: &str) -> &'a str {
        let (text, rest) = self.rest.split_once(end).unwrap();
        self.rest = rest.trim_start();
        text
    }

    /// `or` binds least.
    fn any(&mut self) -> Value {
        let mut value = self.all();
        while self.takes("or ") {
            let mut either = self.all().series();
            either.extend(value.series());
            value = Value::Vector(either);
        }
        value
    }

    fn all(&mut self) -> Value {
        let mut value = self.compared();
        while self.takes("and ") {
            let (mut both, other) = (value.series(), self.compared().series());
            both.retain(|labels, _| other.contains_key(labels));
            value = Value::Vector(both);
        }
        value
    }

    fn compared(&mut self) -> Value {
        let value = self.operand();
        let is_kept: fn(f64, f64) -> bool = if self.takes("==") {
            |left, right| (left - right).abs() < f64::EPSILON
        } else if self.takes(">") {
            |left, right| left > right
        } else if self.takes("<") {
            |left, right| left < right
        } else {
            return value;
        };
        let (mut left, right) = (value.series(), self.operand());
        left.retain(|labels, value| match &right {
            Value::Number(number) => is_kept(*value, *number),
            Value::Vector(series) => series
                .get(labels)
                .is_some_and(|other| is_kept(*value, *other)),
        });
        Value::Vector(left)
    }

    fn operand(&mut self) -> Value {
        if self.takes("(") {
            let inside = self.any();
            self.expect(")");
            return inside;
        }
        if self.takes("sum by (") {
            let by: Vec<&str> = self.until(")").split(", ").collect();
            self.expect("(");
            let mut sums = BTreeMap::new();
            for (mut labels, value) in self.any().series() {
                labels.retain(|name, _| by.contains(&name.as_str()));
                *sums.entry(labels).or_insert(0.0) += value;
            }
            self.expect(")");
            return Value::Vector(sums);
        }
        if self.takes("increase(") {
            let [before, now] = self.texts;
            let selector = self.until("[");
            self.until("])");
            let mut grown = selected(selector, now);
            let before = selected(selector, before);
            for (labels, value) in &mut grown {
                *value -= before.get(labels).copied().unwrap_or(0.0);
            }
            return Value::Vector(grown);
        }
        let word = self.rest.split([' ', ')']).next().unwrap();
        self.expect(word);
        match word.parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Vector(selected(word, self.texts[1])),
        }
    }
}

/// The series of a text of metrics that a selector names.
fn selected(selector: &str, text: &str) -> BTreeMap<Labels, f64> {
    let (name, wanted) = selector.split_once('{').unwrap_or((selector, ""));
    let wanted = labels(wanted.trim_end_matches('}'));
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (of, own) = series.split_once('{').unwrap_or((series, ""));
        let own = labels(own.trim_end_matches('}'));
        let fits = wanted
            .iter()
            .all(|(label, values)| match label.strip_suffix('~') {
                Some(label) => values
                    .split('|')
                    .any(|value| own.get(label).is_some_and(|own| own == value)),
                None => own.get(label) == Some(values),
            });
        if of == name && fits {
            found.insert(own, value.parse().unwrap());
        }
    }
    found
}

/// `a="b",c=~"d"`, as `a` and `c~`. No value has a comma or a quote.
fn labels(text: &str) -> Labels {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            let (name, value) = match value.strip_prefix('~') {
                Some(value) => (format!("{name}~"), value),
                None => (name.to_owned(), value),
            };
            (name, value.trim_matches('"').to_owned())
        })
        .collect()
}
