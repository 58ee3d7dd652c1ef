//! Every way to name a driver, and what reaches it beside the request.

use crate::support::certificates::Certificates;
use crate::support::executable;
use crate::support::patience::until;
use crate::support::placed::of_volume;
use crate::support::program::{BINARY, Csi};
use crate::support::scripted::ScriptedDriver;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn named(driver: ScriptedDriver, name: &str) -> ScriptedDriver {
    driver.on("GetPluginInfo", json!({"name": name, "vendorVersion": "1"}));
    driver
}

#[test]
fn mutual_tls() {
    let certificates = Certificates::new();
    let driver = named(ScriptedDriver::tls(&certificates), "acquainted");
    let csi = Csi::at(driver.endpoint());
    let file = |name: &str| certificates.file(name).display().to_string();
    let info = format!("identity plugin-info -o name --cacert {}", file("ca.pem"));
    let nobody = csi.run(&info);
    assert_ne!(nobody.code, 0, "{nobody}");
    let as_client = format!(
        "{info} --cert {} --key {}",
        file("client.pem"),
        file("client.key")
    );
    csi.run(&as_client).succeeds().prints("acquainted\n");
    // The certificate is for another name than this endpoint's.
    let by_address = driver.endpoint().replace("localhost", "127.0.0.1");
    Csi::at(&by_address)
        .run(&format!("{as_client} --server-name localhost"))
        .succeeds()
        .prints("acquainted\n");
    csi.run(&format!("{info} --cert {}", file("client.pem")))
        .exits(2)
        .says("--key");
    csi.run(&format!(
        "{info} --cert /no/such.pem --key {}",
        file("client.key")
    ))
    .says("/no/such.pem");
}

#[test]
fn through_a_command() {
    let driver = named(ScriptedDriver::unix(), "far");
    let socket = driver.endpoint().strip_prefix("unix://").unwrap();
    let csi = Csi::at(&format!("exec:{BINARY} proxy --stdio {socket}"));
    let run = csi.run("identity plugin-info -o name").succeeds();
    run.prints("far\n");
    assert_eq!(driver.request().authority, "localhost");
}

#[test]
fn through_a_command_that_fails() {
    let output = Csi::new().run_args([
        "-e",
        "exec:sh -c 'echo no such pod >&2; exit 3'",
        "identity",
        "plugin-info",
    ]);
    output.exits(64 + 14).says("no such pod");
    let output = Csi::new().run_args(["-e", "exec:/no/such/program", "identity", "plugin-info"]);
    assert_ne!(output.code, 0);
    output.says("/no/such/program");
    // One that never speaks is ended with the call.
    let output = Csi::new().run_args([
        "-e",
        "exec:sleep 1000",
        "-t",
        "300ms",
        "identity",
        "plugin-info",
    ]);
    output.exits(64 + 4);
}

/// A `kubectl` that runs what it is asked for on this machine, as far as the pod of a test has it, and whose list of pods is the
/// file `kubectl.pods`.
fn kubectl(csi: Csi, in_the_pod: &str) -> Csi {
    let script = format!(
        "#!/bin/sh\n\
         printf '%s\\n' \"$*\" >> \"$0.log\"\n\
         if [ \"$1\" = get ]; then exec cat \"$0.pods\"; fi\n\
         while [ \"$1\" != -- ]; do shift; done\n\
         shift\n\
         case $1 in\n\
         {in_the_pod}\n\
         *) echo \"OCI runtime exec failed: exec: \\\"$1\\\": executable file not found in \\$PATH\" >&2; exit 126;;\n\
         esac\n"
    );
    let path = csi.home().join("kubectl");
    executable::script(&path, &script);
    let found = std::env::var("PATH").unwrap();
    let folder = path.parent().unwrap().display();
    csi.env("PATH", format!("{folder}:{found}"))
}

fn asked_of_kubectl(csi: &Csi) -> String {
    std::fs::read_to_string(csi.home().join("kubectl.log")).unwrap()
}

#[test]
fn through_a_pod() {
    let driver = named(ScriptedDriver::unix(), "in a pod");
    let socket = driver
        .endpoint()
        .strip_prefix("unix://")
        .unwrap()
        .to_owned();
    let csi_nfs = crate::support::driver::binary();
    let relay = format!("/csi-nfs) shift; exec {} \"$@\";;", csi_nfs.display());
    let csi = kubectl(Csi::new(), &relay).env("CSI_ENDPOINT", driver.endpoint());
    let ask = |csi: &Csi, endpoint: &str| {
        csi.run_args(["-e", endpoint, "identity", "plugin-info", "-o", "name"])
    };
    // The socket is the one of the container's variable, unless the endpoint names it.
    ask(&csi, "pod:csi/node-1").succeeds().prints("in a pod\n");
    let named = format!("pod:csi/node-1/nfs:{socket}");
    ask(&csi, &named).succeeds().prints("in a pod\n");
    assert_eq!(
        asked_of_kubectl(&csi),
        format!(
            "exec -i -n csi node-1 -- /csi-nfs relay\nexec -i -n csi node-1 -c nfs -- /csi-nfs relay {socket}\n"
        )
    );
    let gone = format!("{named}.gone");
    ask(&csi, &gone)
        .exits(64 + 14)
        .says("No such file or directory");
    // A pod that has the client, and one that has nothing.
    let proxy = format!("csi) shift; exec {BINARY} \"$@\";;");
    let csi = kubectl(Csi::new(), &proxy);
    ask(&csi, &named).succeeds().prints("in a pod\n");
    assert!(asked_of_kubectl(&csi).ends_with(&format!("-- csi proxy --stdio {socket}\n")));
    let csi = kubectl(Csi::new(), "");
    ask(&csi, "pod:csi/node-1")
        .exits(64 + 14)
        .says("neither /csi-nfs nor csi");
    ask(&csi, "pod:node-1").exits(2).says("pod:NAMESPACE/POD");
}

#[test]
fn kubectl_csi_finds_the_pod() {
    let driver = named(ScriptedDriver::unix(), "found");
    let csi_nfs = crate::support::driver::binary();
    let relay = format!("/csi-nfs) shift; exec {} \"$@\";;", csi_nfs.display());
    // The variable is the container's: here the flags count more.
    let csi = kubectl(Csi::new().called("kubectl-csi"), &relay);
    let csi = csi.env("CSI_ENDPOINT", driver.endpoint());
    let ask = |flags: &str| csi.run(&format!("{flags} identity plugin-info -o name"));
    csi.file("kubectl.pods", "csi nfs-node-x nfs\n");
    ask("-n csi --node worker-1").succeeds().prints("found\n");
    let asked = asked_of_kubectl(&csi);
    let (list, exec) = asked.split_once('\n').unwrap();
    for part in [
        "get pods --namespace=csi ",
        "--selector=app.kubernetes.io/name=csi-nfs,app.kubernetes.io/component=node ",
        "spec.nodeName=worker-1 ",
    ] {
        assert!(list.contains(part), "{list}");
    }
    assert_eq!(exec, "exec -i -n csi nfs-node-x -- /csi-nfs relay\n");
    csi.file("kubectl.pods", "");
    ask("--node worker-1")
        .exits(64 + 14)
        .says("no pod of csi-nfs on the node worker-1 in any namespace runs");
    csi.file("kubectl.pods", "a nfs-1 nfs\nb nfs-1 nfs\n");
    ask("-n csi").exits(64 + 14).says("a/nfs-1 and b/nfs-1");
    std::fs::remove_file(csi.home().join("kubectl.pods")).unwrap();
    ask("-n csi").exits(64 + 14).says("No such file");
    ask("-n csi -e unix:///x").exits(2);
    ask("-n -x").exits(2);
    // Without the flags another endpoint stays, and without one the controller is meant.
    ask("").succeeds().prints("found\n");
    let csi = kubectl(Csi::new().called("kubectl-csi"), "");
    csi.file("kubectl.pods", "csi nfs-controller-x nfs\n");
    csi.run("identity probe").exits(64 + 14);
    let asked = asked_of_kubectl(&csi);
    assert!(asked.contains("component=controller "), "{asked}");
    // An empty variable names no driver.
    let csi = csi.env("CSI_ENDPOINT", "");
    csi.run("identity probe").exits(64 + 14);
    Csi::new().run("-n csi identity probe").exits(2);
}

#[test]
fn what_kubectl_has_started_ends_with_it() {
    let csi = Csi::new();
    // As a plugin for credentials that hangs.
    let script = "#!/bin/sh\nsleep 1000 & echo $! >plugin\nwait\n";
    executable::script(&csi.home().join("kubectl"), script);
    let path = format!("{}:/usr/bin:/bin", csi.home().display());
    let csi = csi.env("PATH", &path);
    // Not by `run`, which would end what the client leaves.
    let mut command = csi.command();
    command.args("-e kubectl: identity probe".split(' '));
    let mut client = command.spawn().unwrap();
    let plugin = || std::fs::read_to_string(csi.home().join("plugin")).unwrap_or_default();
    until("the plugin runs", || plugin().ends_with('\n'));
    kill_process(Pid::from_child(&client), Signal::INT).unwrap();
    assert_eq!(client.wait().unwrap().code(), Some(130));
    let plugin = plugin();
    let stat = format!("/proc/{}/stat", plugin.trim());
    until("the plugin has ended", || {
        std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn metadata_is_sent() {
    let driver = named(ScriptedDriver::unix(), "listening");
    let csi = Csi::at(driver.endpoint());
    csi.run("identity plugin-info -m x-trace=7f,x-who=me -m x-who=you")
        .succeeds();
    let request = driver.request();
    assert_eq!(request.header("x-trace"), Some("7f"));
    assert_eq!(request.header("x-who"), Some("you"));
    let agent = request.header("user-agent").unwrap_or_default().to_owned();
    assert!(agent.starts_with("csi/"), "{agent}");
    csi.run("identity plugin-info -m X-Blob-Bin=/+8,authorization=@@me")
        .succeeds();
    let request = driver.requests().pop().unwrap();
    assert_eq!(request.header("x-blob-bin"), Some("/+8"));
    assert_eq!(request.header("authorization"), Some("@me"));
    for (metadata, word) in [
        ("white space=1", "white space"),
        ("x-bin=%", "base64"),
        ("foo=\u{fc}", "printable ASCII"),
        ("te=trailers", "gRPC's own"),
        (":path=/x", "HTTP/2"),
    ] {
        csi.run_args(["identity", "plugin-info", "-m", metadata])
            .exits(2)
            .says(word);
    }
}

#[test]
fn the_embedded_driver_needs_no_home() {
    let csi = Csi::new()
        .env("HOME", "/dev/null")
        .env("XDG_STATE_HOME", "");
    csi.run("-e embedded: controller create-volume one")
        .succeeds();
    let user = rustix::process::geteuid().as_raw();
    let folder = csi.home().join(format!("csi-embedded-{user}"));
    assert!(of_volume(&folder, "share/one").is_dir());
    // The same folder again, also from within the namespace that a lifecycle enters.
    csi.run("-e embedded: lifecycle").succeeds();
    let listed = csi.run("-e embedded: controller list-volumes -o name");
    assert_eq!(listed.succeeds().stdout.lines().count(), 1);

    std::fs::remove_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/nowhere", &folder).unwrap();
    csi.run("-e embedded: lifecycle")
        .exits(64 + 14)
        .says("it is a symbolic link")
        .says("embedded:DIR");
}
