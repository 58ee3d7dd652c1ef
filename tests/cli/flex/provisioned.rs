//! What FlexVolume leaves to others: making volumes. A front before `csi flex serve` makes and deletes the folders of the example and
//! hands everything else on, so that the whole of sanity's cases about nodes and attachments has volumes to judge.

use csi_mock::{Answers, Running, Server, answer_of, message_of};
use csi_proto::v1::controller_service_capability::{Rpc, Type, rpc};
use csi_proto::v1::plugin_capability::{self, Service, service};
use csi_proto::v1::volume_capability::AccessType;
use csi_proto::v1::*;
use http::{Request, Response};
use prost::Message;
use std::fs;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower::Service as _;

/// The front, which ends when this is dropped.
pub struct Front {
    _runtime: Runtime,
}

impl Front {
    /// Serves at `socket`, before the driver at `driver`, whose volumes are folders below `volumes`.
    pub fn start(socket: &Path, driver: &Path, volumes: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let endpoint = Endpoint::try_from(format!("unix://{}", driver.display())).unwrap();
        let provisioner = Provisioner {
            driver: endpoint.connect_lazy(),
            volumes: volumes.to_owned(),
        };
        let listener = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
        let connections = listener.filter_map(Result::ok);
        let server = Server::new(provisioner);
        runtime.spawn(async move {
            let never = std::future::pending();
            server
                .serve(connections, never, std::time::Duration::ZERO)
                .await
        });
        drop(_inside);
        Self { _runtime: runtime }
    }
}

#[derive(Clone)]
struct Provisioner {
    driver: Channel,
    volumes: PathBuf,
}

impl Answers for Provisioner {
    async fn answer(&self, request: Request<Body>, _running: Running) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let answered = match path.rsplit('/').next().unwrap_or_default() {
            "CreateVolume" => self.own(request, Self::create).await,
            "DeleteVolume" => self.own(request, Self::delete).await,
            "ValidateVolumeCapabilities" => self.own(request, Self::validate).await,
            "GetPluginCapabilities" => self.more(request, with_controller).await,
            "ControllerGetCapabilities" => self.more(request, with_creation).await,
            _ => return self.hand_on(request).await,
        };
        match answered {
            Ok(message) => answer_of(vec![message], Status::ok("")),
            Err(status) => status.into_http(),
        }
    }
}

impl Provisioner {
    async fn hand_on(&self, request: Request<Body>) -> Response<Body> {
        let mut driver = self.driver.clone();
        let ready = std::future::poll_fn(|context| driver.poll_ready(context)).await;
        match ready {
            Ok(()) => match driver.call(request).await {
                Ok(answer) => answer,
                Err(error) => Status::unavailable(error.to_string()).into_http(),
            },
            Err(error) => Status::unavailable(error.to_string()).into_http(),
        }
    }

    async fn own<Q: Message + Default, R: Message>(
        &self,
        request: Request<Body>,
        answer: impl Fn(&Self, Q) -> Result<R, Status>,
    ) -> Result<Vec<u8>, Status> {
        let message = message_of(request).await?;
        let request = Q::decode(&message[..]);
        let request = request.map_err(|error| Status::invalid_argument(error.to_string()))?;
        answer(self, request).map(|reply| reply.encode_to_vec())
    }

    /// The driver's own reply, where it has the RPC, with more.
    async fn more<R: Message + Default>(
        &self,
        request: Request<Body>,
        add: impl Fn(&mut R),
    ) -> Result<Vec<u8>, Status> {
        let answer = self.hand_on(request).await;
        let (head, body) = answer.into_parts();
        let unimplemented = Status::from_header_map(&head.headers)
            .is_some_and(|status| status.code() == Code::Unimplemented);
        let mut reply = R::default();
        if !unimplemented {
            let message = message_of(Request::new(body)).await?;
            reply = R::decode(&message[..]).map_err(|e| Status::internal(e.to_string()))?;
        }
        add(&mut reply);
        Ok(reply.encode_to_vec())
    }

    fn folder(&self, id: &str) -> Result<PathBuf, Status> {
        match id.starts_with("csi-sanity-") && !id.contains(['/', '\0', '\n']) {
            true => Ok(self.volumes.join(id)),
            false => Err(Status::invalid_argument("this is no id of a volume")),
        }
    }

    fn create(&self, request: CreateVolumeRequest) -> Result<CreateVolumeResponse, Status> {
        let capabilities = &request.volume_capabilities;
        let is_block =
            |one: &VolumeCapability| matches!(one.access_type, Some(AccessType::Block(_)));
        if capabilities.is_empty() || capabilities.iter().any(is_block) {
            return Err(Status::invalid_argument(
                "volume_capabilities: folders alone",
            ));
        }
        let folder = self.folder(&request.name)?;
        fs::create_dir_all(folder).map_err(|error| Status::internal(error.to_string()))?;
        let range = request.capacity_range.unwrap_or_default();
        Ok(CreateVolumeResponse {
            volume: Some(Volume {
                capacity_bytes: range.required_bytes,
                volume_id: request.name,
                ..Default::default()
            }),
        })
    }

    fn delete(&self, request: DeleteVolumeRequest) -> Result<DeleteVolumeResponse, Status> {
        let _ = fs::remove_dir_all(self.folder(&request.volume_id)?);
        Ok(DeleteVolumeResponse {})
    }

    fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        match self.folder(&request.volume_id)?.is_dir() {
            true => Ok(ValidateVolumeCapabilitiesResponse::default()),
            false => Err(Status::not_found("there is no such volume")),
        }
    }
}

fn with_controller(reply: &mut GetPluginCapabilitiesResponse) {
    let controller = service::Type::ControllerService.into();
    let controller = plugin_capability::Type::Service(Service { r#type: controller });
    let controller = PluginCapability {
        r#type: Some(controller),
    };
    if !reply.capabilities.contains(&controller) {
        reply.capabilities.push(controller);
    }
}

fn with_creation(reply: &mut ControllerGetCapabilitiesResponse) {
    let creates = rpc::Type::CreateDeleteVolume.into();
    reply.capabilities.push(ControllerServiceCapability {
        r#type: Some(Type::Rpc(Rpc { r#type: creates })),
    });
}
