//! Callers and tenants that mean harm, against the driver as a process. What they have in common is here: requests as bytes,
//! so that any of them can be sent by one function.

mod mounts;
mod places;
mod secrets;
mod texts;

use crate::rig::Client;
use csi_proto::schema::Method;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::volume_content_source::{Type, VolumeSource};
use csi_proto::v1::*;
use prost::Message;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tonic::{Code, Status};

/// A method, and a request that is right but for one text in it.
type Case = (&'static Method, Vec<u8>);

fn case<Q: csi_proto::Request>(request: &Q) -> Case {
    (Q::METHOD, request.encode_to_vec())
}

/// Bytes as a message: what is sent is what was encoded.
#[derive(Clone, Default, Debug)]
struct Raw(Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, buffer: &mut impl bytes::BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: prost::encoding::WireType,
        buffer: &mut impl bytes::Buf,
        context: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

async fn send(client: &Client, (method, bytes): &Case) -> Result<(), Status> {
    let request = tonic::Request::new(Raw(bytes.clone()));
    let answer: Result<tonic::Response<Raw>, _> = client.send(method, request).await;
    answer.map(drop)
}

fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn capability() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: 1 }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

fn creation() -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: "v".to_owned(),
        volume_capabilities: vec![capability()],
        ..Default::default()
    }
}

fn from(kind: Type) -> CreateVolumeRequest {
    CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource { r#type: Some(kind) }),
        ..creation()
    }
}

/// In every secret, token and option value here, and in files that are nobody's business.
const SECRET: &str = "hunter2";
