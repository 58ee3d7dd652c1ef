//! DeleteVolume.

use crate::tools::sanity::vocabulary::*;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/delete-volume", "DeleteVolume");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("DeleteVolume of a volume that never existed answers OK");
    list.changes("of-an-unknown-id", |c| c.ok(c.delete_request(c.name())));
    list.rule("DeleteVolume of a volume that was deleted answers OK");
    list.also(&[EACH_ACCESS]).changes("is-idempotent", |c| {
        let gone = c.deleted_volume()?;
        for _ in 0..2 {
            c.ok(c.delete_request(gone.id()))?;
        }
        Ok(())
    });
    list.rule("A deleted volume does not exist any more");
    list.changes("deletes", |c| {
        let gone = c.deleted_volume()?;
        c.refused(c.validate_request(&gone), &[NotFound])
    });
    list.rule("A volume can be created under the name of a deleted one, also with other arguments");
    list.under("CreateVolume").changes("frees-the-name", |c| {
        let gone = c.deleted_volume()?;
        let mut request = gone.request.clone();
        let size = 2 * c.settings().volume_size;
        request.capacity_range = Some(v1::CapacityRange {
            required_bytes: size,
            limit_bytes: 0,
        });
        c.volume_of(request)
    });
    list.rule("A repeated DeleteVolume of an old volume does not delete a new one of the same name that has another id");
    list.changes("late-repetition-spares-the-new-volume", |c| {
        let gone = c.deleted_volume()?;
        let new = c.volume_of(gone.request.clone())?;
        if new.id() == gone.id() {
            return Err(Stop::Skipped(
                "the driver gives the id out again".to_owned(),
            ));
        }
        c.ok(c.delete_request(gone.id()))?;
        c.ok(c.validate_request(&new))
    });
}
