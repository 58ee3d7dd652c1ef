//! The cases, one file a subject. Add one by a `case!` in the table of its file; a new file stands in the list below.

mod capabilities;
mod concurrency;
mod controller_publish;
mod copies;
mod create_volume;
mod delete_volume;
mod expand;
mod get_volume;
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
mod protocol;
mod secrets;
mod snapshot_metadata;
mod snapshots;
mod validate;
mod volume_names;

use super::case::Case;

/// Every table, in the order of the list.
const TABLES: &[&[Case]] = &[
    identity::CASES,
    capabilities::CASES,
    create_volume::CASES,
    volume_names::CASES,
    copies::CASES,
    delete_volume::CASES,
    concurrency::CASES,
    validate::CASES,
    list_volumes::CASES,
    get_volume::CASES,
    expand::CASES,
    modify::CASES,
    controller_publish::CASES,
    snapshots::CASES,
    made_snapshots::CASES,
    listed_snapshots::CASES,
    group_snapshots::CASES,
    made_groups::CASES,
    snapshot_metadata::CASES,
    node_info::CASES,
    node_stage::CASES,
    node_publish::CASES,
    node_unpublish::CASES,
    node_stats::CASES,
    lifecycle::CASES,
    limits::CASES,
    protocol::CASES,
    secrets::CASES,
];

/// Every case, in the order in which they are listed and run.
pub fn all() -> impl Iterator<Item = &'static Case> {
    let tables = TABLES.iter().copied();
    tables.flatten().chain(missing_fields::cases())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_stable_words_and_sentences_have_no_full_stop() {
        let mut names = BTreeSet::new();
        for case in all() {
            assert!(names.insert(case.name), "{} stands twice", case.name);
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
}
