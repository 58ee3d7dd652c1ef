//! A share as the database of its volumes.

pub mod roots;
