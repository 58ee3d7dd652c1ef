//! Names that drivers choose (ids, page tokens, values of contexts): the recorded driver's, and those that replace them
//! now.
//!
//! Learned from replies, used for what is sent and compared later. Must not know messages.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// The least length of an id that is looked for inside of other text, such as a path. Shorter ones occur by chance.
const ID_MIN: usize = 8;

/// The names that were learned so far.
#[derive(Debug, Default)]
pub struct Names {
    /// Ids of volumes, snapshots, groups and nodes. None is empty.
    ids: BTreeMap<String, String>,
    tokens: BTreeMap<String, String>,
    /// By the map and the key in which a value stands.
    contexts: HashMap<(String, String), BTreeMap<String, String>>,
    folders: Vec<(String, String)>,
}

/// The kind of field that a text stands in, which decides what kind of name it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamePlace<'a> {
    /// A field that holds an id.
    Id,
    /// A field that holds the token of a page.
    Token,
    /// A value of a map, under a key.
    Context(&'a str, &'a str),
    /// A path on the node.
    Path,
    /// Anything else.
    Other,
}

impl Names {
    /// Nothing learned yet, and paths below the first of each pair standing for the second.
    pub fn new(folders: Vec<(String, String)>) -> Self {
        Self {
            folders,
            ..Self::default()
        }
    }

    /// The number of values that were taken over.
    pub fn count(&self) -> usize {
        let contexts: usize = self.contexts.values().map(BTreeMap::len).sum();
        self.ids.len() + self.tokens.len() + contexts
    }

    /// The new driver's name for a name of the recorded driver.
    pub(crate) fn translate(&self, place: NamePlace<'_>, old: &str) -> String {
        let known = match place {
            NamePlace::Id => self.ids.get(old),
            NamePlace::Token => self.tokens.get(old),
            NamePlace::Context(map, key) => self
                .contexts
                .get(&(map.to_owned(), key.to_owned()))
                .and_then(|values| values.get(old)),
            NamePlace::Path | NamePlace::Other => None,
        };
        match known {
            Some(new) => new.clone(),
            None if place == NamePlace::Path => self.replaced(&self.moved(old)),
            None => self.replaced(old),
        }
    }

    /// Notes that `new` stands for `old`, where the driver may choose it and nothing else was noted before.
    pub fn learn(&mut self, place: NamePlace<'_>, old: &str, new: &str) -> bool {
        let values = match place {
            NamePlace::Id => &mut self.ids,
            NamePlace::Token => &mut self.tokens,
            NamePlace::Context(map, key) if is_chosen(old) && is_chosen(new) => self
                .contexts
                .entry((map.to_owned(), key.to_owned()))
                .or_default(),
            _ => return false,
        };
        // A list that ends is no token's name.
        if old.is_empty() || new.is_empty() || values.contains_key(old) {
            return false;
        }
        values.insert(old.to_owned(), new.to_owned());
        true
    }

    /// `text` with every id in it replaced, the longest that fits at each place.
    fn replaced(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let (length, new) = match self.id_before(rest) {
                Some((old, new)) => (old.len(), new),
                None => (letter.len_utf8(), &rest[..letter.len_utf8()]),
            };
            out.push_str(new);
            rest = &rest[length..];
        }
        out
    }

    /// The longest id that `text` begins with, and what stands for it.
    fn id_before(&self, text: &str) -> Option<(&str, &str)> {
        let mut start = text;
        while start.len() >= ID_MIN {
            // Every id that `text` begins with comes before it in order, and the longest comes last.
            let before = (Bound::Unbounded, Bound::Included(start));
            let (old, new) = self.ids.range::<str, _>(before).next_back()?;
            if start.starts_with(old.as_str()) {
                return (old.len() >= ID_MIN).then_some((old, new));
            }
            // No id comes between this one and `start`: none that `start` begins with goes on where the two part.
            let pairs = start.chars().zip(old.chars());
            let same = pairs.take_while(|(one, other)| one == other);
            start = &start[..same.map(|(letter, _)| letter.len_utf8()).sum()];
        }
        None
    }

    fn moved(&self, path: &str) -> String {
        for (old, new) in &self.folders {
            if let Some(rest) = path.strip_prefix(old.as_str())
                && (rest.is_empty() || rest.starts_with('/'))
            {
                return format!("{new}{rest}");
            }
        }
        path.to_owned()
    }
}

/// Whether a value of a context can be a name that a driver makes up: an id, a path, a host. Words such as `true` or
/// `nfs4` are not: that they change is a difference.
fn is_chosen(text: &str) -> bool {
    let has = |wanted: fn(char) -> bool| text.chars().any(wanted);
    has(|letter| matches!(letter, '/' | '.' | '~'))
        || (text.len() >= ID_MIN && has(|letter| letter.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_other_text_and_the_longest_counts() {
        let mut names = Names::default();
        assert!(names.learn(NamePlace::Id, "volume-1", "x"));
        assert!(names.learn(NamePlace::Id, "volume-12", "y"));
        assert!(names.learn(NamePlace::Id, "v", "z"));
        assert!(
            !names.learn(NamePlace::Id, "v", "other"),
            "what was learned stays"
        );
        assert!(names.learn(NamePlace::Id, "volume-12-größe", "w"));
        assert!(names.learn(NamePlace::Id, "volume-12-grüße", "q"));
        assert!(names.learn(NamePlace::Id, "volume-2", "volume-2"));
        for (place, old, new) in [
            (NamePlace::Id, "v", "z"),
            (NamePlace::Other, "v", "v"),
            (NamePlace::Path, "/m/volume-12/volume-1", "/m/y/x"),
            (NamePlace::Path, "/m/volume-12-größe/z", "/m/w/z"),
            (NamePlace::Path, "/m/volume-12-grý", "/m/y-grý"),
            (
                NamePlace::Path,
                "/m/volume-12-grö/volume-2",
                "/m/y-grö/volume-2",
            ),
            (
                NamePlace::Context("volume_context", "share"),
                "volume-1@größe",
                "x@größe",
            ),
        ] {
            assert_eq!(names.translate(place, old), new);
        }
    }

    #[test]
    fn values_of_contexts_are_known_by_their_keys_and_words_are_not_names() {
        let mut names = Names::default();
        let place = NamePlace::Context("volume_context", "server");
        assert!(names.learn(place, "10.0.0.4", "10.0.0.5"));
        assert!(!names.learn(place, "true", "false"));
        assert_eq!(names.translate(place, "10.0.0.4"), "10.0.0.5");
        let other = NamePlace::Context("volume_context", "client");
        assert_eq!(names.translate(other, "10.0.0.4"), "10.0.0.4");
        assert!(names.learn(NamePlace::Token, "2", "b"));
        assert!(!names.learn(NamePlace::Token, "", "b"));
        assert_eq!(names.translate(NamePlace::Token, "2"), "b");
        assert_eq!(names.count(), 2);
    }

    #[test]
    fn folders_of_another_machine() {
        let names = Names::new(vec![("/a".to_owned(), "/b/c".to_owned())]);
        for (old, new) in [("/a/x", "/b/c/x"), ("/a", "/b/c"), ("/ab", "/ab")] {
            assert_eq!(names.translate(NamePlace::Path, old), new);
        }
    }
}
