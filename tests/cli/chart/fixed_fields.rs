//! What Kubernetes lets nobody change of a class is refused before an upgrade changes anything else. An API server that has one class
//! answers `helm template --dry-run=server`; `charts/check` names helm by HELM.

use super::chart;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

const STORAGE: &str = "storage.k8s.io/v1";

fn answer(path: &str) -> Option<Value> {
    let version = json!({"groupVersion": STORAGE, "version": "v1"});
    let resource = |name: &str, kind: &str| json!({"name": name, "singularName": "", "namespaced": false, "kind": kind, "verbs": ["get"]});
    let list = |group: &str, resources: Value| json!({"kind": "APIResourceList", "groupVersion": group, "resources": resources});
    Some(match path {
        "/version" => json!({"major": "1", "minor": "36", "gitVersion": "v1.36.1"}),
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/api/v1" => list("v1", json!([])),
        "/apis" => json!({"kind": "APIGroupList", "groups": [
            {"name": "storage.k8s.io", "versions": [version], "preferredVersion": version}]}),
        "/apis/storage.k8s.io/v1" => list(
            STORAGE,
            json!([
                resource("storageclasses", "StorageClass"),
                resource("volumeattributesclasses", "VolumeAttributesClass"),
            ]),
        ),
        "/apis/storage.k8s.io/v1/storageclasses/nfs" => {
            json!({"kind": "StorageClass", "apiVersion": STORAGE, "metadata": {"name": "nfs"}, "provisioner": "nfs.csi.internal",
                "parameters": {"server": "nas", "share": "/srv"}, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
        }
        "/apis/storage.k8s.io/v1/volumeattributesclasses/keep" => {
            json!({"kind": "VolumeAttributesClass", "apiVersion": STORAGE, "metadata": {"name": "keep"},
                "driverName": "nfs.csi.internal", "parameters": {"onDelete": "retain"}})
        }
        _ => return None,
    })
}

/// Answers one request, and closes.
fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while !lines
        .next()
        .unwrap_or_else(|| Ok(String::new()))?
        .is_empty()
    {}
    let path = request.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let (status, body) = match answer(path) {
        Some(body) => ("200 OK", body),
        None => {
            let body =
                json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
            ("404 Not Found", body)
        }
    };
    let body = body.to_string();
    let length = body.len();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[test]
fn an_upgrade_that_would_end_half_done_is_refused() {
    let Some(helm) = std::env::var_os("HELM") else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    // It ends with the test.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = serve(stream.unwrap());
        }
    });
    let attributes =
        r#"attributesClasses=[{"name": "keep", "parameters": {"onDelete": "POLICY"}}]"#;
    let (kept, deleted) = (
        attributes.replace("POLICY", "retain"),
        attributes.replace("POLICY", "delete"),
    );
    for (flag, value, refused) in [
        ("--set", "log.level=debug", None),
        ("--set", "storageClass.mountOptions[0]=hard", None),
        (
            "--set",
            "server=other",
            Some("StorageClass nfs has parameters"),
        ),
        (
            "--set",
            "storageClass.parameters.onDelete=retain",
            Some("StorageClass nfs has parameters"),
        ),
        (
            "--set",
            "storageClass.reclaimPolicy=Retain",
            Some("StorageClass nfs has reclaimPolicy"),
        ),
        (
            "--set",
            "storageClass.volumeBindingMode=WaitForFirstConsumer",
            Some("StorageClass nfs has volumeBindingMode"),
        ),
        (
            "--set",
            "driverName=other.example.com",
            Some("StorageClass nfs has provisioner"),
        ),
        ("--set-json", kept.as_str(), None),
        (
            "--set-json",
            deleted.as_str(),
            Some("VolumeAttributesClass keep has parameters"),
        ),
    ] {
        let ended = Command::new(&helm)
            .arg("template")
            .arg("csi-nfs")
            .arg(chart())
            .args(["--dry-run=server", "--disable-openapi-validation"])
            .args(["--kube-apiserver", &address])
            .args(["--set", "server=nas", "--set", "share=/srv", flag, value])
            .output()
            .unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        match refused {
            Some(words) => {
                assert!(said.contains(words), "{value}: {said}");
                assert!(said.contains("kubectl delete"), "{value}: {said}");
            }
            // This server knows no other kinds, which is where it ends.
            None => assert!(said.contains("no matches for kind"), "{value}: {said}"),
        }
    }
}
