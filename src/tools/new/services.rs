//! What a new driver can have, and what comes with it. Pure.

use clap::ValueEnum;
use csi_invocation::parse::word_of;

/// A service, or RPCs that belong together. Its name is that of its flag and of its marks in the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Service {
    /// Volumes are made, listed, expanded and removed.
    Controller,
    /// Volumes are mounted.
    Node,
    /// Volumes have snapshots, and are copied.
    Snapshots,
    /// Volumes are attached to nodes before they are mounted.
    Attach,
    /// Volumes are mounted once for a node before they are for pods.
    Stage,
    /// Several volumes have snapshots of one time.
    Groups,
}

use Service::{Attach, Controller, Groups, Node, Snapshots, Stage};

impl Service {
    /// What it cannot do without.
    fn needs(self) -> &'static [Self] {
        match self {
            Controller | Node => &[],
            Snapshots => &[Controller],
            // The name under which a node is known is NodeGetInfo's.
            Attach => &[Controller, Node],
            Stage => &[Node],
            Groups => &[Controller, Snapshots],
        }
    }
}

/// What one driver has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Services(Vec<Service>);

impl Services {
    /// What was asked for, with what it needs. Who names neither controller nor node gets both.
    pub fn asked(asked: &[Service]) -> Self {
        let halves = [Controller, Node];
        let both = !asked.iter().any(|one| halves.contains(one));
        let has = |service: &Service| {
            (both && halves.contains(service))
                || asked
                    .iter()
                    .any(|one| one == service || one.needs().contains(service))
        };
        let all = Service::value_variants().iter().copied();
        Self(all.filter(has).collect())
    }

    /// Whether the driver has it.
    pub fn has(&self, service: Service) -> bool {
        self.0.contains(&service)
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(word_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_comes_with_what_it_needs() {
        let every = Service::value_variants();
        for (asked, has) in [
            (vec![], vec![Controller, Node]),
            (vec![Controller], vec![Controller]),
            (vec![Node], vec![Node]),
            (vec![Snapshots], vec![Controller, Node, Snapshots]),
            (
                vec![Controller, Groups],
                vec![Controller, Snapshots, Groups],
            ),
            (vec![Node, Stage], vec![Node, Stage]),
            (vec![Controller, Stage], vec![Controller, Node, Stage]),
            (vec![Controller, Attach], vec![Controller, Node, Attach]),
            (every.to_vec(), every.to_vec()),
        ] {
            assert_eq!(Services::asked(&asked), Services(has), "{asked:?}");
        }
    }
}
