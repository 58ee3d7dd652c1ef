//! `csi-nfs take-in`: enforces from now on the sizes of volumes that were made without an agent. Owns its command line and what it
//! says; what is done to a volume is the business of `share::volume::enable_quota`.

use crate::calls::volume_id::VolumeId;
use crate::process::config::{self, ConfigError, LocalShare};
use crate::process::log::{Format, Level, Log};
use crate::process::privileges::Needs;
use crate::process::start;
use clap::Args;
use csi_nfs_store::files::roots::local::open_folder;
use csi_nfs_store::quota::enable_quota::Found;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::records::store;
use csi_nfs_store::share::records::volume::Volume;
use csi_nfs_store::share::token::NameKey;
use csi_nfs_store::share::volume::enable_quota::{EnableQuotaError, enable_quota};
use csi_proto::escaped;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

/// The command line.
#[derive(Args, Debug)]
pub struct TakeIn {
    /// The export, and the folder that it is here; where the variable has several, one on each line, the one that is meant
    #[arg(
        long = "local-share",
        env = "CSI_NFS_LOCAL_SHARES",
        value_name = "SERVER:SHARE=PATH",
        value_delimiter = '\n',
        required = true
    )]
    shares: Vec<String>,

    /// Do it: no pod has any of these volumes
    #[arg(long, conflicts_with = "i_accept_exdev")]
    unpublished: bool,

    /// Do it, though pods may have them: until all of a volume is in its project, renaming a file from one of its folders to
    /// another may fail with EXDEV
    #[arg(long)]
    i_accept_exdev: bool,

    /// The volumes, by their names or ids; all of the share when there is none
    #[arg(value_name = "VOLUME")]
    volumes: Vec<String>,
}

impl TakeIn {
    /// The share whose volumes are meant.
    ///
    /// # Errors
    /// When it is none, or not the only one.
    pub fn share(&self) -> Result<LocalShare, ConfigError> {
        let [share] = <[_; 1]>::try_from(config::parse_local_shares(&self.shares)?)
            .map_err(|shares| ConfigError::OneShare(shares.len()))?;
        Ok(share)
    }
}

/// Takes volumes of `share` in, or says what that would do. Returns whether all that were named could be.
///
/// # Errors
/// When the share cannot be used, or there is no volume of a name.
pub fn run(command: &TakeIn, share: &LocalShare) -> Result<bool, Box<dyn Error>> {
    drop(start::prepare(
        Needs::of_agent(true),
        Log::to_stderr(Format::Text, Level::Warn),
    )?);
    let path = &share.path;
    let root =
        open_folder(path, Path::new("")).map_err(|error| format!("{}: {error}", path.display()))?;
    let share = Share::open(root, Expect::Initialised)?;
    let share = share.as_agent()?.with_quotas();
    let is_dry = !(command.unpublished || command.i_accept_exdev);
    let keys = match command.volumes.as_slice() {
        [] => store::keys::<Volume>(&share)?,
        named => {
            let keys = named.iter().map(|word| key(&share, word));
            keys.collect::<Result<_, _>>()?
        }
    };
    let (mut taken_in, mut enforced, mut refused) = (0, 0, 0);
    let mut out = io::stdout().lock();
    for key in keys {
        // One after the other: what is taken in is told even if the next one fails.
        let taken = enable_quota(&share, key, is_dry);
        match &taken {
            Ok(_) => taken_in += 1,
            Err(EnableQuotaError::Enforced) => enforced += 1,
            Err(_) => refused += 1,
        }
        let is_named = !command.volumes.is_empty();
        if is_named || !matches!(taken, Err(EnableQuotaError::Enforced)) {
            out.write_all(page(&label(&share, key), &taken).as_bytes())?;
        }
    }
    writeln!(out, "{}", sentence(is_dry, taken_in, refused, enforced))?;
    Ok(refused == 0 || (is_dry && command.volumes.is_empty()))
}

/// The key of a volume that is named, or whose id is given.
fn key(share: &Share, word: &str) -> Result<NameKey, String> {
    let (key, nonce) = match word.parse::<VolumeId>() {
        Ok(id) if id.uuid != share.uuid() => return Err(format!("{word}: is on another share")),
        Ok(id) => (id.key, Some(id.nonce)),
        Err(_) => (NameKey::of(word), None),
    };
    match store::find::<Volume>(share, key) {
        Ok(None) => Err(format!("{word}: {}", ShareError::NoVolume)),
        Ok(Some(newer)) if nonce.is_some_and(|nonce| nonce != newer.record.nonce) => Err(format!(
            "{word}: was deleted, and a newer volume has its name: give the name {} if that one is meant",
            escaped(&newer.record.what.wanted.name)
        )),
        _ => Ok(key),
    }
}

/// How a volume is called: by its name and path, where its record can be read.
fn label(share: &Share, key: NameKey) -> String {
    match store::find::<Volume>(share, key) {
        Ok(Some(found)) => format!(
            "{} ({})",
            escaped(&found.record.what.wanted.name),
            escaped(&found.record.what.path.to_string())
        ),
        _ => key.to_string(),
    }
}

/// What is said of one volume.
fn page(label: &str, taken: &Result<Found, EnableQuotaError>) -> String {
    let found = match taken {
        Ok(found) => found,
        Err(error) => return format!("{label}: not taken in: {error}\n"),
    };
    let mut page = format!(
        "{label}: {} folders and {} files, {} bytes\n",
        found.folders, found.files, found.used.bytes
    );
    for (path, why) in &found.outside {
        page += &format!("  {} {why}\n", escaped(&path.display().to_string()));
    }
    let unsaid = found.outside_count - found.outside.len() as u64;
    if unsaid > 0 {
        page += &format!("  and {unsaid} more\n");
    }
    page
}

/// What is said in the end: how many were taken in, or could be, how many not, and of how many the size is enforced already.
fn sentence(is_dry: bool, taken_in: usize, refused: usize, enforced: usize) -> String {
    let can = if is_dry {
        "can be taken in"
    } else {
        "taken in"
    };
    let counts = format!("{can}: {taken_in}, not: {refused}, enforced already: {enforced}");
    if !is_dry || taken_in == 0 {
        return counts;
    }
    format!(
        "{counts}\nNothing was changed. To take them in, end the pods that have them, which cannot be seen from here, and \
         add --unpublished; or add --i-accept-exdev."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_nfs_store::quota::amounts::Amounts;
    use csi_nfs_store::quota::enable_quota::Because;

    #[test]
    fn what_is_said() {
        let found = Found {
            folders: 2,
            files: 3,
            used: Amounts {
                bytes: 4096,
                inodes: 5,
            },
            outside: vec![("a/link\u{1b}[2J\nw (x)".into(), Because::Kind)],
            outside_count: 4,
            busy: 0,
        };
        let page = page("v (path)", &Ok(found));
        let lines: Vec<_> = page.lines().collect();
        assert_eq!(lines[0], "v (path): 2 folders and 3 files, 4096 bytes");
        let expected = r"  a/link\u{1b}[2J\nw (x) is neither";
        assert!(lines[1].starts_with(expected), "{}", lines[1]);
        assert_eq!(lines[2], "  and 3 more");
        let refused = Err(EnableQuotaError::Refused(
            "it was made without a size".to_owned(),
        ));
        let page = super::page("v", &refused);
        assert_eq!(page, "v: not taken in: it was made without a size\n");
    }

    #[test]
    fn a_dry_run_says_how_to_do_it() {
        assert!(!sentence(true, 0, 0, 0).contains("--unpublished"));
        let said = sentence(true, 1, 1, 1);
        assert!(said.starts_with("can be taken in: 1, not: 1, enforced already: 1\n"));
        assert!(said.contains("--unpublished") && said.contains("--i-accept-exdev"));
        assert!(!sentence(false, 1, 1, 1).contains("--unpublished"));
    }
}
