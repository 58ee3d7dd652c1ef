//! The least that a static program can cost: the figures are told as multiples of it.

fn main() {}
