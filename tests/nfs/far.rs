//! Copies on a server that is far away: a folder with many names is copied through several mounts of its share, which all go
//! with the copy, or with the driver, also when the server dies.

use crate::server::{Away, Server};
use crate::support::calls::{self, Calls, repeated};
use crate::support::driver::Driver;
use crate::support::patience::until;
use crate::support::placed::of_volume;
use crate::support::process::children;
use csi_proto::v1::CreateVolumeRequest;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::process::Signal;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// How many files, each with what makes it differ from the others.
const FILES: u32 = 240;
/// Milliseconds that each answer is late, and where the copy is not to end before its server dies.
const LATE: u32 = 20;
const VERY_LATE: u32 = 80;
/// An ACL by which user 1234 may read, in the form that Linux has on disk (`linux/posix_acl_xattr.h`).
const ACL: &str = "system.posix_acl_access";

fn acl() -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let nobody = u32::MAX;
    for (tag, permissions, id) in [
        (0x01_u16, 6_u16, nobody),
        (0x02, 4, 1234),
        (0x04, 4, nobody),
        (0x10, 4, nobody),
        (0x20, 4, nobody),
    ] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Fills a volume's folder with files of every kind, all in one folder.
fn fill(folder: &Path) {
    for number in 0..FILES {
        let file = folder.join(format!("file-{number}"));
        fs::write(
            &file,
            format!("content {number}").repeat(1 + number as usize % 7),
        )
        .unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600 | (number % 0o100))).unwrap();
        let file = |name: &str| folder.join(format!("{name}-{number}"));
        match number % 4 {
            0 => fs::hard_link(file("file"), file("second")).unwrap(),
            1 => symlink(format!("file-{number}"), file("symlink")).unwrap(),
            2 => fs::create_dir(file("folder")).unwrap(),
            _ => std::os::unix::fs::lchown(file("file"), Some(number), Some(number + 1)).unwrap(),
        }
    }
    // The folder hands nothing down, and yet this file has one.
    let file = folder.join("file-3");
    setxattr(file, ACL, &acl(), XattrFlags::empty()).unwrap();
}

/// What a copy keeps of each name.
#[derive(Debug, PartialEq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    content: Vec<u8>,
    names: Vec<PathBuf>,
    acl: Vec<u8>,
}

fn seen(folder: &Path) -> BTreeMap<PathBuf, Seen> {
    let entries = fs::read_dir(folder).unwrap();
    let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let inode = |path: &PathBuf| path.symlink_metadata().unwrap().ino();
    let name = |path: &Path| PathBuf::from(path.file_name().unwrap());
    let mut names: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    for path in &paths {
        names.entry(inode(path)).or_default().push(name(path));
    }
    let look = |path: &PathBuf| {
        let metadata = path.symlink_metadata().unwrap();
        let mut names = names[&metadata.ino()].clone();
        names.sort();
        let mut value = vec![0; 1024];
        let length = match metadata.is_file() {
            true => getxattr(path, ACL, &mut value[..]).unwrap_or(0),
            false => 0,
        };
        value.truncate(length);
        let seen = Seen {
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            content: match () {
                () if metadata.is_file() => fs::read(path).unwrap(),
                () if metadata.is_symlink() => fs::read_link(path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
                () => Vec::new(),
            },
            names,
            acl: value,
        };
        (name(path), seen)
    };
    paths.iter().map(look).collect()
}

/// The superblocks of a server that this kernel has, attached to a folder or not.
fn superblocks(server: &Server) -> usize {
    let address: std::net::Ipv4Addr = server.address().parse().unwrap();
    let address = format!("{:08x}", u32::from(address));
    let all = fs::read_to_string("/proc/fs/nfsfs/volumes").unwrap();
    let of_server = |line: &&str| line.split_whitespace().nth(1) == Some(&*address);
    all.lines().filter(of_server).count()
}

/// Whether a process lives. One that is dead may wait for a parent that hangs.
fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// A driver, a far server with a volume on it, and the request for a copy of that. The driver goes first in the end.
struct Scene {
    driver: Driver,
    server: Server,
    request: CreateVolumeRequest,
}

fn scene(name: &str, args: &[&str], late: u32) -> Scene {
    let mut server = Server::new(name);
    let driver = Driver::with_args(args);
    let parameters = server.share().parameters();
    let request = calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        // On a busy machine its bound is short for a server that is there, too.
        let create = || calls.create(calls::volume("source", &parameters));
        let source = repeated(create).await.unwrap();
        fill(&of_volume(server.folder(), "source"));
        CreateVolumeRequest {
            volume_content_source: calls::of_volume(&source.volume_id),
            ..calls::volume("copy", &parameters)
        }
    });
    server.slow_down(late);
    Scene {
        driver,
        server,
        request,
    }
}

fn is_equal(server: &Server) {
    let [source, copy] = ["source", "copy"].map(|name| seen(&of_volume(server.folder(), name)));
    assert_eq!(source.len(), copy.len());
    for (name, entry) in &source {
        assert_eq!(copy.get(name), Some(entry), "{name:?}");
    }
    assert!(!source[Path::new("file-3")].acl.is_empty());
}

#[test]
fn are_made_through_several_mounts_that_all_keep_the_same() {
    let Scene {
        driver,
        server,
        request,
    } = &mut scene("far", &[], LATE);
    assert_eq!(superblocks(server), 1, "the control mount");
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        repeated(|| calls.create(request.clone())).await.unwrap();
    });
    let mounts = || driver.log().matches(" control mount export=").count();
    until("the copy has had further mounts", || mounts() > 2);
    is_equal(server);
    until("its mounts go after a copy", || superblocks(server) <= 1);
    server.slow_down(0);
}

/// A server that is cut off until this is dropped, since who uses it does not end before.
struct Gone<'a>(&'a mut Server);

impl<'a> Gone<'a> {
    fn now(server: &'a mut Server) -> Self {
        server.leave(Away::CutOff);
        Self(server)
    }
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.come_back(Away::CutOff);
    }
}

/// A hanging mount is bounded by its own time; a thread that waits for the server when its process is killed, by the server alone.
#[test]
fn on_a_server_that_dies_leave_no_helper_and_end_when_it_is_back() {
    let Scene {
        driver,
        server,
        request,
    } = &mut scene("dies", &["--mount-timeout", "10s"], VERY_LATE);
    let pid = driver.process().pid().as_raw_pid();
    let helpers = || children(pid).into_iter().flat_map(children).count();
    let (endpoint, copy) = (driver.endpoint(), request.clone());
    let copying = std::thread::spawn(move || {
        calls::runtime().block_on(async {
            let calls = Calls::to(&endpoint).within(None);
            calls.create(copy).await.unwrap_err();
        });
    });
    let mounts = || driver.log().matches(" control mount export=").count();
    until("the copy has further mounts", || mounts() > 2);
    let gone = Gone::now(server);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let target = driver.target("hangs");
        let hanging = calls.publish("volume", &request.parameters, &target);
        hanging.await.unwrap_err();
    });
    until("no helper stays", || helpers() == 0);
    copying.join().unwrap();
    // A thread of the copy that had nothing to do has given its mount back.
    assert!(driver.is_running() && superblocks(gone.0) > 1);
    let nursery = children(pid);
    driver.process().signal(Signal::KILL);
    until("the nursery goes", || {
        !nursery.iter().any(|nursery| runs(*nursery))
    });
    drop(gone);
    server.slow_down(0);
    driver.wait_for_death();
    until("its mounts go", || superblocks(server) == 0);
    driver.restart();
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        repeated(|| calls.create(request.clone())).await.unwrap();
    });
    is_equal(server);
}
