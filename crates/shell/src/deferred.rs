//! A statement whose variables are expanded, as it runs now or at the end. Data only.

use super::settings::SessionSettings;

/// A statement of which everything is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expanded {
    /// The command.
    pub words: Vec<String>,
    /// The command's words as they were typed, where they were.
    pub typed: Vec<String>,
    /// Programs that read its output, one after the other.
    pub programs: Vec<Vec<String>>,
    /// The file that gets the output, and whether it is kept.
    pub file: Option<(String, bool)>,
}

/// A statement for the end.
#[derive(Debug)]
pub(crate) struct Deferred {
    /// The statement.
    pub statement: Expanded,
    /// The line of the script that it stands in.
    pub place: Option<String>,
    /// The driver and the settings of its time: another driver may have a volume with the same id.
    pub settings: SessionSettings,
}
