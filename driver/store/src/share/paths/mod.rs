//! The paths of volumes' folders: their text, who has claimed one, which folder lies there, and how they are opened and made.

pub mod claim;
pub mod identity;
pub mod open;
pub mod sub_path;
