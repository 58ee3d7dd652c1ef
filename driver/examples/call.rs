#![allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::print_stdout)]
use bytes::{Buf, BufMut};
use csi_proto::value::{self, Secrets};
use tonic::codec::*;
struct Raw;
impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;
    fn encoder(&mut self) -> Raw {
        Raw
    }
    fn decoder(&mut self) -> Raw {
        Raw
    }
}
impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = tonic::Status;
    fn encode(&mut self, i: Vec<u8>, d: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        d.put_slice(&i);
        Ok(())
    }
}
impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = tonic::Status;
    fn decode(&mut self, s: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, tonic::Status> {
        let n = s.remaining();
        Ok(Some(s.copy_to_bytes(n).to_vec()))
    }
}
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let a: Vec<String> = std::env::args().collect();
    let m = csi_proto::tables::METHODS
        .iter()
        .find(|m| m.name == a[2])
        .unwrap();
    let json: serde_json::Value = serde_json::from_str(a.get(3).map_or("{}", |s| s)).unwrap();
    let bytes = csi_proto::json::encode(m.request, &json).unwrap();
    let start = std::time::Instant::now();
    let ch = tonic::transport::Endpoint::try_from(format!("unix://{}", a[1]))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut g = tonic::client::Grpc::new(ch);
    g.ready().await.unwrap();
    let r = g
        .unary(tonic::Request::new(bytes), m.path.parse().unwrap(), Raw)
        .await;
    match r {
        Ok(r) => {
            let md = format!("{:?}", r.metadata().get("csi-nfs-note"));
            let b = r.into_inner();
            println!(
                "OK {} {:.1}ms {}",
                serde_json::to_string(&value::decode(m.response, &b, Secrets::Mask).unwrap())
                    .unwrap(),
                start.elapsed().as_secs_f64() * 1e3,
                if md != "None" { md } else { String::new() }
            );
        }
        Err(s) => {
            println!(
                "{:?}: {} {:.1}ms",
                s.code(),
                s.message(),
                start.elapsed().as_secs_f64() * 1e3
            );
            std::process::exit(1)
        }
    }
}
