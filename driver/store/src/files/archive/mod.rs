//! Archives as sources of copies: the format is read by `tar`, what an entry may do is decided by `unpack`, why it cannot be
//! done is said by `trouble`.

mod tar;
#[cfg(test)]
mod tests;
mod trouble;
mod unpack;

pub use unpack::unpack;
