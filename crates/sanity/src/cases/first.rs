//! What most cases depend on. It is tried first, and what does not work here is said once.

use super::lifecycle::down;
use crate::case::CaseKind;
use crate::vocabulary::*;

/// The name of the case about making a volume at all.
pub const MAKE_AND_REMOVE: &str = "lifecycle/make-and-remove";

pub fn cases(list: &mut Cases) {
    list.about("lifecycle", "Volume Lifecycle");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("A volume as the settings describe it can be made and removed");
    list.also(EACH_ACCESS);
    list.add(CaseKind::First, "make-and-remove", |c| {
        c.ok(c.delete_request(c.volume()?.id())).map(drop)
    });
    list.rule("A volume as the settings describe it can be published on the node, and taken down");
    list.also(EACH_ACCESS).also(&[NODE_SERVICE]);
    list.add(CaseKind::First, "publish-and-remove", |c| {
        down(c, &c.published()?)
    });
}
