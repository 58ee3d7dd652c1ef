//! Promises of size: what each volume and snapshot has of the file system below its share, on paper; and the ratio that bounds
//! them all together. Plain values; what is promised now is found out by `promised`.

use crate::share::token::Nonce;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// What a volume or snapshot was promised, from the first generation of its record until the last of it is purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Whose it is.
    pub nonce: Nonce,
    /// So many bytes.
    pub bytes: i64,
}

impl Promise {
    /// That of something which takes no size on paper.
    pub(in crate::share) fn none(nonce: Nonce) -> Self {
        Self { nonce, bytes: 0 }
    }
}

/// How often the size of a file system may be promised, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ratio(u32);

impl Ratio {
    const ONE: u32 = 1000;
    const MOST: u32 = 1000 * Self::ONE;

    /// Reads a decimal number from 0.001 to 1000: `1`, `1.5`, `20`. Nothing when it is another text, or out of bounds.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = match text.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (text, ""),
        };
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || decimals.len() > 3 || !is_number(whole) || !is_number(decimals) {
            return None;
        }
        let thousandths = format!("{whole}{decimals:0<3}").parse();
        match thousandths {
            Ok(ratio @ 1..=Self::MOST) => Some(Self(ratio)),
            _ => None,
        }
    }

    /// So much of `total`.
    pub fn of(self, total: u64) -> u64 {
        let bytes = u128::from(total) * u128::from(self.0) / u128::from(Self::ONE);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl TryFrom<String> for Ratio {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no ratio"))
    }
}

impl From<Ratio> for String {
    fn from(ratio: Ratio) -> Self {
        ratio.to_string()
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, decimals) = (self.0 / Self::ONE, self.0 % Self::ONE);
        match decimals {
            0 => write!(f, "{whole}"),
            _ => {
                let decimals = format!("{decimals:03}");
                write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
            }
        }
    }
}

/// How large a file system is, and how much of that is promised, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The size of the file system, whether it is used or not.
    pub total: u64,
    /// What is promised.
    pub promised: u64,
}

impl Room {
    /// What may be promised beside that.
    pub fn left(self, ratio: Ratio) -> u64 {
        ratio.of(self.total).saturating_sub(self.promised)
    }

    /// Looks whether `asked` bytes more may be promised. None may always, also where too much is promised already.
    pub fn check(self, ratio: Ratio, asked: u64) -> Result<(), Overcommitted> {
        if asked <= self.left(ratio) {
            return Ok(());
        }
        Err(Overcommitted {
            asked,
            ratio,
            room: self,
        })
    }
}

/// More was asked for than may be promised.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "not enough capacity: {asked} bytes requested, {} available: volumes, snapshots and the trash have {}, and the parameter overcommit allows {ratio} times the {} bytes of the file system; delete what nobody needs, enlarge the file system, or ask for less",
    .room.left(*.ratio), .room.promised, .room.total
)]
pub struct Overcommitted {
    /// The bytes that were asked for, beside what is promised.
    pub asked: u64,
    /// The bound.
    pub ratio: Ratio,
    /// What there is.
    pub room: Room,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(text: &str) -> Ratio {
        Ratio::parse(text).unwrap()
    }

    #[test]
    fn a_ratio_is_a_decimal_number() {
        for (text, of_a_million, shown) in [
            ("1", 1_000_000, "1"),
            ("1.0", 1_000_000, "1"),
            ("1.5", 1_500_000, "1.5"),
            ("01.50", 1_500_000, "1.5"),
            ("20", 20_000_000, "20"),
            ("0.8", 800_000, "0.8"),
            ("0.001", 1_000, "0.001"),
            ("2.005", 2_005_000, "2.005"),
            ("1000", 1_000_000_000, "1000"),
            ("1000.000", 1_000_000_000, "1000"),
        ] {
            let parsed = ratio(text);
            assert_eq!(parsed.of(1_000_000), of_a_million, "{text}");
            assert_eq!(parsed.to_string(), shown);
            assert_eq!(ratio(shown), parsed);
        }
        for wrong in [
            "",
            ".",
            "1.",
            ".5",
            "0",
            "0.000",
            "0.0001",
            "1000.001",
            "1001",
            "+1",
            "-1",
            "1e3",
            "1,5",
            "1.+5",
            "1.5.0",
            "150%",
            "inf",
            "NaN",
            " 1",
            "99999999999999999999",
            "\u{661}",
        ] {
            assert_eq!(Ratio::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_promise_is_kept_within_the_ratio() {
        const TIB: u64 = 1 << 40;
        for (total, promised, at, asked, left) in [
            (1000, 0, "1", 1000, 1000),
            (1000, 0, "1", 1001, 1000),
            (1000, 999, "1", 1, 1),
            (1000, 1000, "1", 1, 0),
            (1000, 1000, "1.5", 500, 500),
            (1000, 1000, "1.5", 501, 500),
            // Rounded down.
            (999, 0, "0.5", 500, 499),
            (999, 0, "0.5", 499, 499),
            // As after a disk was replaced by a smaller one, or volumes without a ratio.
            (1000, 5000, "1", 1, 0),
            (1000, 5000, "1", 0, 0),
            (0, 0, "1000", 1, 0),
            (u64::MAX, u64::MAX, "1000", 1, 0),
            (u64::MAX, 0, "1000", u64::MAX, u64::MAX),
            (8 * TIB, 100 * TIB, "20", 60 * TIB, 60 * TIB),
        ] {
            let room = Room { total, promised };
            assert_eq!(room.left(ratio(at)), left, "{room:?} {at}");
            match room.check(ratio(at), asked) {
                Ok(()) => assert!(asked <= left, "{room:?} {at} {asked}"),
                Err(refused) => {
                    assert!(asked > left, "{refused}");
                    let text = refused.to_string();
                    for figure in [asked, left, promised, total] {
                        assert!(text.contains(&figure.to_string()), "{figure}: {text}");
                    }
                    assert!(text.contains(&format!("{at} times")), "{text}");
                }
            }
        }
    }
}
