//! The paths of volumes' folders: their text, who has claimed one, and how they are opened and made.

pub mod claim;
pub mod open;
pub mod sub_path;
