//! The id of a project. Must not use it.

use std::fmt;

/// The id of a project: 31 bits, so that no program takes it for negative, and not 0, which is no project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProjectId(u32);

impl ProjectId {
    /// The id of that number, where it can be one.
    pub fn new(number: u32) -> Option<Self> {
        (number != 0 && number <= i32::MAX as u32).then_some(Self(number))
    }

    /// As the kernel has it.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The id with exactly this text.
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.parse().ok().and_then(Self::new)?;
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for ProjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling_and_31_bits() {
        for (text, number) in [
            ("1", Some(1)),
            ("2147483647", Some(i32::MAX as u32)),
            ("2147483648", None),
            ("0", None),
            ("-1", None),
            ("+1", None),
            ("01", None),
            ("", None),
            ("1 ", None),
        ] {
            let id = ProjectId::parse(text);
            assert_eq!(id.map(ProjectId::number), number, "{text:?}");
        }
    }
}
