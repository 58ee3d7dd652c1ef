//! The cases, one file a subject. Add one in the file of its subject, as `case.rs` says; a new file
//! stands in the list below.

mod capabilities;
mod concurrency;
mod controller_publish;
mod copies;
mod create_volume;
mod delete_volume;
mod expand;
pub(super) mod first;
mod get_volume;
mod giving_back;
mod group_snapshots;
mod identity;
mod lifecycle;
mod limits;
mod list_volumes;
mod listed_snapshots;
mod made_groups;
mod made_snapshots;
mod missing_fields;
mod modify;
mod node_info;
mod node_publish;
mod node_stage;
mod node_stats;
mod node_unpublish;
pub(super) mod protocol;
mod replies;
mod secrets;
mod snapshot_metadata;
mod snapshots;
mod validate;
mod volume_names;

use super::case::{Case, Cases, without_access};
use std::sync::LazyLock;

/// What writes the cases of each subject, in the order of the list.
const SUBJECTS: &[fn(&mut Cases)] = &[
    first::cases,
    identity::cases,
    capabilities::cases,
    create_volume::cases,
    volume_names::cases,
    copies::cases,
    delete_volume::cases,
    concurrency::cases,
    validate::cases,
    list_volumes::cases,
    get_volume::cases,
    expand::cases,
    modify::cases,
    controller_publish::cases,
    snapshots::cases,
    made_snapshots::cases,
    listed_snapshots::cases,
    group_snapshots::cases,
    made_groups::cases,
    snapshot_metadata::cases,
    node_info::cases,
    node_stage::cases,
    node_publish::cases,
    node_unpublish::cases,
    node_stats::cases,
    lifecycle::cases,
    giving_back::cases,
    limits::cases,
    protocol::cases,
    secrets::cases,
    missing_fields::cases,
    replies::cases,
];

/// The cases, made once: they live as long as the program.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut list = Cases::default();
    SUBJECTS.iter().for_each(|cases| cases(&mut list));
    list.done()
});

/// Every case, in the order in which they are listed and run.
pub fn all() -> impl Iterator<Item = &'static Case> {
    CASES.iter()
}

/// The case with this name, or with a run of this name.
pub fn named(name: &str) -> Option<&'static Case> {
    all().find(|case| case.name == without_access(name))
}

#[cfg(test)]
mod tests {
    use super::super::case::CaseKind;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_stable_words_and_sentences_have_no_full_stop() {
        let mut names = BTreeSet::new();
        for case in all() {
            assert!(names.insert(&case.name), "{} stands twice", case.name);
            let plain = |letter: char| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-/".contains(letter)
            };
            assert!(case.name.chars().all(plain), "{}", case.name);
            assert!(case.name.matches('/').count() >= 1, "{}", case.name);
            assert!(
                !case.sentence.ends_with('.') && case.sentence.len() > 20,
                "{}",
                case.name
            );
            assert!(!case.section.is_empty(), "{}", case.name);
        }
    }

    /// Of a list that changes between two pages a driver may lose some, also those that did not change.
    #[test]
    fn lists_are_read_in_pages_while_nothing_else_runs() {
        let is_paged = |case: &&Case| {
            ["in-pages", "page-by-page"]
                .iter()
                .any(|end| case.name.ends_with(end))
        };
        let paged: Vec<_> = all().filter(is_paged).collect();
        assert_eq!(paged.len(), 3, "{paged:?}");
        for case in paged {
            assert_eq!(case.kind, CaseKind::Alone, "{}", case.name);
        }
    }
}
