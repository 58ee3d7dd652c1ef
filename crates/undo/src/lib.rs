//! Takes back what calls have made, for every tool that makes something.
//!
//! `made.rs` is the list of what was made, `requests.rs` makes the requests that take it back, `order.rs` and `tries.rs`
//! decide what comes next, `taking_back.rs` makes the calls, and `left.rs` has the words and command lines for what stays.
//! The facts in `csi_rpc` say which RPC takes back what. A tool brings its connection, its time limits and what it tells its
//! user; nothing here prints.

pub mod left;
pub mod made;
pub mod order;
pub mod requests;
pub mod taking_back;
pub mod tries;

pub use made::{Item, Made};
