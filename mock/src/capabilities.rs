//! The capabilities by their names: taken away and given in settings.

use crate::Options;
use crate::similar::{similar, suggested};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::plugin_capability::service::Type as PluginService;
use csi_proto::v1::plugin_capability::volume_expansion::Type as Expansion;
use thiserror::Error;

/// The word for every capability.
const ALL: &str = "all";

/// A capability that cannot be taken away or given.
#[derive(Debug, Error)]
pub enum CapabilityError {
    /// There is none of that name.
    #[error("there is no capability {name:?}; {}", suggested(.like, "--list-capabilities"))]
    Unknown {
        /// The name as it was written.
        name: String,
        /// Names that are like it.
        like: Vec<String>,
    },
    /// Neither taken away nor given.
    #[error("the capability {0:?} has no sign: write -{0} to take it away, or +{0} to give it")]
    NoSign(String),
}

/// A capability of any kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Capability {
    Service(PluginService),
    Expansion(Expansion),
    Controller(ControllerCapability),
    Node(NodeCapability),
}

impl Capability {
    /// The name with what has it, such as `controller/CLONE_VOLUME`; some names are had by two.
    fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Service(one) => ("plugin", one.as_str_name()),
            Self::Expansion(one) => ("plugin", one.as_str_name()),
            Self::Controller(one) => ("controller", one.as_str_name()),
            Self::Node(one) => ("node", one.as_str_name()),
        }
    }

    fn all() -> Vec<Self> {
        let options = Options::default();
        let services = options.services.into_iter().map(Self::Service);
        let expansions = [Expansion::Online, Expansion::Offline].map(Self::Expansion);
        let controller = options.controller.into_iter().map(Self::Controller);
        let node = options.node.into_iter().map(Self::Node);
        let all = services.chain(expansions).chain(controller).chain(node);
        all.collect()
    }
}

/// The names of all capabilities, each with `plugin/`, `controller/` or `node/` before it.
pub fn capability_names() -> Vec<String> {
    let names = Capability::all().into_iter().map(Capability::name);
    names
        .map(|(whose, name)| format!("{whose}/{name}"))
        .collect()
}

/// Takes a capability away, or gives it.
///
/// # Errors
/// When there is no such capability, or no sign.
pub(crate) fn change_capability(
    options: &mut Options,
    change: &str,
) -> Result<(), CapabilityError> {
    let (given, name) = match (change.strip_prefix('+'), change.strip_prefix('-')) {
        (Some(name), _) => (true, name),
        (_, Some(name)) => (false, name),
        _ => return Err(CapabilityError::NoSign(change.to_owned())),
    };
    let (wanted_of, wanted) = name.rsplit_once('/').unwrap_or(("", name));
    let mut meant = Capability::all();
    meant.retain(|one| {
        let (whose, name) = one.name();
        (wanted_of.is_empty() || wanted_of == whose)
            && (name.eq_ignore_ascii_case(wanted) || wanted == ALL)
    });
    if meant.is_empty() {
        let names = Capability::all()
            .into_iter()
            .map(|one| one.name().1.to_owned());
        return Err(CapabilityError::Unknown {
            name: name.to_owned(),
            like: similar(wanted, names),
        });
    }
    for one in meant {
        match one {
            Capability::Service(one) => set(&mut options.services, one, given),
            Capability::Controller(one) => set(&mut options.controller, one, given),
            Capability::Node(one) => set(&mut options.node, one, given),
            // One of the two, and of all that are given the better one.
            Capability::Expansion(Expansion::Offline) if given && wanted == ALL => {}
            Capability::Expansion(one) if given => options.expansion = Some(one),
            Capability::Expansion(one) => {
                options.expansion = options.expansion.filter(|now| *now != one);
            }
        }
    }
    Ok(())
}

fn set<T: PartialEq>(all: &mut Vec<T>, one: T, given: bool) {
    all.retain(|other| *other != one);
    if given {
        all.push(one);
    }
}
