//! The words in which the blocks of RPCs are written: facts, flags, rules, tables, and the output of `csc`.
//!
//! For the files of the services alone, whose blocks would all begin with the same list of imports.

pub use super::declare::{Agreements, Declare, Flags, Gives, Group, Needs, Rpc, Rules, Words};
pub use super::facts::Capability::{Controller, Group as GroupController, Node, Plugin};
pub use super::facts::Effect::{self, Changes, Makes, Reads, Undoes};
pub use super::facts::{
    ControllerCapability as C, Given, GroupCapability as G, IdKind, Making, NodeCapability as N,
    PluginCapability as P, Thing,
};
pub use super::flags::*;
pub use super::validation::exchange;
pub use super::validation::exchange::Agreement::{
    Check, EveryEntry, InCapacityRange, NewToken, NotBelowRequired, Same,
};
pub use super::validation::rule::Rule::Required;
pub use super::validation::rule::{PAGE, PLUGIN_NAME, RANGES, SUGGESTED_NAME};
pub use csi_output::csc::{self, Csc};
pub use csi_output::view::{CAPABILITIES, CellFormat, Sum, View, size, text};
pub use csi_proto::{tables, v1};
