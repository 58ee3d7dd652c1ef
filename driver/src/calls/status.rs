//! Turns typed errors into gRPC statuses. Three refusals that have no error type are made where they arise, in `identity` and
//! `node`. What a status does to an orchestrator decides:
//!
//! - external-provisioner and the kubelet take ABORTED, DEADLINE_EXCEEDED and UNAVAILABLE for "may still take effect" and
//!   repeat the call; everything else is final, and for CreateVolume means that nothing was left behind. So what may have
//!   taken effect is never INTERNAL, and is RESOURCE_EXHAUSTED only when nothing is on the share.
//! - FAILED_PRECONDITION says that somebody has to do something outside the driver before a repeat can help.
//! - The id of another driver is OK for DeleteVolume, since such a volume does not exist here and the specification wants
//!   repeated deletes to be OK (the controller says so before it comes here), and NOT_FOUND for every other call. An id of
//!   our own syntax for a share that is unknown, missing or another one is FAILED_PRECONDITION for all calls: that volume
//!   may well exist. So does a driver that has the name of kubernetes-csi's driver and does not serve its
//!   volumes, for its ids.

use crate::calls::controller::error::ControllerError;
use crate::calls::node::error::NodeError;
use crate::calls::operations::Busy;
use crate::mount::helper::HelperError;
use crate::mount::task::FailureKind;
use crate::upstream::ids::UpstreamIdError;
use csi_nfs_store::files::copying::CopyError;
use csi_nfs_store::files::roots::RootError;
use csi_nfs_store::share::error::{ShareError, is_lasting};
use rustix::io::Errno;
use std::io;
use tonic::{Code, Status};

impl From<ControllerError> for Status {
    fn from(error: ControllerError) -> Self {
        let code = controller_code(&error);
        let mut text = error.to_string();
        // Where the share's own words do not say what to do.
        if code == Code::PermissionDenied
            && matches!(error, ControllerError::Share { .. })
            && !text.contains(ROOT_SQUASH)
        {
            text.push_str(
                "; if the export has root_squash, let the anonymous user write in the share's folder, or export it with no_root_squash to this driver",
            );
        }
        Status::new(code, text)
    }
}

const ROOT_SQUASH: &str = "root_squash";

impl From<NodeError> for Status {
    fn from(error: NodeError) -> Self {
        Status::new(node_code(&error), error.to_string())
    }
}

fn node_code(error: &NodeError) -> Code {
    match error {
        NodeError::Limit(_)
        | NodeError::Capability(_)
        | NodeError::Invalid { .. }
        | NodeError::NoSource(_)
        | NodeError::NoInlineSource(_)
        | NodeError::Export(_)
        | NodeError::SubDir(_)
        | NodeError::Option(_) => Code::InvalidArgument,
        NodeError::ServerDenied(_) | NodeError::InlineDenied(_) | NodeError::InlineOption(_) => {
            Code::PermissionDenied
        }
        NodeError::Different { .. } => Code::AlreadyExists,
        NodeError::Busy(busy) => busy_code(busy),
        NodeError::NotPublished { .. } => Code::NotFound,
        NodeError::InlineRecords(_)
        | NodeError::NoParent(_)
        | NodeError::TargetTaken { .. }
        | NodeError::Exclusive { .. }
        | NodeError::NoStagingPath
        | NodeError::NotStaged { .. }
        | NodeError::StillPublished { .. }
        | NodeError::InUse(_)
        | NodeError::InlineOff
        | NodeError::NoReadOnly => Code::FailedPrecondition,
        NodeError::Mount { cause, .. } => helper_code(cause),
        NodeError::NoAnswer { .. } => Code::Unavailable,
        NodeError::Io { cause, .. } if cause.kind() == io::ErrorKind::TimedOut => Code::Unavailable,
        // Symlinks above a target that lead in a circle; a folder in the place of a record.
        NodeError::Io { cause, .. }
            if Errno::from_io_error(cause) == Some(Errno::LOOP)
                || cause.kind() == io::ErrorKind::IsADirectory =>
        {
            Code::FailedPrecondition
        }
        NodeError::Io { .. } | NodeError::NoUsage => Code::Internal,
    }
}

fn busy_code(busy: &Busy) -> Code {
    match busy {
        // Not RESOURCE_EXHAUSTED, which external-provisioner takes for "nothing is in progress": an earlier call of this one may be.
        Busy::Crowded => Code::Unavailable,
        Busy::Other { .. } | Busy::RunningOperation { .. } | Busy::Died { .. } => Code::Aborted,
    }
}

fn helper_code(error: &HelperError) -> Code {
    match error {
        HelperError::Deadline { .. } | HelperError::Hangs { .. } => Code::DeadlineExceeded,
        HelperError::Lost { .. } => Code::Unavailable,
        HelperError::Start(_) => Code::Internal,
        HelperError::Failed(failure) => match failure.kind {
            FailureKind::Resolve | FailureKind::Unreachable => Code::Unavailable,
            FailureKind::NotFound => Code::NotFound,
            FailureKind::Refused => Code::PermissionDenied,
            FailureKind::Option => Code::InvalidArgument,
            FailureKind::Version
            | FailureKind::Kerberos
            | FailureKind::NoNfsClient
            | FailureKind::NotPermitted
            | FailureKind::Holds
            | FailureKind::Symlink => Code::FailedPrecondition,
            FailureKind::Busy => Code::Aborted,
            FailureKind::NotMounted | FailureKind::Other => Code::Internal,
        },
    }
}

fn controller_code(error: &ControllerError) -> Code {
    match error {
        ControllerError::Limit(_)
        | ControllerError::Capability(_)
        | ControllerError::Parameter(_)
        | ControllerError::Export(_)
        | ControllerError::Invalid(_)
        | ControllerError::MountOption(_)
        | ControllerError::IdTooLong(_) => Code::InvalidArgument,
        ControllerError::ForeignId(_) => Code::NotFound,
        ControllerError::Upstream(UpstreamIdError::NotServed(_)) => Code::FailedPrecondition,
        ControllerError::Upstream(_) => Code::InvalidArgument,
        ControllerError::UnknownShare(_) | ControllerError::Twin(_) => Code::FailedPrecondition,
        ControllerError::ServerNotAllowed(_) => Code::PermissionDenied,
        ControllerError::Token(_) => Code::Aborted,
        ControllerError::Busy(busy) => busy_code(busy),
        ControllerError::Root(error) => root_code(error),
        ControllerError::Share { source, .. } => share_code(source),
        ControllerError::NoAnswer { .. }
        | ControllerError::Slow(_)
        | ControllerError::ShuttingDown => Code::Unavailable,
    }
}

fn root_code(error: &RootError) -> Code {
    match error {
        // The server or the resolver may be back in a moment.
        RootError::Unreachable { .. } | RootError::Resolve { .. } => Code::Unavailable,
        RootError::Refused(_) => Code::PermissionDenied,
        RootError::NotExported(_)
        | RootError::NoFolder { .. }
        | RootError::NoNfsClient
        | RootError::MayNotMount(_) => Code::FailedPrecondition,
        RootError::Io { source, .. } => io_code(source),
    }
}

fn share_code(error: &ShareError) -> Code {
    match error {
        ShareError::RecordsMissing(_)
        | ShareError::NotInitialised
        | ShareError::OtherShare { .. }
        | ShareError::NewerFormat(_)
        | ShareError::OlderFormat(_)
        | ShareError::Damaged { .. }
        | ShareError::Foreign(_)
        | ShareError::NothingToAdopt(_)
        | ShareError::FolderGone(_)
        | ShareError::DataGone
        | ShareError::NotPlain { .. }
        | ShareError::Empty
        | ShareError::NotHeld(_)
        | ShareError::Blocked { .. } => Code::FailedPrecondition,
        // The name is not taken, but the folder is: another subDir helps, a repeat does not.
        ShareError::Overlap { .. } | ShareError::Adopted(_) | ShareError::SourceElsewhere => {
            Code::InvalidArgument
        }
        ShareError::Different(_) | ShareError::KeyTaken(_) => Code::AlreadyExists,
        ShareError::NoVolume | ShareError::NoSnapshot | ShareError::NoSource(_) => Code::NotFound,
        ShareError::Overcommitted(_) => Code::ResourceExhausted,
        // Not RESOURCE_EXHAUSTED: external-resizer takes that for an expansion that may go on, and holds its claim to the size.
        ShareError::TooLarge { .. }
        | ShareError::SmallerThanSource { .. }
        | ShareError::CannotGrow(_) => Code::OutOfRange,
        ShareError::Contended(_)
        | ShareError::SourceNotReady(_)
        | ShareError::CopiedElsewhere(_) => Code::Aborted,
        ShareError::Copy(error) => match error {
            CopyError::Stopped | CopyError::Changing(_) => Code::Aborted,
            CopyError::NoRoom { .. } => Code::ResourceExhausted,
            CopyError::Archive { .. } | CopyError::Unseen(_) => Code::FailedPrecondition,
            CopyError::Io { source, .. } => io_code(source),
        },
        ShareError::Unfinished { .. } | ShareError::NotHeldYet(_) => Code::Unavailable,
        ShareError::Io { source, .. } => io_code(source),
    }
}

/// For failures that have left nothing behind.
fn io_code(error: &io::Error) -> Code {
    // Errors with a kind but no number are the mounting's own: an option that cannot be used, no version in common.
    match error.kind() {
        io::ErrorKind::InvalidInput if error.raw_os_error().is_none() => {
            return Code::InvalidArgument;
        }
        io::ErrorKind::Unsupported if error.raw_os_error().is_none() => {
            return Code::FailedPrecondition;
        }
        _ => {}
    }
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => Code::ResourceExhausted,
        Some(Errno::ACCESS | Errno::PERM) => Code::PermissionDenied,
        Some(Errno::NOENT) => Code::FailedPrecondition,
        _ if is_lasting(error) => Code::FailedPrecondition,
        _ => Code::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_nfs_store::export::Export;
    use std::sync::Arc;

    fn share(source: ShareError) -> Status {
        ControllerError::Share {
            export: Export::parse("10.0.0.4", "/a").unwrap(),
            source: Arc::new(source),
        }
        .into()
    }

    fn no_space() -> ShareError {
        ShareError::Io {
            context: "writing".to_owned(),
            source: Errno::NOSPC.into(),
        }
    }

    #[test]
    fn what_may_take_effect_is_not_final() {
        assert_eq!(share(no_space()).code(), Code::ResourceExhausted);
        let unfinished = share(no_space().unfinished());
        assert_eq!(unfinished.code(), Code::Unavailable);
        assert!(unfinished.message().contains("10.0.0.4:/a"), "{unfinished}");
    }

    #[test]
    fn an_error_of_a_copy_is_final_when_it_has_left_nothing() {
        for number in 1..134 {
            let source = || Errno::from_raw_os_error(number).into();
            let copying = ShareError::Copy(CopyError::Io {
                context: "copying",
                path: "a".to_owned(),
                source: source(),
            });
            let looking = ShareError::Io {
                context: "looking".to_owned(),
                source: source(),
            };
            for error in [copying, looking] {
                let is_final = error.is_final();
                let error = if is_final { error } else { error.unfinished() };
                let retried = share_code(&error) == Code::Unavailable;
                assert_eq!(retried, !is_final, "{error}");
            }
        }
        for errno in [Errno::IO, Errno::STALE, Errno::TIMEDOUT, Errno::NOENT] {
            assert!(!is_lasting(&errno.into()), "{errno}");
        }
    }

    #[test]
    fn nothing_is_internal() {
        for errno in [
            Errno::IO,
            Errno::STALE,
            Errno::TIMEDOUT,
            Errno::AGAIN,
            Errno::MFILE,
        ] {
            assert_eq!(io_code(&errno.into()), Code::Unavailable, "{errno}");
        }
    }
}
