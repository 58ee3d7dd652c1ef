//! The flags of `csi proxy`, and the settings that they make together.

use clap::{ArgGroup, Args};
use csi_call::listen::socket_mode;
use csi_invocation::faults::FaultFlags;
use csi_proto::duration;
use std::path::PathBuf;
use std::time::Duration;

/// The flags of `csi proxy`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("place").required(true).args(["listen", "take_over", "stdio"])))]
pub struct ProxyFlags {
    /// Where callers find the proxy: unix:///PATH, unix-abstract:NAME or tcp://ADDRESS:PORT
    #[arg(long, value_name = "PLACE")]
    pub listen: Option<String>,
    /// Take the place of the driver on its own socket, and give it back at the end; the driver's is SOCKET.driver meanwhile
    #[arg(long, value_name = "SOCKET", conflicts_with = "to")]
    pub take_over: Option<String>,
    /// With --take-over: close the connections to the driver that exist already, so that their calls come here too
    #[arg(long, requires = "take_over", conflicts_with_all = ["listen", "stdio"])]
    pub reset: bool,
    /// Carry stdin and stdout to this driver: the far end of an exec: endpoint
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["to", "record", "quiet", "show_unknown", "delay", "fail", "drop", "drop_reply"])]
    pub stdio: Option<String>,
    /// The driver; without the flag what --endpoint names
    #[arg(long, value_name = "ENDPOINT")]
    pub to: Option<String>,
    /// Permissions of the socket of --listen, in octal
    #[arg(long, value_name = "MODE", default_value = "0660", value_parser = socket_mode)]
    pub socket_mode: u32,
    /// How long calls may take to be answered after the proxy is told to end
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub drain: Duration,
    /// Keep the calls in a file, for `csi replay`; secrets are masked
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Replace the file of --record when there is one
    #[arg(long, requires = "record")]
    pub overwrite: bool,
    /// At the end, draw the recording on a page for a browser: calls in lanes over time, with requests and replies
    #[arg(long, value_name = "FILE", requires = "record")]
    pub html: Option<PathBuf>,
    /// Show no calls
    #[arg(short, long)]
    pub quiet: bool,
    /// Show the messages of methods that CSI does not have: their fields by number, which may be secrets; nothing masks them
    #[arg(long, conflicts_with = "quiet")]
    pub show_unknown: bool,
    #[command(flatten)]
    pub(super) faults: FaultFlags,
}
