//! An NFS server of a test's own, which it may stop, cut off and slow down while the other tests go on with theirs: the
//! kernel's, in a network namespace behind a link of its own. It speaks version 4.

use crate::scene::Share;
use crate::support::PATIENCE;
use crate::support::process::Process;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A server, what it exports, and the way to it. In the end it is stopped.
pub struct Server {
    folder: PathBuf,
    number: u32,
    /// Runs the lines that it is given in the server's namespaces.
    shell: Process,
    lines: AtomicU32,
    own_disk: bool,
    lease: u32,
}

/// A mount of a client that has an address of its own. In the end it is unmounted.
pub struct ClientBeside(PathBuf);

impl Drop for ClientBeside {
    fn drop(&mut self) {
        // It may be lost still.
        let _ = unmount(&self.0, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

/// How a server goes away.
#[derive(Clone, Copy, Debug)]
pub enum Away {
    /// It refuses connections.
    Stopped,
    /// Nothing that is sent to it is ever answered.
    CutOff,
}

/// Tells lines apart, and readies the server's side of the link.
const SHELL: &str =
    "echo ready; while read -r line; do eval \"$line\"; echo \"line $((n += 1)) gave $?\"; done";

/// What a server has mounted of its own. By their sources they are told from those that it finds, which mount(8) would leave as they are.
/// In /run the kernel looks for the port mapper, to which it would say that the main server has gone; in /var/lib/nfs the daemons
/// of the other servers have files of their own.
const MOUNTS: &str = "\
own-server /proc/fs/nfsd nfsd
own-run /run tmpfs
own-state /var/lib/nfs tmpfs
own-pipes /var/lib/nfs/rpc_pipefs rpc_pipefs X-mount.mkdir
";

/// How many seconds a client is waited for that holds something.
const LEASE: u32 = 10;

impl Server {
    /// A server that exports a new folder to everybody, who may do anything in it.
    pub fn new(name: &str) -> Self {
        Self::exporting(name, "rw,no_root_squash", None)
    }

    /// A server that exports a new folder with these options of exports(5), on a disk of its own of that size if one is
    /// given.
    pub fn exporting(name: &str, options: &str, disk: Option<&str>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let export = std::env::var("EXPORT").expect("EXPORT: start these tests with tests/run");
        let folder = Path::new(&export).join(format!("{name}-of-server-{number}"));
        fs::create_dir(&folder).unwrap();
        if let Some(size) = disk {
            let size = std::ffi::CString::new(format!("size={size}")).unwrap();
            mount("tmpfs", &folder, "tmpfs", MountFlags::empty(), &*size).unwrap();
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = Command::new("unshare");
        // Other tests unmount: no copy of what they had mounted may stay here.
        let propagation = ["--net", "--mount", "--propagation", "slave"];
        command.args(propagation).args(["sh", "-c", SHELL]);
        let shell = Process::start(&mut command);
        shell.wait_for_output("ready");
        let mut server = Self {
            folder,
            number,
            shell,
            lines: AtomicU32::new(0),
            own_disk: disk.is_some(),
            lease: LEASE,
        };
        let pid = server.shell.pid().as_raw_nonzero().to_string();
        let link = server.link();
        let (client, address) = (server.client(), server.address());
        // Programs are few: to start one takes the guest longer than what it does.
        let lines = format!(
            "link add {link} type veth peer name eth0 netns {pid}\naddress add {client}/30 dev {link}\nlink set {link} up\n"
        );
        let mut ip = Process::start(Command::new("ip").args(["-batch", "-"]));
        ip.type_in(lines);
        let ended = ip.wait(PATIENCE).unwrap();
        assert_eq!(ended.code(), 0, "{ended:?}");
        server.inside(&format!(
            "printf '%s\\n' 'address add {address}/30 dev eth0' 'link set eth0 up' 'link set lo up' | ip -batch -"
        ));
        let mounts = tempfile::NamedTempFile::new().unwrap();
        fs::write(&mounts, MOUNTS).unwrap();
        let mounts = mounts.path().display();
        server.inside(&format!("mount --all --fstab {mounts}"));
        server.inside("cd /var/lib/nfs && : >etab && : >rmtab && : >state");
        // It remembers the clients over a restart, so that nobody has to wait for those who will not come.
        server.inside("{ nfsdcld -F -p $PWD/rpc_pipefs -s $PWD & } 2>/dev/null >&2");
        server.export(options);
        server.start();
        server.inside("{ rpc.mountd -F --no-nfs-version 3 --no-udp & } 2>/dev/null >&2");
        server
    }

    /// The server's address.
    pub fn address(&self) -> String {
        format!("10.77.{}.2", self.number)
    }

    fn client(&self) -> String {
        format!("10.77.{}.1", self.number)
    }

    fn link(&self) -> String {
        format!("csi-nfs-{}", self.number)
    }

    /// The folder on the server's disk that it exports.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same as a share.
    pub fn share(&self) -> Share {
        Share::whole(&self.address(), &self.folder)
    }

    /// Exports the folder with these options of exports(5).
    fn export(&mut self, options: &str) {
        let folder = self.folder.display().to_string();
        self.inside(&format!(
            "exportfs -o {options},fsid=0,insecure,no_subtree_check '*:{folder}'"
        ));
    }

    /// Exports the folder with other options, also to clients that know it already.
    pub fn export_anew(&mut self, options: &str) {
        self.export(options);
        self.inside("exportfs -f");
    }

    /// Stops the server, as `rpc.nfsd 0` does.
    pub fn stop(&mut self) {
        self.inside("echo 0 >/proc/fs/nfsd/threads");
    }

    /// Starts it again, as `rpc.nfsd` does, with four threads.
    pub fn start(&mut self) {
        let lease = self.lease;
        self.inside(&format!(
            "cd /proc/fs/nfsd && echo '-3 +4' >versions && echo 10 >nfsv4gracetime && echo {lease} >nfsv4leasetime && \
             echo 'tcp 2049' >portlist && echo 4 >threads; at=$?; cd /var/lib/nfs; test $at = 0"
        ));
    }

    /// From now on waits for clients that hold something for longer than any test takes. To be called before it has clients.
    pub fn wait_for_ever(&mut self) {
        self.stop();
        // The most that there is.
        self.lease = 3600;
        self.start();
    }

    /// Lets it go away.
    pub fn leave(&mut self, how: Away) {
        match how {
            Away::Stopped => self.stop(),
            // It still gets what is sent, and nothing of what it says leaves it.
            Away::CutOff => {
                let client = self.client();
                self.inside(&format!("ip route add blackhole {client}/32"));
            }
        }
    }

    /// Lets it come back.
    pub fn come_back(&mut self, how: Away) {
        match how {
            Away::Stopped => self.start(),
            Away::CutOff => {
                let client = self.client();
                self.inside(&format!("ip route del blackhole {client}/32"));
            }
        }
    }

    /// Lets it come back, at the end of a test that may have failed.
    pub fn come_back_quietly(&mut self) {
        let client = self.client();
        self.shell
            .type_in(format!("ip route del blackhole {client}/32\n"));
    }

    /// Mounts the export at `folder`, with nothing of it remembered.
    pub fn mount(&mut self, folder: &Path) {
        let server = format!("{}:/", self.address());
        let options = "vers=4.2,hard,actimeo=0,lookupcache=none";
        let at = folder.display().to_string();
        run(&["mount", "-t", "nfs", "-o", options, &server, &at]);
    }

    /// Mounts the export at `folder` as a client with an address of its own, which can vanish while the machine's others stay.
    pub fn client_beside(&mut self, folder: &Path) -> ClientBeside {
        let (number, link) = (self.number, self.link());
        let ours = format!("10.78.{number}.1/30");
        run(&["ip", "address", "add", &ours, "dev", &link]);
        self.inside(&format!("ip address add 10.78.{number}.2/30 dev eth0"));
        let server = format!("10.78.{number}.2:/");
        let at = folder.display().to_string();
        // Of another minor version: for the same one the kernel sees that it knows this server, and goes the way that it has.
        run(&["mount", "-t", "nfs", "-o", "vers=4.1", &server, &at]);
        ClientBeside(folder.to_owned())
    }

    /// Lets that client vanish: it holds what it has, and is never heard of again.
    pub fn lose_client_beside(&mut self) {
        let number = self.number;
        self.inside(&format!("ip route add blackhole 10.78.{number}.1/32"));
    }

    /// Gives up waiting for it, as when the time for that has passed.
    pub fn give_up_client_beside(&mut self) {
        let number = self.number;
        self.inside(&format!(
            "for it in /proc/fs/nfsd/clients/*; do if grep -qF '\"10.78.{number}.1:' $it/info; then echo expire > $it/ctl; fi; done"
        ));
    }

    /// Lets it come back.
    pub fn find_client_beside(&mut self) {
        let number = self.number;
        self.inside(&format!("ip route del blackhole 10.78.{number}.1/32"));
    }

    /// Whether a client has a delegation of a file of that name.
    pub fn has_delegated(&self, name: &str) -> bool {
        let pid = self.shell.pid().as_raw_nonzero();
        let clients = fs::read_dir(format!("/proc/{pid}/root/proc/fs/nfsd/clients"));
        let clients = clients.unwrap().flatten();
        // A client may go meanwhile.
        let mut states = clients.filter_map(|it| fs::read_to_string(it.path().join("states")).ok());
        let is_it = |line: &str| line.contains("type: deleg") && line.contains(name);
        states.any(|states| states.lines().any(is_it))
    }

    /// Delays each of its answers by that many milliseconds.
    pub fn slow_down(&mut self, milliseconds: u32) {
        self.inside(&format!(
            "tc qdisc replace dev eth0 root netem delay {milliseconds}ms"
        ));
    }

    /// Runs a line of a shell where the server is.
    #[track_caller]
    fn inside(&mut self, line: &str) {
        let number = self.lines.fetch_add(1, Ordering::Relaxed) + 1;
        self.shell.type_in(format!("{line}\n"));
        let said = self.shell.wait_for_output(&format!("line {number} gave "));
        assert!(
            said.contains(&format!("line {number} gave 0")),
            "{line}\n{}",
            self.shell.so_far()
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The kernel's threads would outlive the namespace's last process. Its clients are to be gone by now: one that ends
        // later waits for minutes.
        self.shell
            .type_in("echo 0 >/proc/fs/nfsd/threads; echo stopped\n");
        if !std::thread::panicking() {
            self.shell.wait_for_output("stopped");
        }
        let link = self.link();
        let _ = Command::new("ip").args(["link", "del", &link]).status();
        self.shell.kill();
        if self.own_disk {
            let _ = unmount(&self.folder, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
}

fn run(words: &[&str]) {
    let status = Command::new(words[0]).args(&words[1..]).status().unwrap();
    assert!(status.success(), "{words:?}");
}
