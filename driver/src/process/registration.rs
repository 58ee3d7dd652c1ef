//! The kubelet's plugin registration: makes this driver known to the kubelet of its node, without a sidecar. Owns the socket in the
//! kubelet's plugin folder and what the kubelet has answered; must not know what the driver does.
//!
//! The kubelet watches its folder. When a socket appears it asks who is there, calls NodeGetInfo on the driver's own socket, and
//! says whether it uses the driver. When the socket goes away it forgets the driver.

use crate::calls::accepting::Connections;
use crate::process::disk_thread;
use crate::process::log::{Level, Log};
use crate::process::socket::{self, SocketError, SocketPlace};
use csi_proto::pluginregistration::registration_server::{
    Registration as Service, RegistrationServer,
};
use csi_proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use csi_proto::socket_file::{SocketFile, SocketIdentity};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// The kind of plugin, as the kubelet calls it.
const KIND: &str = "CSIPlugin";

/// The version of the kubelet's use of CSI, which is not that of the specification.
const VERSIONS: [&str; 1] = ["1.0.0"];

/// Where the kubelet looks for drivers, and where it finds this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    /// Its folder for the sockets of plugins that register.
    pub folder: PathBuf,
    /// The driver's own socket, as the kubelet sees it.
    pub endpoint: PathBuf,
}

/// How far the registration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is no socket yet: the driver is of no use to its node, for this reason.
    Held(String),
    /// The socket is there, and the kubelet has not decided.
    Offered,
    /// The kubelet uses the driver.
    Registered,
    /// The kubelet does not use the driver, for this reason. It asks again by itself.
    Refused(String),
    /// The socket is gone and cannot be made anew, for this reason.
    Lost(String),
}

impl Progress {
    /// Why the driver is not registered; nothing when it is.
    pub fn obstacle(&self) -> Option<String> {
        Some(match self {
            Self::Registered => return None,
            Self::Held(why) => why.clone(),
            Self::Offered => "the kubelet has not registered this driver yet".to_owned(),
            Self::Refused(error) => format!("the kubelet has refused this driver: {error}"),
            Self::Lost(error) => format!("the registration socket is gone: {error}"),
        })
    }
}

/// A driver that makes itself known, until this is dropped or ended.
#[derive(Debug)]
pub struct Registration {
    progress: watch::Receiver<Progress>,
    task: JoinHandle<()>,
}

impl Registration {
    /// Serves `FOLDER/DRIVER@reg.sock` from now on, or from the end of what it is `held` up by: a reason, and what waits for its
    /// end. The driver's own socket must listen already, because the kubelet calls it at once.
    ///
    /// # Errors
    /// When the socket's place is taken by another process or cannot be used, or when a sidecar registers this driver. Where the
    /// folder does not answer at once, that is tried again.
    pub async fn begin(
        kubelet: &Kubelet,
        driver_name: &str,
        log: Log,
        held: Option<(String, impl Future<Output = ()> + Send + 'static)>,
    ) -> Result<Self, SocketError> {
        // The kubelet sends the socket's path as HTTP/2's authority, with %2F for each slash. An authority may have such
        // only in what stands for a user, before an @; the HTTP library refuses any other.
        let [own, sidecars] = ["@reg", "-reg"].map(|end| SocketPlace {
            path: kubelet.folder.join(format!("{driver_name}{end}.sock")),
            mode: 0o600,
            remedy: "leave out --kubelet-registration",
        });
        let first = match &held {
            None => Progress::Offered,
            Some((why, _)) => Progress::Held(why.clone()),
        };
        let (sender, progress) = watch::channel(first);
        let offer = Arc::new(Offer {
            info: PluginInfo {
                r#type: KIND.to_owned(),
                name: driver_name.to_owned(),
                endpoint: kubelet.endpoint.to_string_lossy().into_owned(),
                supported_versions: VERSIONS.map(str::to_owned).to_vec(),
            },
            progress: sender,
            own,
            sidecars,
            log,
        });
        let task = match held {
            None => {
                let first = Arc::clone(&offer);
                let mut listening = Box::pin(async move { first.listen().await });
                // Longer than it takes to find that another process has the place.
                match timeout(2 * disk_thread::BOUND, &mut listening).await {
                    Ok(listened) => {
                        let socket = listened?;
                        offer.tell_of_offer();
                        tokio::spawn(offer.serve(socket))
                    }
                    // Calls and probes do not wait for it.
                    Err(_) => {
                        let folder = kubelet.folder.display();
                        offer.tell_of_loss(&format!("the folder {folder} does not answer yet"));
                        tokio::spawn(async move {
                            // What is wrong with the place, the next attempt tells.
                            let socket = match listening.await {
                                Ok(socket) => {
                                    offer.tell_of_offer();
                                    socket
                                }
                                Err(_) => offer.listen_again().await,
                            };
                            offer.serve(socket).await;
                        })
                    }
                }
            }
            Some((_, over)) => tokio::spawn(async move {
                over.await;
                let socket = offer.listen_again().await;
                offer.serve(socket).await;
            }),
        };
        Ok(Self { progress, task })
    }

    /// How far it is, now and from now on.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Removes the socket, upon which the kubelet forgets the driver. Tells why there was none, if the driver was held up to its end.
    pub async fn end(mut self) -> Option<String> {
        self.task.abort();
        // It was aborted, which is an error.
        let _ = (&mut self.task).await;
        match &*self.progress.borrow() {
            Progress::Held(why) => Some(why.clone()),
            _ => None,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the kubelet is told, at which place, and where its answers go.
struct Offer {
    info: PluginInfo,
    progress: watch::Sender<Progress>,
    /// The place of the socket, and that of a node-driver-registrar, of which only one may be taken.
    own: SocketPlace,
    sidecars: SocketPlace,
    log: Log,
}

impl Offer {
    /// Serves the socket, which is made anew whenever it is lost.
    async fn serve(self: Arc<Self>, socket: (UnixListener, SocketFile)) {
        let told = Arc::clone(&self);
        let tell = move |why: Option<&str>| match why {
            Some(why) => told.tell_of_loss(why),
            None => told.tell_of_offer(),
        };
        let (own, sidecars) = (self.own.clone(), self.sidecars.clone());
        // The kubelet looks at its folder, wherever an older one was moved to.
        let is_lost = |it: &SocketIdentity| !it.is_there();
        let (mut listener, _file) = socket::keep(socket, own, Some(sidecars), is_lost, tell);
        let incoming = Connections::of(move |cx| listener.poll_accept(cx), self.log);
        let ended = Server::builder()
            .add_service(RegistrationServer::from_arc(Arc::clone(&self)))
            .serve_with_incoming(incoming)
            .await;
        let why = ended
            .err()
            .map_or("it ended".to_owned(), |error| error.to_string());
        self.tell_of_loss(&why);
    }

    async fn listen(&self) -> Result<(UnixListener, SocketFile), SocketError> {
        socket::listen(&self.own, Some(&self.sidecars)).await
    }

    async fn listen_again(&self) -> (UnixListener, SocketFile) {
        let tell = |why: &str| self.tell_of_loss(why);
        let socket = socket::listen_again(&self.own, Some(&self.sidecars), tell).await;
        self.tell_of_offer();
        socket
    }

    fn tell_of_offer(&self) {
        self.progress.send_replace(Progress::Offered);
        let fields = [
            ("socket", self.own.path.display().to_string().into()),
            ("endpoint", self.info.endpoint.clone().into()),
        ];
        let what = "waiting for the kubelet to register this driver";
        self.log.event(Level::Info, what, &fields);
    }

    fn tell_of_loss(&self, why: &str) {
        self.progress.send_replace(Progress::Lost(why.to_owned()));
        let fields = [("error", why.into())];
        self.log
            .event(Level::Warn, "the registration socket is lost", &fields);
    }
}

#[tonic::async_trait]
impl Service for Offer {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        let what = "the kubelet asks who this driver is";
        self.log.event(Level::Debug, what, &[]);
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        if status.plugin_registered {
            let what = "the kubelet has registered this driver";
            self.log.event(Level::Info, what, &[]);
            self.progress.send_replace(Progress::Registered);
        } else {
            let what = "the kubelet has refused this driver";
            let fields = [("error", status.error.clone().into())];
            self.log.event(Level::Warn, what, &fields);
            self.progress.send_replace(Progress::Refused(status.error));
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
