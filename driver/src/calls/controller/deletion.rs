//! Deletes what has a record: what volumes and snapshots do alike. Must not know whose ids there are besides.

use super::error::ControllerError;
use super::shares::{Operated, Shares};
use crate::calls::operations::Operation;
use crate::calls::volume_id::Id;
use crate::share::database::Share;
use crate::share::life;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Deletes what the id `text` means, for a call of `rpc`.
pub(super) async fn delete<K: Operated, const MARK: char>(
    shares: &Arc<Shares>,
    timeout: Duration,
    rpc: &'static str,
    text: String,
    secrets: &BTreeMap<String, String>,
) -> Result<(), ControllerError> {
    let id: Id<MARK> = match text.parse() {
        Ok(id) => id,
        // Why OK: see `status`.
        Err(foreign) => {
            (shares.config.notice)(&format!("{rpc}: nothing to delete: {foreign}"));
            return Ok(());
        }
    };
    let options = shares.secret_options(secrets)?;
    let arguments = text.into_bytes();
    let operation = Operation { rpc, arguments };
    let (key, nonce) = (id.key, id.nonce);
    let delete = move |share: &Share| life::delete::<K>(share, key, nonce).map(|()| None);
    let deleted = shares.change::<K, MARK>((operation, timeout), id, options, delete);
    deleted.await.map(drop)
}
