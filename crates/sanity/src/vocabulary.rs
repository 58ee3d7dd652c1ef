//! The words that all cases are written in: `use crate::vocabulary::*`.

pub(super) use super::answers::{answer_text, ok_or_aborted};
pub(super) use super::case::Cases;
pub(super) use super::context::Context;
pub(super) use super::creations::Creation;
pub(super) use super::data::Mark;
pub(super) use super::fixtures::{Placed, Volume, range};
pub(super) use super::need::needs::*;
pub(super) use super::settings::Access;
pub(super) use super::sources::{SOON, same_snapshot, time_of};
pub(super) use super::verdict::{
    Stop, Verdict, each, ensure, list_text, pairs_text, same, same_code, same_id, skip_unless,
    status_text, unjudged_unless,
};
pub(super) use csi_proto::v1;
pub(super) use csi_proto::v1::volume_capability::{AccessMode, access_mode::Mode};
pub(super) use std::sync::Arc;
pub(super) use tonic::Code::{
    Aborted, AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, OutOfRange,
    PermissionDenied, ResourceExhausted, Unauthenticated, Unimplemented,
};
