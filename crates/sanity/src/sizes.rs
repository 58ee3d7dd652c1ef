//! Finds the access types that a driver has, and the size of volumes of each where the settings leave it open: the smallest that
//! it takes, since some drivers copy whole volumes.
//!
//! A size counts where the driver makes a volume of exactly that; one that is mounted must also be staged and published, for a
//! file system may need more. Everything made here is taken down again. Judges nothing: what does not work is left to the cases.

use super::case::needs::{ANY_VOLUME, BLOCK, CREATE_DELETE_VOLUME, MOUNT, NODE_SERVICE};
use super::case::{Case, Need};
use super::context::Context;
use super::run::Run;
use super::settings::{Access, DEFAULT_SIZE};
use super::trial::taken_down;
use super::verdict::Stop;
use csi_proto::lock::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tonic::Code;

/// The sizes that are tried before the default, in their order.
const SMALLER: [i64; 2] = [64 << 20, 512 << 20];

/// What came of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// There was a volume of that size, and it could be used.
    Took,
    /// There was one, but of this many bytes, or it could not be used.
    Made(i64),
    /// There was none.
    Refused,
    /// The driver has none of that kind.
    Unsupported,
    /// The driver went away.
    Lost,
}

/// The access types of the run, once the sizes of their volumes are found: those that the settings ask for. Where these leave it
/// open, block is one too if the driver makes such volumes, and mount is none if it says that it has only those.
pub async fn accesses(run: &Arc<Run>) -> Vec<Access> {
    let settings = &run.settings;
    let asks_block = settings.capabilities.is_empty();
    let mut accesses = match asks_block {
        true => vec![Access::Mount],
        false => Access::ALL.to_vec(),
    };
    accesses.retain(|access| settings.capability(*access).is_some());
    let creates = run.driver.has(CREATE_DELETE_VOLUME) == Some(true);
    if settings.read_only || !creates || !super::cases().any(|case| needs_volumes(run, case)) {
        return accesses;
    }
    let mut has_mount = false;
    for access in Access::ALL {
        let is_asked_for = accesses.contains(&access);
        let is_open = asks_block && access == Access::Block;
        if is_open || (is_asked_for && settings.volume_size.is_none()) {
            let found = find(run, access).await;
            if is_open && found {
                accesses.push(access);
            }
            has_mount |= access == Access::Mount && found;
        }
    }
    let may_be_alone = asks_block && accesses.contains(&Access::Block) && !has_mount;
    if may_be_alone && usual(run, Access::Mount).await == Tried::Unsupported {
        accesses.retain(|access| *access == Access::Block);
    }
    accesses
}

/// Whether a case is to run that makes volumes.
fn needs_volumes(run: &Run, case: &Case) -> bool {
    let names = Access::ALL.map(|access| case.name_for(access));
    let is_wanted = names.iter().any(|name| run.settings.selects(name));
    let makes = [
        CREATE_DELETE_VOLUME,
        ANY_VOLUME,
        BLOCK,
        MOUNT,
        Need::EachAccess,
    ];
    is_wanted && case.needs.iter().any(|need| makes.contains(need))
}

/// Finds the size for an access type; whether there are such volumes, for mount only of the sizes that were tried.
async fn find(run: &Arc<Run>, access: Access) -> bool {
    let given = run.settings.volume_size;
    let found = match given {
        None => smallest(async |size| tried(run, access, size, true).await).await,
        Some(_) => None,
    };
    run.set_size(access, found.or(given).unwrap_or(DEFAULT_SIZE));
    // The first case tries the usual one for mount.
    if found.is_some() || access == Access::Mount {
        return found.is_some();
    }
    !matches!(
        usual(run, access).await,
        Tried::Refused | Tried::Unsupported
    )
}

/// What comes of the size that is found for an access type.
async fn usual(run: &Arc<Run>, access: Access) -> Tried {
    let size = run.volume_size(access);
    match tried(run, access, size, false).await {
        // Whether such calls take the driver down is shown by the cases; somebody may have restarted it just then.
        Tried::Lost => tried(run, access, size, false).await,
        usual => usual,
    }
}

/// The smallest size that counts.
async fn smallest(mut tried: impl AsyncFnMut(i64) -> Tried) -> Option<i64> {
    let mut least = 0;
    for size in SMALLER {
        // The driver would make it larger.
        if size < least {
            continue;
        }
        match tried(size).await {
            Tried::Took => return Some(size),
            Tried::Made(bytes) => least = bytes,
            Tried::Refused | Tried::Unsupported => {}
            Tried::Lost => return None,
        }
    }
    None
}

/// Tries a size. To use the volume too takes a place on the node.
async fn tried(run: &Arc<Run>, access: Access, size: i64, uses: bool) -> Tried {
    run.set_size(access, size);
    let context = Context::of_no_case(run, access);
    // What another try has made may still be there.
    context.skip_names(2 * size.ilog2() as usize + access as usize);
    let context = Arc::new(context);
    let losses = lock(&run.losses).count();
    let in_thread = Arc::clone(&context);
    let tried = tokio::task::spawn_blocking(move || use_volume(&in_thread, size, uses)).await;
    let mut tried = tried.ok().and_then(Result::ok).unwrap_or(Tried::Refused);
    let refused = lock(&context.steps).last_refusal();
    let (problems, _) = taken_down(&context, losses).await;
    if context.made.lost.get().is_some() {
        // Whether it answers again shows in the cases, and so does this call. What it has made is taken down later.
        lock(&run.losses).explain(&context.case);
        tried = Tried::Lost;
    }
    lock(&run.left).extend(problems.into_iter().map(|one| (String::new(), one)));
    match tried {
        // Not for good: the driver lacks room, of which the cases tell more.
        Tried::Refused if context.dependencies().shortage.is_some() => Tried::Made(size),
        Tried::Refused if refused.is_some_and(|(_, code)| code == Code::InvalidArgument) => {
            Tried::Unsupported
        }
        tried => tried,
    }
}

/// Makes a volume of a size, and uses it where the node needs more than a volume of that size.
fn use_volume(context: &Context, size: i64, uses: bool) -> Result<Tried, Stop> {
    let volume = context.volume()?;
    let bytes = volume.volume.capacity_bytes;
    if bytes != size {
        return Ok(Tried::Made(bytes));
    }
    let is_used = match context.access() {
        Access::Mount if uses && context.has(NODE_SERVICE) => context.publish(volume).is_ok(),
        _ => true,
    };
    Ok(match is_used {
        true => Tried::Took,
        false => Tried::Made(bytes),
    })
}

impl Run {
    /// The size of volumes of an access type in bytes.
    pub(super) fn volume_size(&self, access: Access) -> i64 {
        self.limits
            .size(self.sizes[access as usize].load(Ordering::Relaxed))
    }

    fn set_size(&self, access: Access, size: i64) {
        self.sizes[access as usize].store(size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Tried::{Lost, Made, Refused, Took};

    #[test]
    fn the_smallest_size_that_counts_is_taken() {
        const MI: i64 = 1 << 20;
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        for (answers, expected) in [
            (&[Took][..], Some(64 * MI)),
            (&[Refused, Took], Some(512 * MI)),
            // A file system that needs more.
            (&[Made(64 * MI), Took], Some(512 * MI)),
            // A driver that rounds up: to ask for 512Mi is no use.
            (&[Made(1024 * MI)], None),
            (&[Made(128 * MI), Took], Some(512 * MI)),
            (&[Refused, Refused], None),
            (&[Lost], None),
        ] {
            let mut left = answers.iter();
            let found = smallest(async |_| *left.next().expect("no more tries"));
            assert_eq!(runtime.block_on(found), expected, "{answers:?}");
            assert_eq!(left.count(), 0, "{answers:?}");
        }
    }
}
