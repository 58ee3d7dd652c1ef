//! The context of one command, ready to be used: what it gives, and to whom.

use super::choice::{self, Origin, Selection, Selectors, Sources};
use super::file::{self, Context, Contexts, ContextsError};
use csi_arguments::capability;
use csi_error::{Error, OrError};
use csi_proto::v1::VolumeCapability;

/// The context that counts for a command.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its name.
    pub name: String,
    /// Why it counts.
    pub selection: Selection,
    /// What it says.
    pub context: Context,
    /// Its capability.
    pub capability: Option<VolumeCapability>,
    /// Whether the command's driver is its own.
    pub gives_driver: bool,
}

impl Chosen {
    /// The context for a command with this `--context` and this `--endpoint`, where `variable` names a driver too; and the
    /// driver that counts.
    ///
    /// # Errors
    /// When the contexts are needed and cannot be read, or the one that is named is not there.
    pub fn of(
        flag: Option<&str>,
        endpoint: Option<&str>,
        variable: Option<&str>,
    ) -> Result<Option<(Self, String)>, Error> {
        let driver_is_named = endpoint.or(variable).is_some();
        if flag.is_none() && driver_is_named {
            // No file is read whose content could not count.
            return Ok(None);
        }
        let by_environment = file::of_environment();
        let named = flag
            .or(by_environment.as_deref())
            .is_some_and(|name| !name.is_empty());
        let contexts = match Contexts::load() {
            Err(ContextsError::NoHome) if !named => return Ok(None),
            loaded => loaded.or_usage()?,
        };
        let of = Selectors {
            flag,
            variable: by_environment.as_deref(),
            current: contexts.current.as_deref(),
            driver_is_named,
        };
        let Some((name, selection)) = choice::context(of) else {
            return Ok(None);
        };
        let context = contexts.named(name).map_err(|error| {
            let hint = match selection {
                Selection::Flag => None,
                Selection::Variable => Some("the variable CSI_CONTEXT names it"),
                Selection::Current => {
                    Some("it is the current context: `csi context use NAME` sets another")
                }
            };
            Error::usage(error.to_string()).with_hint(hint)
        })?;
        let parsed = context.cap.as_deref().map(capability::parse).transpose();
        let capability = parsed.map_err(|error| {
            let problem = format!("the context {name}: cap: {error}");
            Error::usage(problem).hint("`csi context add --replace` writes it anew")
        })?;
        let driver = choice::value(Sources {
            flag: endpoint,
            variable,
            context: Some((selection, &*context.endpoint)),
            default: None,
        });
        Ok(driver.map(|(driver, origin)| {
            let chosen = Self {
                name: name.to_owned(),
                selection,
                context: context.clone(),
                capability,
                gives_driver: origin == Origin::Context,
            };
            (chosen, driver.to_owned())
        }))
    }

    /// Whether the driver is that of the current context, and nobody named it for this command.
    pub(crate) fn gives_driver_by_habit(&self) -> bool {
        self.gives_driver && self.selection == Selection::Current
    }
}
