//! The driver as a plugin of a kubelet: the test finds its socket in a folder and talks as the kubelet does.

use crate::rig::patience::patiently;
use crate::rig::{Client, Driver, Rig, run};
use crate::unserved;
use csi_proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use csi_proto::v1::NodeGetInfoRequest;
use http::uri::{PathAndQuery, Uri};
use rustix::process::Signal;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use tonic::transport::Endpoint;
use tonic::{Request, Status};

const OFFERED: &str = "waiting for the kubelet to register";

/// The kubelet's folder, and the driver's socket in it.
fn folder(rig: &Rig) -> (PathBuf, PathBuf) {
    let folder = rig.path("plugins_registry");
    let socket = folder.join("nfs.csi.internal@reg.sock");
    (folder, socket)
}

/// A rig with a kubelet's folder, and the flags that name it.
fn rig() -> (Rig, Vec<String>) {
    let rig = Rig::new();
    let (folder, _) = folder(&rig);
    std::fs::create_dir(&folder).unwrap();
    let flags = ["--mode", "node", "--kubelet-registration"];
    let flags = flags.map(str::to_owned).into_iter();
    let flags = flags.chain([folder.display().to_string()]).collect();
    (rig, flags)
}

fn driver(rig: &Rig, flags: &[String]) -> Driver {
    let mut driver = Driver::start(rig.driver_command().args(flags));
    driver.wait_for(OFFERED);
    driver
}

/// What the kubelet sends as HTTP/2's authority: the path of the socket, escaped where an authority has no such character.
fn authority(socket: &Path) -> String {
    let escape = |byte: &u8| match char::from(*byte) {
        kept if kept.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]@".contains(kept) => {
            kept.to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    socket.as_os_str().as_bytes().iter().map(escape).collect()
}

/// One call, as the kubelet makes it: a new connection each time.
async fn call<Q, R>(rig: &Rig, rpc: &'static str, request: Q) -> Result<R, Status>
where
    Q: prost::Message + 'static,
    R: prost::Message + Default + 'static,
{
    let socket = folder(rig).1;
    let uri = format!("unix://{}", socket.display());
    let origin = Uri::builder().scheme("http").path_and_query("/");
    let origin = origin.authority(authority(&socket)).build().unwrap();
    let endpoint = Endpoint::try_from(uri).unwrap().origin(origin);
    let mut grpc = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static(rpc);
    let codec = tonic_prost::ProstCodec::<Q, R>::default();
    let reply = patiently(rpc, grpc.unary(Request::new(request), path, codec)).await?;
    Ok(reply.into_inner())
}

async fn info(rig: &Rig) -> PluginInfo {
    let rpc = "/pluginregistration.Registration/GetInfo";
    call(rig, rpc, InfoRequest {}).await.unwrap()
}

async fn notify(rig: &Rig, error: &str) {
    let rpc = "/pluginregistration.Registration/NotifyRegistrationStatus";
    let status = RegistrationStatus {
        plugin_registered: error.is_empty(),
        error: error.to_owned(),
    };
    let _: RegistrationStatusResponse = call(rig, rpc, status).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_kubelet_finds_the_driver_and_forgets_it() {
    let (rig, flags) = rig();
    let mut driver = driver(&rig, &flags);
    let (_, socket) = folder(&rig);
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let info = info(&rig).await;
    assert_eq!(info.r#type, "CSIPlugin");
    assert_eq!(info.name, "nfs.csi.internal");
    assert_eq!(info.supported_versions, ["1.0.0"]);
    // What the kubelet does next is to call the driver there.
    assert_eq!(PathBuf::from(&info.endpoint), rig.path("csi.sock"));
    let node = Client::connect(&rig)
        .await
        .call(NodeGetInfoRequest {})
        .await;
    assert_eq!(node.unwrap().node_id, "node-1");
    notify(&rig, "no such thing as a driver").await;
    let line = driver.wait_for("the kubelet has refused this driver");
    assert!(line.contains("no such thing as a driver"), "{line}");
    notify(&rig, "").await;
    driver.wait_for("the kubelet has registered this driver");
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_kubelet_may_see_the_socket_elsewhere() {
    let (rig, mut flags) = rig();
    let seen = "/var/lib/kubelet/plugins/nfs.csi.internal/csi.sock";
    flags.extend(["--kubelet-endpoint", seen].map(str::to_owned));
    let _driver = driver(&rig, &flags);
    assert_eq!(info(&rig).await.endpoint, seen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_socket_that_is_lost_is_made_anew() {
    let (rig, flags) = rig();
    let mut driver = driver(&rig, &flags);
    let (folder, socket) = folder(&rig);
    notify(&rig, "").await;
    driver.wait_for("the kubelet has registered this driver");
    std::fs::remove_file(&socket).unwrap();
    driver.wait_for("the registration socket is lost");
    driver.wait_for(OFFERED);
    info(&rig).await;
    // A folder that comes back has the old socket in it.
    std::fs::rename(&folder, rig.path("before")).unwrap();
    driver.wait_for("the folder does not exist");
    std::fs::rename(rig.path("before"), &folder).unwrap();
    driver.wait_for(OFFERED);
    info(&rig).await;
    // As of a node that is set up again, with a pause in between. In one step: the driver makes a lost socket anew.
    std::fs::rename(&folder, rig.path("before")).unwrap();
    driver.wait_for("the folder does not exist");
    std::fs::create_dir(&folder).unwrap();
    driver.wait_for(OFFERED);
    info(&rig).await;
    // Another driver of this name takes the place, or a sidecar that was left in the pod has one of its own. It keeps it for as
    // long as it lives.
    for taken in [&socket, &folder.join("nfs.csi.internal-reg.sock")] {
        // The place is taken before the socket is gone, or as it goes: the driver would be faster now and then.
        let other = UnixListener::bind(folder.join("other")).unwrap();
        std::fs::rename(folder.join("other"), taken).unwrap();
        if *taken != socket {
            std::fs::remove_file(&socket).unwrap();
        }
        driver.wait_for("another process serves on this socket");
        drop(other);
        driver.wait_for(OFFERED);
        info(&rig).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
    let (rig, flags) = rig();
    let (folder, socket) = folder(&rig);
    unserved::socket_file(&socket);
    driver(&rig, &flags).kill();
    assert!(socket.exists());
    let first = driver(&rig, &flags);
    info(&rig).await;
    first.kill();
    let other = UnixListener::bind(folder.join("other")).unwrap();
    std::fs::rename(folder.join("other"), &socket).unwrap();
    let (status, text) = run(rig.driver_command().args(&flags));
    assert!(!status.success());
    let said = "another process serves on this socket: end it, or leave out --kubelet-registration";
    assert!(text.contains(said), "{text}");
    assert!(socket.exists());
    // The socket that was made before is not left behind.
    assert!(!rig.path("csi.sock").exists());
    drop(other);
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let (rig, mut flags) = rig();
    *flags.last_mut().unwrap() = rig.path("none").display().to_string();
    let (status, text) = run(rig.driver_command().args(&flags));
    assert!(!status.success());
    assert!(text.contains("none: the folder does not exist"), "{text}");
}
