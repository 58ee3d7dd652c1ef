//! A share as the database of its volumes.

pub mod roots;
pub mod sub_path;
pub mod token;
