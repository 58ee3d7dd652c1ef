//! Reads the values of a configuration from the text of flags and variables, and words the errors. Must not decide what they mean.

use crate::calls::controller::NamedShare;
use crate::calls::parameters;
use crate::calls::policy::Policy;
use crate::calls::volume_id::is_share_name;
use crate::mount::control_options;
use crate::mount::option_names::is_option_name;
use crate::mount::options::{self, MountOptions};
use csi_nfs_store::export::{Export, ExportError};
use csi_nfs_store::share::records::volume::OnDelete;
use csi_nfs_store::share::token::ShareUuid;
use csi_proto::duration::{self, DurationError};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Where the driver serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket.
    Unix(PathBuf),
    /// A loopback address.
    Tcp(SocketAddr),
}

/// An export that is a folder of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalShare {
    /// What requests call it.
    pub export: Export,
    /// The folder.
    pub path: PathBuf,
}

/// Text that is not what a flag takes. The message says what it takes.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not such a value, and what one is.
    #[error("{0:?} is no {1}")]
    Value(String, &'static str),
    /// An address that other machines reach.
    #[error(
        "{0} is not a loopback address: CSI has no authentication, so whoever reaches the port could mount and delete; serve a unix socket, or 127.0.0.1"
    )]
    NotLoopback(SocketAddr),
    /// Not a duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// What stands behind a named share cannot be used.
    #[error("the share {0}: {1}")]
    Share(String, String),
    /// Not an export.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A list without an entry, and what it would mean.
    #[error("{0} is given and has no entry, which would {1}: leave it out, or give it an entry")]
    EmptyList(&'static str, &'static str),
    /// A flag that has no effect beside the others, and what to do.
    #[error("{0} has no effect {1}")]
    NoEffect(&'static str, &'static str),
    /// Two entries where one is meant.
    #[error("{0} is given twice for {1}: give it once")]
    Twice(&'static str, String),
    /// Another number of shares than one, where one is meant.
    #[error("{0} shares are given, and one is meant: name it, and its folder, by --local-share")]
    OneShare(usize),
    /// One place for calls and for HTTP.
    #[error("--endpoint and --http both name {0}: give --http another place")]
    OnePlace(String),
    /// Neither on nor off.
    #[error("{0:?} is neither on nor off: give 1, true, yes or on, or 0, false, no or off")]
    Switch(String),
}

/// What `text` was read as; else that it is no value, and `what` one is.
fn read<T>(text: &str, value: Option<T>, what: &'static str) -> Result<T, ConfigError> {
    value.ok_or_else(|| ConfigError::Value(text.to_owned(), what))
}

pub(crate) const ENDPOINT: &str = "endpoint: give unix:///run/csi.sock or tcp://127.0.0.1:10000";
const SHARE: &str = "share: give NAME=SERVER:/PATH, with mount options NAME=SERVER:/PATH,OPTION,OPTION, NAME of letters, digits, '-', '_' and '.' with a letter or digit first";
const SHARE_UUID: &str = "uuid= takes the 26 characters that stand as \"uuid\" in .csi-nfs/share.json on the share, and between '#' and the first '.' behind it in the ids of its volumes";
const SHARE_UUID_TWICE: &str = "uuid= is given twice: a share has one, give it once";
const LOCAL_SHARE: &str = "local share: give SERVER:/SHARE=/FOLDER, the folder as an absolute path";

impl FromStr for Endpoint {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::Value(text.to_owned(), ENDPOINT);
        let address = text
            .strip_prefix("tcp://")
            .or_else(|| text.strip_prefix("tcp:"));
        if let Some(address) = address {
            let address = address.replace("localhost", "127.0.0.1");
            let address: SocketAddr = address.parse().map_err(|_| wrong())?;
            if !address.ip().is_loopback() {
                return Err(ConfigError::NotLoopback(address));
            }
            return Ok(Self::Tcp(address));
        }
        let is_path = text.starts_with(['/', '.']) && !text.ends_with('/');
        let path = match text.strip_prefix("unix:") {
            Some(path) => socket_path(path),
            None => is_path.then(|| text.into()),
        };
        path.map(Self::Unix).ok_or_else(wrong)
    }
}

/// The path of a socket, as it stands behind `unix:`.
pub(crate) fn socket_path(text: &str) -> Option<PathBuf> {
    let path = text.strip_prefix("//").unwrap_or(text);
    // After two slashes comes a host in other URLs: `unix://run/x` means `/run/x` to one reader and `run/x` to the next.
    let unclear = text.starts_with("//") && !path.starts_with('/');
    (!path.is_empty() && !path.ends_with('/') && !unclear).then(|| path.into())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

impl FromStr for NamedShare {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::Value(text.to_owned(), SHARE);
        let (name, export) = text.split_once('=').ok_or_else(wrong)?;
        if !is_share_name(name) {
            return Err(wrong());
        }
        let (export, options) = export.split_once(',').unwrap_or((export, ""));
        let (server, share) = split_export(export).ok_or_else(wrong)?;
        let unusable = |why: &str| ConfigError::Share(name.to_owned(), why.to_owned());
        let mut uuid = None;
        let mut mount_options = Vec::new();
        for option in options.split(',').map(str::trim) {
            if let Some(text) = option.strip_prefix("uuid=") {
                let parsed = text.parse::<ShareUuid>();
                let parsed = parsed.map_err(|_| unusable(SHARE_UUID))?;
                if uuid.replace(parsed).is_some() {
                    return Err(unusable(SHARE_UUID_TWICE));
                }
            } else if !option.is_empty() {
                mount_options.push(option.to_owned());
            }
        }
        let words = || mount_options.iter().map(String::as_str);
        // In this order: an option that nobody knows has no effect here either, whatever --allow-mount-option names.
        control_options::refuse_without_effect(words())
            .and_then(|()| MountOptions::parse(words(), &Policy::default()))
            .map_err(|error| unusable(&error.to_string()))?;
        Ok(Self {
            name: name.to_owned(),
            export: Export::parse(server, share)?,
            mount_options,
            uuid,
        })
    }
}

impl FromStr for LocalShare {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::Value(text.to_owned(), LOCAL_SHARE);
        let at = text.find("=/").ok_or_else(wrong)?;
        let (server, share) = split_export(&text[..at]).ok_or_else(wrong)?;
        Ok(Self {
            export: Export::parse(server, share)?,
            path: PathBuf::from(&text[at + 1..]),
        })
    }
}

/// A folder of a server, `SERVER:/PATH`.
pub fn parse_export(text: &str) -> Result<Export, ConfigError> {
    let what = "folder of a server: give SERVER:/PATH";
    let (server, path) = read(text, split_export(text), what)?;
    Ok(Export::parse(server, path)?)
}

/// `SERVER:SHARE`, where the server may be an IPv6 address.
fn split_export(text: &str) -> Option<(&str, &str)> {
    if text.starts_with('[') {
        let at = text.find("]:")?;
        return Some((&text[..=at], &text[at + 2..]));
    }
    text.find(":/")
        .or_else(|| text.find(':'))
        .map(|at| (&text[..at], &text[at + 1..]))
}

/// The name of a mount option, for a list of allowed ones.
pub fn parse_option_name(text: &str) -> Result<String, ConfigError> {
    let is_lower = !text.contains(|c: char| c.is_ascii_uppercase());
    // Comments may have capitals.
    let is_name = is_option_name(text) && (is_lower || text.starts_with("x-"));
    let what = "name of a mount option: give the name alone, such as vers, in lower case and without a value";
    read(text, is_name.then(|| text.to_owned()), what)
}

/// The name of a mount option that requests can have, since it means something or is among the `allowed` ones.
///
/// # Errors
/// When it is none: a list would never meet it.
pub fn parse_known_option(text: &str, allowed: &[String]) -> Result<String, ConfigError> {
    let name = parse_option_name(text)?;
    let is_known = options::has_rule(&name) || allowed.contains(&name);
    let what = "mount option that the kernel's NFS client knows, so no request has it: correct it, leave it out, or add it to --allow-mount-option";
    read(text, is_known.then_some(name), what)
}

/// A server in the list of those that requests may name: a host, an address, or `*.` and a domain.
pub fn parse_server(text: &str) -> Result<String, ConfigError> {
    let domain = text.strip_prefix("*.");
    let export = Export::parse(domain.unwrap_or(text), "/").ok();
    let is_server = export.is_some_and(|export| {
        let server = export.server();
        let address = server
            .split_once('%')
            .map_or(server, |(address, _)| address);
        !address.contains(':') || (domain.is_none() && address.parse::<Ipv6Addr>().is_ok())
    });
    let what = "server: give a host name, an address or *.DOMAIN, without a port";
    read(text, is_server.then(|| text.to_owned()), what)
}

/// A year is far beyond any sense, and keeps deadlines within what clocks can say.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// How long something may take at most, such as `30s`, `1m30s` or `100ms`.
///
/// # Errors
/// When the text is no duration, or one that bounds nothing.
pub fn parse_bound(text: &str) -> Result<Duration, ConfigError> {
    let bound = duration::parse(text)?;
    let bound = (!bound.is_zero() && bound <= LONGEST).then_some(bound);
    read(
        text,
        bound,
        "bound: give more than 0 and at most a year, 8760h",
    )
}

/// How often something is done.
///
/// # Errors
/// When the text is no duration, or one that is shorter than a second or longer than a year.
pub fn parse_interval(text: &str) -> Result<Duration, ConfigError> {
    let interval = duration::parse(text)?;
    let is_one = (Duration::from_secs(1)..=LONGEST).contains(&interval);
    let what = "interval: give 1s or more, and at most a year, 8760h";
    read(text, is_one.then_some(interval), what)
}

/// Permission bits of the socket in octal.
///
/// # Errors
/// When the text is not octal, has other bits than permissions, or lets nobody write, without which nobody can connect.
pub fn parse_socket_mode(text: &str) -> Result<u32, ConfigError> {
    // The parser of numbers would take a sign.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| digits && *mode <= 0o777 && mode & 0o222 != 0);
    let what = "socket mode: give octal digits up to 777 that let somebody write, such as 0660";
    read(text, mode, what)
}

/// The mode of volumes' folders, in octal; 0 is none.
pub fn parse_mount_permissions(text: &str) -> Result<u32, ConfigError> {
    let what = "mode: say an octal one such as 0770, at most 7777";
    read(text, parameters::mode(text).ok(), what)
}

/// What becomes of a volume that is deleted.
pub fn parse_on_delete(text: &str) -> Result<OnDelete, ConfigError> {
    let what = "policy: give delete, retain or archive";
    read(text, OnDelete::parse(text), what)
}

/// A switch in a variable; an empty one is off.
///
/// # Errors
/// When the text is neither on nor off.
pub fn parse_switch(text: &str) -> Result<bool, ConfigError> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "" | "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(ConfigError::Switch(text.to_owned())),
    }
}

/// The shares that `--share` names, each name once.
///
/// # Errors
/// When a word is no share, or two have the same name.
pub fn parse_shares(words: &[String]) -> Result<Vec<NamedShare>, ConfigError> {
    let name = |share: &NamedShare| share.name.clone();
    distinct("--share", words, name)
}

/// The folders that `--local-share` names, each export once.
///
/// # Errors
/// When a word is no local share, or two have the same export.
pub fn parse_local_shares(words: &[String]) -> Result<Vec<LocalShare>, ConfigError> {
    let export = |share: &LocalShare| share.export.to_string();
    distinct("--local-share", words, export)
}

/// The values of `flag`, of which no two have the same key: which one counts would be chance.
fn distinct<T: FromStr<Err = ConfigError>>(
    flag: &'static str,
    words: &[String],
    key: impl Fn(&T) -> String,
) -> Result<Vec<T>, ConfigError> {
    let mut seen = BTreeSet::new();
    let parsed = named(words).into_iter().map(|word| {
        let entry: T = word.parse()?;
        match seen.insert(key(&entry)) {
            true => Ok(entry),
            false => Err(ConfigError::Twice(flag, key(&entry))),
        }
    });
    parsed.collect()
}

/// The words of a list. A variable may be empty or end with a separator, as a block of YAML does.
pub fn named(words: &[String]) -> Vec<&str> {
    let trimmed = words.iter().map(|word| word.trim());
    trimmed.filter(|word| !word.is_empty()).collect()
}

/// The name of a driver as the specification allows it (GetPluginInfo, `name`).
pub fn parse_driver_name(text: &str) -> Result<String, ConfigError> {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let good = text.len() <= 63
        && text.chars().all(fine)
        && ends(text.chars().next())
        && ends(text.chars().last());
    let what =
        "driver name: at most 63 letters, digits, '-' and '.', with a letter or digit at both ends";
    read(text, good.then(|| text.to_owned()), what)
}

/// The id of a node: at most 192 bytes, because older orchestrators take no more.
pub fn parse_node_id(text: &str) -> Result<String, ConfigError> {
    let good = (1..=192).contains(&text.len()) && !text.chars().any(char::is_control);
    let what = "node id: 1 to 192 bytes without control characters";
    read(text, good.then(|| text.to_owned()), what)
}

/// The name of this host as the id of a node.
pub fn host_node_id() -> Result<String, ConfigError> {
    parse_node_id(&rustix::system::uname().nodename().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn endpoints() {
        let unix = |path: &str| Endpoint::Unix(PathBuf::from(path));
        assert_eq!("unix:///run/csi.sock".parse(), Ok(unix("/run/csi.sock")));
        assert_eq!("unix:/run/csi.sock".parse(), Ok(unix("/run/csi.sock")));
        assert_eq!("unix:csi.sock".parse(), Ok(unix("csi.sock")));
        assert_eq!("/run/csi.sock".parse(), Ok(unix("/run/csi.sock")));
        assert_eq!("./csi.sock".parse(), Ok(unix("./csi.sock")));
        let tcp = Endpoint::Tcp(([127, 0, 0, 1], 9).into());
        assert_eq!("tcp://127.0.0.1:9".parse(), Ok(tcp.clone()));
        assert_eq!("tcp://localhost:9".parse(), Ok(tcp));
        assert!("tcp://[::1]:9".parse::<Endpoint>().is_ok());
        for refused in ["tcp://0.0.0.0:9", "tcp://10.0.0.1:9", "tcp://[::]:9"] {
            let error = refused.parse::<Endpoint>().unwrap_err();
            assert!(matches!(error, ConfigError::NotLoopback(_)), "{refused}");
        }
        for wrong in [
            "",
            "unix:",
            "unix:///",
            "unix://run/x.sock",
            "http://x",
            "tcp://x",
            "run",
        ] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn shares() {
        let share: NamedShare = "home=[fe80::1]:/srv/x".parse().unwrap();
        assert_eq!(share.name, "home");
        assert_eq!(share.export.to_string(), "[fe80::1]:/srv/x");
        let share: NamedShare = "home=fe80::1:/srv".parse().unwrap();
        assert_eq!(share.export.to_string(), "[fe80::1]:/srv");
        let share: NamedShare = "home=nas:/srv,vers=3, tcp".parse().unwrap();
        assert_eq!(share.export.to_string(), "nas:/srv");
        assert_eq!(share.mount_options, ["vers=3", "tcp"]);
        assert_eq!(share.uuid, None);
        let uuid = "4g2v0".to_owned() + &"0".repeat(21);
        let share: NamedShare = format!("home=nas:/srv,tcp,uuid={uuid}").parse().unwrap();
        assert_eq!(share.uuid.unwrap().to_string(), uuid);
        assert_eq!(share.mount_options, ["tcp"]);
        for (options, why) in [
            ("nocto", "nocto"),
            (
                "foo=1",
                "\"foo\" has no effect on the controller's own mount",
            ),
            ("uuid=4g2v0", "26 characters"),
            (&format!("uuid={uuid},tcp,uuid={uuid}"), "given twice"),
        ] {
            match format!("home=nas:/srv,{options}").parse::<NamedShare>() {
                Err(ConfigError::Share(name, text)) => {
                    assert_eq!(name, "home");
                    assert!(text.contains(why), "{text}");
                }
                other => panic!("{options}: {other:?}"),
            }
        }
        let wrong = "home=nas:/srv,addr=10.0.0.5".parse::<NamedShare>();
        assert!(wrong.unwrap_err().to_string().contains("addr"));
        let share: LocalShare = "nas:data=/srv/a=b".parse().unwrap();
        assert_eq!(share.export.to_string(), "nas:/data");
        assert_eq!(share.path, Path::new("/srv/a=b"));
        for wrong in ["x", "=nas:/x", "a b=nas:/x", "a=nas", "a=nas:"] {
            assert!(wrong.parse::<NamedShare>().is_err(), "{wrong:?}");
        }
        for wrong in ["nas:/x", "nas:/x=rel", "nas=/x"] {
            assert!(wrong.parse::<LocalShare>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn bounds() {
        assert_eq!(parse_bound("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_bound("8760h"), Ok(Duration::from_secs(365 * 86_400)));
        for wrong in ["0s", "0", "8760h1ns"] {
            assert!(matches!(parse_bound(wrong), Err(ConfigError::Value(..))));
        }
        let unit = parse_bound("30");
        assert!(matches!(
            unit,
            Err(ConfigError::Duration(DurationError::NoUnit(_)))
        ));
    }

    #[test]
    fn intervals() {
        assert_eq!(parse_interval("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(parse_interval("8760h"), Ok(LONGEST));
        for wrong in ["0", "999ms", "8760h1ns"] {
            assert!(matches!(parse_interval(wrong), Err(ConfigError::Value(..))));
        }
    }

    #[test]
    fn names() {
        assert!(parse_driver_name("nfs.csi.k8s.io").is_ok());
        for wrong in ["", "-x", "x.", "a_b", &"x".repeat(64)] {
            assert!(parse_driver_name(wrong).is_err(), "{wrong:?}");
        }
        assert!(parse_node_id("").is_err());
        assert!(parse_node_id("a\nb").is_err());
        assert_eq!(parse_socket_mode("0660"), Ok(0o660));
        for wrong in ["8", "1777", "0", "0000", "+7", "444", "", "-1"] {
            assert!(parse_socket_mode(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(parse_switch("On"), Ok(true));
        assert_eq!(parse_switch(""), Ok(false));
        assert!(parse_switch("maybe").is_err());
    }
}
