//! The context of one command, ready to be used: which counts, what it gives, and to whom; and the one order of the sources of a value.

use super::file::{self, Context, Contexts, ContextsError};
use csi_arguments::capability;
use csi_error::{Error, OrError};
use csi_proto::v1::VolumeCapability;

/// How a context came to be the one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// By `--context`.
    Flag,
    /// By the variable `CSI_CONTEXT`.
    Variable,
    /// It is the current one, and nobody named it for this command.
    Current,
}

/// What may select a context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selectors<'a> {
    /// `--context`.
    pub flag: Option<&'a str>,
    /// `CSI_CONTEXT`.
    pub variable: Option<&'a str>,
    /// The current context of the file.
    pub current: Option<&'a str>,
    /// Whether a flag or a variable names the driver itself.
    pub driver_is_named: bool,
}

/// The context that counts, and why. One that nobody named in this command belongs to its own driver alone: its secrets and
/// parameters do not go to a driver that is named in another way.
pub fn select(of: Selectors<'_>) -> Option<(&str, Selection)> {
    if let Some(name) = of.flag {
        return Some((name, Selection::Flag));
    }
    if of.driver_is_named {
        return None;
    }
    let variable = of.variable.filter(|name| !name.is_empty());
    let by_variable = variable.map(|name| (name, Selection::Variable));
    by_variable.or_else(|| of.current.map(|name| (name, Selection::Current)))
}

/// The sources of one value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sources<T> {
    /// The value's own flag.
    pub flag: Option<T>,
    /// The value's own variable.
    pub variable: Option<T>,
    /// The context that counts, and why it does.
    pub context: Option<(Selection, T)>,
    /// What is taken where nobody says anything.
    pub default: Option<T>,
}

/// The value that counts, and whether it is the context's: a flag beats `--context`, that the variable, that `CSI_CONTEXT` and the
/// current context; the default comes last.
pub(crate) fn value<T>(of: Sources<T>) -> Option<(T, bool)> {
    let (named, implied) = match of.context {
        Some((Selection::Flag, value)) => (Some(value), None),
        Some((_, value)) => (None, Some(value)),
        None => (None, None),
    };
    let order = [
        (of.flag, false),
        (named, true),
        (of.variable, false),
        (implied, true),
        (of.default, false),
    ];
    let mut order = order.into_iter();
    order.find_map(|(value, is_of_context)| Some((value?, is_of_context)))
}

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
        let by_environment = file::variable("CSI_CONTEXT")?;
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
        let Some((name, selection)) = select(of) else {
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
        let driver = value(Sources {
            flag: endpoint,
            variable,
            context: Some((selection, &*context.endpoint)),
            default: None,
        });
        Ok(driver.map(|(driver, gives_driver)| {
            let chosen = Self {
                name: name.to_owned(),
                selection,
                context: context.clone(),
                capability,
                gives_driver,
            };
            (chosen, driver.to_owned())
        }))
    }

    /// Whether the driver is that of the current context, and nobody named it for this command.
    pub(crate) fn gives_driver_by_habit(&self) -> bool {
        self.gives_driver && self.selection == Selection::Current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_selected_by_flag_variable_and_file_in_this_order() {
        for (flag, variable, current, driver_is_named, expected) in [
            (None, None, None, false, None),
            (
                None,
                None,
                Some("c"),
                false,
                Some(("c", Selection::Current)),
            ),
            (
                None,
                Some(""),
                Some("c"),
                false,
                Some(("c", Selection::Current)),
            ),
            (
                None,
                Some("v"),
                Some("c"),
                false,
                Some(("v", Selection::Variable)),
            ),
            (
                Some("f"),
                Some("v"),
                Some("c"),
                false,
                Some(("f", Selection::Flag)),
            ),
            // Another driver: nobody asked for the context's secrets to go there.
            (None, Some("v"), Some("c"), true, None),
            (
                Some("f"),
                Some("v"),
                Some("c"),
                true,
                Some(("f", Selection::Flag)),
            ),
        ] {
            let of = Selectors {
                flag,
                variable,
                current,
                driver_is_named,
            };
            assert_eq!(select(of), expected, "{of:?}");
        }
    }

    #[test]
    fn a_value_has_one_order_of_sources() {
        use Selection::{Current, Flag, Variable};
        let counts = |flag, variable, selection: Option<Selection>| {
            let context = selection.map(|selection| (selection, "context"));
            value(Sources {
                flag,
                variable,
                context,
                default: Some("default"),
            })
        };
        let (flag, variable) = (Some("flag"), Some("variable"));
        for (found, expected) in [
            (counts(flag, variable, Some(Flag)), ("flag", false)),
            (counts(flag, variable, Some(Current)), ("flag", false)),
            (counts(None, variable, Some(Flag)), ("context", true)),
            (counts(None, variable, Some(Variable)), ("variable", false)),
            (counts(None, variable, Some(Current)), ("variable", false)),
            (counts(None, None, Some(Flag)), ("context", true)),
            (counts(None, None, Some(Variable)), ("context", true)),
            (counts(None, None, Some(Current)), ("context", true)),
            (counts(None, None, None), ("default", false)),
        ] {
            assert_eq!(found, Some(expected));
        }
        assert_eq!(value(Sources::<&str>::default()), None);
    }
}
