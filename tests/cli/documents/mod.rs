//! The documents are true: their examples run as recorded, they name every command and flag, and what they refer to exists.

mod examples;
mod names;
mod pages;
mod picture;
mod recorded;
mod references;
