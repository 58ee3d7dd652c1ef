//! DeleteVolume.

use crate::vocabulary::*;

pub fn cases(list: &mut Cases) {
    list.about("controller/delete-volume", "DeleteVolume");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("DeleteVolume of a volume that never existed answers OK");
    list.changes("of-an-unknown-id", |c| {
        // An id that somebody has invented need not be one.
        let deleted = c.ok_or(c.delete_request(c.name()), &[InvalidArgument])?;
        let expected = "DeleteVolume answers OK";
        c.should(deleted.is_some(), expected, "it answered INVALID_ARGUMENT");
        Ok(())
    });
    list.rule("DeleteVolume of a volume that was deleted answers OK");
    list.also(EACH_ACCESS).changes("is-idempotent", |c| {
        let gone = c.deleted_volume()?;
        each(0..2, |_| c.ok(c.delete_request(gone.id())))
    });
    list.rule("A deleted volume does not exist any more");
    list.changes("deletes", |c| c.is_deleted(&c.deleted_volume()?));
    list.rule("A volume can be created under the name of a deleted one, also with other arguments");
    list.under("CreateVolume").changes("frees-the-name", |c| {
        let mut request = c.deleted_volume()?.request;
        request.capacity_range = range(2 * c.size(), 0);
        c.ok(request)
    });
    list.rule("A repeated DeleteVolume of an old volume does not delete a new one of the same name that has another id");
    list.changes("late-repetition-spares-the-new-volume", |c| {
        let gone = c.deleted_volume()?;
        let new = c.volume_of(gone.request.clone())?;
        skip_unless(new.id() != gone.id(), "the driver gives the id out again")?;
        c.ok(c.delete_request(gone.id()))?;
        c.ok(c.validate_request(&new))
    });
}
