//! The size of a volume as limits of its project. Must not set them.

use csi_sys::project_quota;

/// The bytes and inodes of a project: its limits, where 0 is none, or its usage.
pub type Amounts = project_quota::Amounts;

/// What limits are rounded up to: a client's `df` rounds down to its wsize, which is at most this.
const UNIT: u64 = 1 << 20;

/// The limits of a volume of `bytes` and `inodes`, where 0 is none.
pub fn limits(bytes: u64, inodes: u64) -> Amounts {
    let bytes = bytes.div_ceil(UNIT).saturating_mul(UNIT);
    // The largest that is whole, so that every kernel's signed number of bytes holds it.
    let bytes = bytes.min(i64::MAX as u64 / UNIT * UNIT);
    Amounts { bytes, inodes }
}

/// The larger ones of both, where 0 is less than any.
pub fn larger(one: Amounts, other: Amounts) -> Amounts {
    Amounts {
        bytes: one.bytes.max(other.bytes),
        inodes: one.inodes.max(other.inodes),
    }
}

/// Whether what is `used` is more than these limits.
pub fn is_beyond(used: Amounts, limits: Amounts) -> bool {
    let is_more = |used: u64, limit: u64| limit > 0 && used > limit;
    is_more(used.bytes, limits.bytes) || is_more(used.inodes, limits.inodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_more_than_its_limits_is_beyond() {
        const MIB: u64 = 1 << 20;
        for (used, limits, expected) in [
            ((MIB, 5), (MIB, 0), false),
            ((MIB + 1, 5), (MIB, 0), true),
            ((MIB, 5), (0, 5), false),
            ((MIB, 6), (0, 5), true),
            ((MIB, 5), (MIB, 4), true),
        ] {
            let amounts = |(bytes, inodes)| Amounts { bytes, inodes };
            let (used, limits) = (amounts(used), amounts(limits));
            assert_eq!(is_beyond(used, limits), expected, "{used:?} {limits:?}");
        }
    }

    #[test]
    fn limits_are_whole_and_never_smaller_than_the_size() {
        const MIB: u64 = 1 << 20;
        for (bytes, inodes, expected) in [
            (0, 0, (0, 0)),
            (0, 7, (0, 7)),
            (1, 0, (MIB, 0)),
            (MIB - 1, 0, (MIB, 0)),
            (MIB, 0, (MIB, 0)),
            (MIB + 1, 9, (2 * MIB, 9)),
            (i64::MAX as u64, 0, (((1 << 43) - 1) * MIB, 0)),
            (u64::MAX, 0, (((1 << 43) - 1) * MIB, 0)),
        ] {
            let expected = Amounts {
                bytes: expected.0,
                inodes: expected.1,
            };
            assert_eq!(limits(bytes, inodes), expected, "{bytes} {inodes}");
        }
    }
}
