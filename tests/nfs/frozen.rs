//! A part of the driver that stands still: the work folder, the log, the registration folder, its socket, a share. While it does, each
//! question is answered: Probe, `/healthz`, NodeUnpublishVolume of another volume, SIGTERM.
//!
//! A folder stands still on an NFS mount whose server is cut off: reading it hangs as well as writing. The log is a full pipe.

use crate::scene::{Share, Version};
use crate::server::{Away, Server};
use crate::support::calls::{self, Calls, Map, repeated};
use crate::support::driver::{binary, unmount_below};
use crate::support::patience::patiently;
use crate::support::process::Process;
use csi_proto::v1::{GetPluginInfoRequest, ProbeRequest};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tonic::Code;

/// How long the driver looks at what stands still before it is asked: it looks at its registration every second.
const FREEZING: Duration = Duration::from_secs(4);

/// What stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    WorkFolder,
    Log,
    RegistrationFolder,
    /// It belongs to a process that accepts nobody, and others wait there.
    RegistrationSocket,
    /// A share that is mounted over NFS.
    Share,
    /// A folder of this machine that is a share.
    LocalShare,
}

/// A driver of which one part can be frozen, with a volume that is published.
struct Rig {
    part: Part,
    server: Server,
    folder: TempDir,
    driver: Process,
    calls: Calls,
    parameters: Map,
    volume: String,
    log: Option<Pipe>,
    taken: Vec<OwnedFd>,
}

/// A pipe that nobody reads, by its name.
struct Pipe {
    path: PathBuf,
    _reader: File,
}

impl Pipe {
    fn new(path: PathBuf) -> Self {
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let both = File::options().read(true).write(true).open(&path).unwrap();
        let _reader = both;
        Self { path, _reader }
    }

    /// Leaves no room in it.
    fn fill(&self) {
        let how = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut pipe = File::from(rustix::fs::open(&self.path, how, Mode::empty()).unwrap());
        for piece in [4096, 1] {
            while pipe.write(&vec![b'\n'; piece]).is_ok() {}
        }
    }
}

impl Rig {
    async fn new(part: Part) -> Self {
        let name = format!("{part:?}").to_lowercase();
        let mut server = Server::new(&name);
        let folder = TempDir::new().unwrap();
        let inside = |name: &str| folder.path().join(name);
        let frozen = inside("frozen");
        for name in ["frozen", "targets"] {
            fs::create_dir(inside(name)).unwrap();
        }
        if part != Part::Share {
            server.mount(&frozen);
        }
        let place = |of: Part, name: &str| match of == part {
            true => frozen.join(name),
            false => inside(name),
        };
        let registry = place(Part::RegistrationFolder, "registry");
        let local = place(Part::LocalShare, "local");
        fs::create_dir(&registry).unwrap();
        fs::create_dir(&local).unwrap();
        let log = (part == Part::Log).then(|| Pipe::new(inside("log")));
        let mut command = match &log {
            Some(pipe) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "exec \"$@\" 2>\"$LOG\"", "sh"]);
                shell.env("LOG", &pipe.path).arg(binary());
                shell
            }
            None => Command::new(binary()),
        };
        let socket = |name: &str| format!("unix://{}", inside(name).display());
        command
            .args([
                "--endpoint",
                &socket("csi.sock"),
                "--http",
                &socket("http.sock"),
            ])
            .args(["--node-id", "node-1", "--drain-timeout", "5s", "--work-dir"])
            .arg(place(Part::WorkFolder, "work"))
            .arg("--kubelet-registration")
            .arg(&registry)
            .args(["--local-share", &format!("here:/local={}", local.display())])
            .current_dir("/");
        let driver = Process::start(&mut command);
        let calls = Calls::to(&socket("csi.sock"));
        let probing = || calls.call(ProbeRequest {});
        repeated(probing).await.unwrap();
        let share = Share::new(&format!("frozen-{name}"), Version::V4_2);
        let parameters = share.parameters();
        let volume = calls.create(calls::volume("volume", &parameters)).await;
        let volume = volume.unwrap().volume_id;
        let rig = Self {
            part,
            server,
            driver,
            calls,
            parameters,
            volume,
            log,
            taken: Vec::new(),
            folder,
        };
        rig.calls
            .publish(&rig.volume, &rig.parameters, &rig.target("volume"))
            .await
            .unwrap();
        rig
    }

    fn target(&self, name: &str) -> PathBuf {
        self.folder.path().join("targets").join(name)
    }

    /// The parameters of volumes on what is frozen.
    fn parameters_there(&self) -> Map {
        match self.part {
            Part::LocalShare => calls::map(&[("server", "here"), ("share", "/local")]),
            _ => self.server.share().parameters(),
        }
    }

    /// Freezes the part, and has the driver use it.
    async fn freeze(&mut self) {
        let (calls, name) = (self.calls.clone(), "elsewhere");
        match self.part {
            Part::Log => self.log.as_ref().unwrap().fill(),
            Part::RegistrationSocket => self.take_socket(),
            Part::Share | Part::LocalShare => {
                let request = calls::volume(name, &self.parameters_there());
                calls.create(request).await.unwrap();
                self.server.leave(Away::CutOff);
            }
            Part::WorkFolder | Part::RegistrationFolder => self.server.leave(Away::CutOff),
        }
        let (volume, parameters) = (self.volume.clone(), self.parameters.clone());
        let target = self.target(name);
        let there = calls::volume("there", &self.parameters_there());
        let part = self.part;
        // Nobody waits for the answers: some come when it is no longer frozen.
        tokio::spawn(async move {
            match part {
                Part::Share | Part::LocalShare => calls.create(there).await.map(drop),
                _ => {
                    // The controller remembers options that it has not seen.
                    let mut seldom = calls::volume(name, &parameters);
                    let options = seldom.parameters.get_mut("mountOptions").unwrap();
                    options.push_str(",noatime");
                    let publishing = calls.publish(&volume, &parameters, &target);
                    let (created, published) = tokio::join!(calls.create(seldom), publishing);
                    created.map(drop).and(published)
                }
            }
        });
        tokio::time::sleep(FREEZING).await;
    }

    /// Takes the registration socket, with as many in its queue as it holds.
    fn take_socket(&mut self) {
        let sockets = fs::read_dir(self.folder.path().join("registry")).unwrap();
        let own = |path: &PathBuf| path.extension().is_some_and(|it| it == "sock");
        let path = sockets.map(|it| it.unwrap().path()).find(own).unwrap();
        let beside = path.with_extension("taken");
        let address = SocketAddrUnix::new(&beside).unwrap();
        let socket = || {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
        };
        let listener = socket();
        net::bind(&listener, &address).unwrap();
        net::listen(&listener, 1).unwrap();
        self.taken.push(listener);
        loop {
            let waiting = socket();
            match net::connect(&waiting, &address) {
                Ok(()) => self.taken.push(waiting),
                Err(error) => {
                    assert_eq!(error, Errno::AGAIN);
                    break;
                }
            }
        }
        // In one step: the driver makes a lost socket anew.
        fs::rename(&beside, &path).unwrap();
    }

    /// The status of `/healthz`.
    async fn health(&self) -> String {
        let path = self.folder.path().join("http.sock");
        let ask = tokio::task::spawn_blocking(|| {
            let mut http = UnixStream::connect(path).unwrap();
            http.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = String::new();
            http.read_to_string(&mut answer).unwrap();
            answer.split(' ').nth(1).unwrap().to_owned()
        });
        patiently("an answer of /healthz", ask).await.unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.taken.clear();
        self.server.come_back_quietly();
        self.driver.kill();
        unmount_below(&self.folder.path().join("targets"));
        let how = UnmountFlags::FORCE | UnmountFlags::DETACH;
        let _ = unmount(self.folder.path().join("frozen"), how);
    }
}

/// Asks each question of a driver whose `part` stands still.
fn asked_while_it_stands_still(part: Part) {
    calls::runtime().block_on(async {
        let mut rig = Rig::new(part).await;
        rig.freeze().await;
        let told = |what: &str, begun: Instant, how: &dyn std::fmt::Debug| {
            eprintln!(
                "{part:?} stands still: {what} after {:?}: {how:?}",
                begun.elapsed()
            );
        };
        // A share is not all that there is to serve.
        let needs_it = part == Part::WorkFolder;
        let begun = Instant::now();
        rig.calls.call(GetPluginInfoRequest {}).await.unwrap();
        let probed = rig.calls.call(ProbeRequest {}).await.map(drop);
        told("Probe", begun, &probed);
        match probed {
            Err(status) if needs_it => assert_eq!(status.code(), Code::FailedPrecondition),
            probed => probed.unwrap(),
        }
        let begun = Instant::now();
        let health = rig.health().await;
        told("/healthz", begun, &health);
        assert_eq!(health, if needs_it { "503" } else { "200" });
        let begun = Instant::now();
        let unpublished = rig
            .calls
            .unpublish(&rig.volume, &rig.target("volume"))
            .await;
        told("unpublish", begun, &unpublished);
        match part {
            Part::WorkFolder => assert_eq!(unpublished.unwrap_err().code(), Code::Unavailable),
            _ => unpublished.unwrap(),
        }
        let begun = Instant::now();
        let request = calls::volume("another", &rig.parameters);
        let created = rig.calls.create(request).await.map(drop);
        told("CreateVolume elsewhere", begun, &created);
        created.unwrap();
        let begun = Instant::now();
        rig.driver.signal(Signal::TERM);
        if part == Part::Share {
            // The driver has ended then. The kernel unmounts the share for it, and may keep the process until the server is back.
            rig.driver.wait_for_error_output("ended how=");
            rig.server.come_back(Away::CutOff);
        }
        let ended = rig.driver.wait_for_death();
        told("the end by SIGTERM", begun, &ended);
        // A call that waits for the share is waited for until the drain is over.
        let is_late = matches!(part, Part::Share | Part::LocalShare);
        assert_eq!(ended.code(), Some(is_late.into()), "{ended}");
    });
}

#[test]
fn a_work_folder_that_stands_still_keeps_nobody_waiting() {
    asked_while_it_stands_still(Part::WorkFolder);
}

#[test]
fn a_log_that_nobody_reads_keeps_nobody_waiting() {
    asked_while_it_stands_still(Part::Log);
}

#[test]
fn a_registration_folder_that_stands_still_keeps_nobody_waiting() {
    asked_while_it_stands_still(Part::RegistrationFolder);
}

#[test]
fn a_registration_socket_that_accepts_nobody_keeps_nobody_waiting() {
    asked_while_it_stands_still(Part::RegistrationSocket);
}

#[test]
fn a_share_that_stands_still_keeps_nobody_waiting() {
    asked_while_it_stands_still(Part::Share);
}

#[test]
fn a_local_share_that_stands_still_keeps_nobody_waiting() {
    asked_while_it_stands_still(Part::LocalShare);
}
