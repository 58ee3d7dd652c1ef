//! Chooses the context of a command, and the source of each value: one order for all of them.
//!
//! Decides only; reads neither files nor variables.

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
pub fn context(of: Selectors<'_>) -> Option<(&str, Selection)> {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources<T> {
    /// The value's own flag.
    pub flag: Option<T>,
    /// The value's own variable.
    pub variable: Option<T>,
    /// The context that counts, and why it does.
    pub context: Option<(Selection, T)>,
    /// What is taken where nobody says anything.
    pub default: Option<T>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its own flag.
    Flag,
    /// Its own variable.
    Variable,
    /// The context.
    Context,
    /// Nobody said it.
    Default,
}

/// The value that counts: a flag beats `--context`, that the variable, that `CSI_CONTEXT` and the current context; the default
/// comes last.
pub fn value<T>(of: Sources<T>) -> Option<(T, Origin)> {
    let (named, implied) = match of.context {
        Some((Selection::Flag, value)) => (Some(value), None),
        Some((_, value)) => (None, Some(value)),
        None => (None, None),
    };
    let order = [
        (of.flag, Origin::Flag),
        (named, Origin::Context),
        (of.variable, Origin::Variable),
        (implied, Origin::Context),
        (of.default, Origin::Default),
    ];
    order
        .into_iter()
        .find_map(|(value, origin)| Some((value?, origin)))
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
            assert_eq!(context(of), expected, "{of:?}");
        }
    }

    #[test]
    fn a_value_has_one_order_of_sources() {
        use Selection::{Current, Flag, Variable};
        let all = |selection| Sources {
            flag: Some("flag"),
            variable: Some("variable"),
            context: Some((selection, "context")),
            default: Some("default"),
        };
        let without_flag = |selection| Sources {
            flag: None,
            ..all(selection)
        };
        let without_variable = |selection| Sources {
            variable: None,
            ..without_flag(selection)
        };
        for (sources, expected) in [
            (all(Flag), Some(("flag", Origin::Flag))),
            (all(Current), Some(("flag", Origin::Flag))),
            (without_flag(Flag), Some(("context", Origin::Context))),
            (without_flag(Variable), Some(("variable", Origin::Variable))),
            (without_flag(Current), Some(("variable", Origin::Variable))),
            (without_variable(Flag), Some(("context", Origin::Context))),
            (
                without_variable(Variable),
                Some(("context", Origin::Context)),
            ),
            (
                without_variable(Current),
                Some(("context", Origin::Context)),
            ),
            (
                Sources {
                    context: None,
                    ..without_variable(Flag)
                },
                Some(("default", Origin::Default)),
            ),
            (Sources::default(), None),
        ] {
            assert_eq!(value(sources), expected, "{sources:?}");
        }
    }
}
