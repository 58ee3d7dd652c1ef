//! The settings: what the driver is to be, as people write it by flags or in a file, which is read again while it runs.
//!
//! Owns their names and syntax, and what is said of a wrong one. What each does is said where the driver does it.

use crate::capabilities::{CapabilityError, change_capability};
use crate::options::{SMALLEST, TODAY};
use crate::similar::{similar, suggested};
use crate::{Defect, Options};
use csi_proto::duration::{self, DurationError};
use csi_proto::faults::{self, FaultError, FaultRule, Named, PlannedEnd};
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// The most bytes of a node's id: NodeGetInfoResponse.
const MAX_NODE_ID: usize = 256;

/// The most bytes of a file.
const MOST: u64 = 16 << 20;

/// What the driver is to be, as it is written. What is not said is as in a driver that has everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// `-NAME` takes a capability away, `+NAME` gives it; `-all` takes away all of them.
    #[serde(deserialize_with = "texts")]
    pub capability: Vec<String>,
    /// The name of a [`Defect`].
    pub defect: Option<String>,
    /// `[METHOD=]DURATION`.
    #[serde(deserialize_with = "texts")]
    pub delay: Vec<String>,
    /// `METHOD=CODE[:N]`.
    #[serde(deserialize_with = "texts")]
    pub fail: Vec<String>,
    /// `METHOD[:N]`.
    #[serde(deserialize_with = "texts")]
    pub drop: Vec<String>,
    /// `METHOD[:N]`.
    #[serde(deserialize_with = "texts")]
    pub drop_reply: Vec<String>,
    /// How long a change takes.
    pub pace: Option<String>,
    /// How many answers show a snapshot that is not ready yet.
    pub looks_until_ready: Option<u32>,
    /// The secrets that calls must carry.
    pub secrets: BTreeMap<String, String>,
    /// The nodes; the first is the driver's own.
    #[serde(deserialize_with = "texts")]
    pub nodes: Vec<String>,
    /// How many volumes can be attached to one node.
    pub max_volumes_per_node: Option<i64>,
    /// How many volumes there can be.
    pub max_volumes: Option<usize>,
    /// The room for volumes, in bytes.
    pub capacity: Option<i64>,
    /// The bytes of the largest volume.
    pub max_volume_size: Option<i64>,
    /// The minor version of CSI 1 that it was written for.
    pub specification: Option<u32>,
}

/// A list of texts, of which one may stand alone.
fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Texts;

    impl<'de> Visitor<'de> for Texts {
        type Value = Vec<String>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("a text or a list of texts")
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }

    from.deserialize_any(Texts)
}

/// Settings that cannot be used.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// A capability that cannot be understood.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// There is no defect of that name.
    #[error("there is no defect {name:?}; {}", suggested(.like, "--list-defects"))]
    Defect {
        /// The name as it was written.
        name: String,
        /// Names that are like it.
        like: Vec<String>,
    },
    /// The defect may end the process.
    #[error("the defect {0:?} may end the process, so only `csi mock` can have it")]
    Fatal(Defect),
    /// A fault that cannot be understood.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A specification that is not there yet.
    #[error("there is no CSI 1.{0}: the newest that is known is 1.{TODAY}")]
    Specification(u32),
    /// A limit with which no driver keeps the specification.
    #[error("{name} cannot be {value}: the least is {least}")]
    TooSmall {
        /// The setting.
        name: &'static str,
        /// What it would be.
        value: i64,
        /// The least that it can be.
        least: i64,
    },
    /// A node that no driver can have.
    #[error("the node {0:?} has {len} bytes: an id has 1 to {MAX_NODE_ID}", len = .0.len())]
    Node(String),
    /// A pace that is no duration.
    #[error(transparent)]
    Pace(#[from] DurationError),
    /// A file that is none of settings.
    #[error("line {line} of the settings: {problem}")]
    File {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A file that cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl SettingsError {
    fn in_file(text: &str, mut error: toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        // Given the text, the library would draw the line; without it, it names the key.
        error.set_input(None);
        Self::File {
            line: text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1,
            problem: error.to_string().trim_end().replace('\n', " "),
        }
    }
}

/// What settings mean.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What the driver is.
    pub options: Options,
    /// What befalls its calls on purpose.
    pub faults: Vec<FaultRule>,
}

impl From<Options> for Rules {
    fn from(options: Options) -> Self {
        let faults = Vec::new();
        Self { options, faults }
    }
}

impl Settings {
    /// Those of a file.
    fn of_file(text: &str) -> Result<Self, SettingsError> {
        toml::from_str(text).map_err(|error| SettingsError::in_file(text, error))
    }

    /// These, and what a file says besides. Of a single value the file's counts, and faults are those of the file.
    #[must_use]
    pub fn and(mut self, file: Self) -> Self {
        self.capability.extend(file.capability);
        self.secrets.extend(file.secrets);
        if !file.nodes.is_empty() {
            self.nodes = file.nodes;
        }
        Self {
            defect: file.defect.or(self.defect),
            pace: file.pace.or(self.pace),
            looks_until_ready: file.looks_until_ready.or(self.looks_until_ready),
            max_volumes_per_node: file.max_volumes_per_node.or(self.max_volumes_per_node),
            max_volumes: file.max_volumes.or(self.max_volumes),
            capacity: file.capacity.or(self.capacity),
            max_volume_size: file.max_volume_size.or(self.max_volume_size),
            specification: file.specification.or(self.specification),
            delay: file.delay,
            fail: file.fail,
            drop: file.drop,
            drop_reply: file.drop_reply,
            ..self
        }
    }

    /// What they mean. `named` finds the methods of a name in a fault.
    ///
    /// # Errors
    /// When there is no such name, or a value is none.
    pub fn rules(&self, named: Named) -> Result<Rules, SettingsError> {
        let mut options = match self.specification {
            Some(minor) if minor > TODAY => {
                return Err(SettingsError::Specification(minor));
            }
            Some(minor) => Options::of_specification(minor),
            None => Options::default(),
        };
        // In the order of the writing: the last word about a capability counts.
        for change in &self.capability {
            change_capability(&mut options, change)?;
        }
        let may_be = |node: &&String| (1..=MAX_NODE_ID).contains(&node.len());
        if let Some(node) = self.nodes.iter().find(|node| !may_be(node)) {
            return Err(SettingsError::Node(node.clone()));
        }
        options.defect = self.defect.as_deref().map(defect_named).transpose()?;
        options.pace = match &self.pace {
            Some(pace) => duration::parse(pace)?,
            None => Duration::ZERO,
        };
        options.secrets.clone_from(&self.secrets);
        if !self.nodes.is_empty() {
            options.nodes.clone_from(&self.nodes);
        }
        options.looks_until_ready = self.looks_until_ready.unwrap_or_default();
        options.max_volumes = self.max_volumes.unwrap_or_default();
        for (name, value, least, option) in [
            (
                "max-volumes-per-node",
                self.max_volumes_per_node,
                0,
                &mut options.max_volumes_per_node,
            ),
            ("capacity", self.capacity, 0, &mut options.capacity),
            (
                "max-volume-size",
                self.max_volume_size,
                SMALLEST,
                &mut options.largest,
            ),
        ] {
            let value = value.unwrap_or(*option);
            if value < least {
                return Err(SettingsError::TooSmall { name, value, least });
            }
            *option = value;
        }
        let mut faults = Vec::new();
        for text in &self.delay {
            faults.push(faults::delay(text, named)?);
        }
        for text in &self.fail {
            faults.push(faults::fail(text, named)?);
        }
        for text in &self.drop {
            faults.push(faults::drop(text, PlannedEnd::Drop, named)?);
        }
        for text in &self.drop_reply {
            faults.push(faults::drop(text, PlannedEnd::DropReply, named)?);
        }
        Ok(Rules { options, faults })
    }
}

fn defect_named(name: &str) -> Result<Defect, SettingsError> {
    let mut all = Defect::ALL.iter();
    let found = all.find(|defect| defect.name().eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| SettingsError::Defect {
        name: name.to_owned(),
        like: similar(name, Defect::ALL.iter().map(|one| format!("{one:?}"))),
    })
}

/// Hears why a file that has changed is not used, in one sentence.
pub type Warn = Box<dyn Fn(&str) + Send>;

/// A file of settings that add to those of flags. One that is not there says nothing.
pub struct SettingsFile {
    path: PathBuf,
    flags: Settings,
    faults: Vec<FaultRule>,
    named: Named,
    /// Whether defects are taken that may end the process.
    takes_fatal: bool,
    warn: Warn,
    seen: Option<Stamp>,
}

/// What tells two versions of a file apart.
type Stamp = (SystemTime, u64, u64);

impl SettingsFile {
    /// Its usual name in the folder of a state.
    pub const NAME: &str = "settings.toml";

    /// The settings of `path`, which add to those and the faults of flags.
    pub fn new(
        path: PathBuf,
        flags: Settings,
        faults: Vec<FaultRule>,
        named: Named,
        warn: Warn,
    ) -> Self {
        Self {
            path,
            flags,
            faults,
            named,
            takes_fatal: false,
            warn,
            seen: None,
        }
    }

    /// Takes defects that may end the process.
    #[must_use]
    pub fn with_fatal_defects(mut self) -> Self {
        self.takes_fatal = true;
        self
    }

    /// Where it is, or would be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says now.
    pub fn read(&mut self) -> Result<Rules, SettingsError> {
        self.seen = self.stamp();
        let text = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            // Calls wait for this file: one that stands still, or has no end, would hold up all of them.
            Ok(found) if !found.is_file() || found.len() > MOST => {
                return Err(io::Error::other("it is not a file of at most 16 MiB").into());
            }
            _ => fs::read_to_string(&self.path)?,
        };
        let settings = self.flags.clone().and(Settings::of_file(&text)?);
        let mut rules = settings.rules(self.named)?;
        rules.faults = [self.faults.as_slice(), &rules.faults].concat();
        match rules.options.defect {
            Some(defect) if defect.is_fatal() && !self.takes_fatal => {
                Err(SettingsError::Fatal(defect))
            }
            _ => Ok(rules),
        }
    }

    /// What it says, where that has changed since it was read, and can be used.
    pub(crate) fn changed(&mut self) -> Option<Rules> {
        if self.stamp() == self.seen {
            return None;
        }
        let read = self.read();
        let warn =
            |error: &_| (self.warn)(&format!("{} is not used: {error}", self.path.display()));
        read.inspect_err(warn).ok()
    }

    fn stamp(&self) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt as _;
        let there = fs::metadata(&self.path).ok()?;
        Some((there.modified().ok()?, there.ino(), there.len()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use csi_proto::methods::named;
    use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
    use csi_proto::v1::plugin_capability::volume_expansion::Type as Expansion;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::sync::mpsc;

    fn with(capability: &[&str]) -> Result<Options, SettingsError> {
        let settings = Settings {
            capability: capability.iter().map(|&one| one.to_owned()).collect(),
            ..Settings::default()
        };
        settings.rules(named).map(|rules| rules.options)
    }

    #[test]
    fn capabilities_are_taken_and_given_in_their_order() {
        let all = Options::default();
        let count = |options: &Options| {
            (
                options.services.len(),
                options.controller.len(),
                options.node.len(),
            )
        };
        assert_eq!(count(&with(&["-all", "+all"]).unwrap()), count(&all));
        let none = with(&["-all"]).unwrap();
        assert_eq!((count(&none), none.expansion), ((0, 0, 0), None));
        let few = with(&[
            "-controller/all",
            "+CLONE_VOLUME",
            "+OFFLINE",
            "-node/expand_volume",
        ])
        .unwrap();
        assert_eq!(few.controller, [ControllerCapability::CloneVolume]);
        assert_eq!(few.expansion, Some(Expansion::Offline));
        assert_eq!(few.node.len(), all.node.len() - 1);
        let both = with(&["-EXPAND_VOLUME"]).unwrap();
        assert_eq!(
            both.node.len() + both.controller.len(),
            all.node.len() + all.controller.len() - 2
        );
        assert_eq!(with(&["+all"]).unwrap().expansion, Some(Expansion::Online));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| {
            let rules = Settings::of_file(text).and_then(|one| one.rules(named));
            rules.expect_err(text).to_string()
        };
        for (text, part) in [
            ("capability = ['CLONE_VOLUME']", "write -CLONE_VOLUME"),
            (
                "capability = ['-CLONE_VOLUMES']",
                "\"CLONE_VOLUMES\"; did you mean CLONE_VOLUME",
            ),
            ("capability = ['-q']", "there is no capability \"q\""),
            ("defect = 'ProbeFail'", "did you mean ProbeFails"),
            ("fail = ['Probe=1000']", "\"1000\" is no code"),
            ("delay = ['nonsense=1s']", "\"nonsense\" is no RPC"),
            ("defect = 'q'", "`csi mock --list-defects` has their names"),
            ("specification = 99", "there is no CSI 1.99"),
            ("pace = '5'", "has no unit"),
            ("capacity = -5", "capacity cannot be -5: the least is 0"),
            ("max-volumes-per-node = -3", "the least is 0"),
            (
                "max-volume-size = -7",
                "max-volume-size cannot be -7: the least is 1048576",
            ),
            ("max-volume-size = 1048575", "the least is 1048576"),
            (
                "\ncolour = 1",
                "line 2 of the settings: unknown field `colour`, expected one of",
            ),
            (
                "fail = 1",
                "line 1 of the settings: invalid type: integer `1`, expected a text or a list of texts",
            ),
            ("fail = [1]", "expected a string"),
        ] {
            let said = error(text);
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn a_file_is_read_again_and_a_wrong_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.toml");
        let (sender, warnings) = mpsc::channel();
        let flags = Settings {
            nodes: vec!["n".to_owned()],
            defect: Some("ProbeFails".to_owned()),
            ..Settings::default()
        };
        let warn: Warn = Box::new(move |text| sender.send(text.to_owned()).unwrap());
        let mut file = SettingsFile::new(path.clone(), flags, Vec::new(), named, warn);
        let rules = file.read().unwrap();
        assert_eq!(rules.options.defect, Some(Defect::ProbeFails));
        assert!(file.changed().is_none());
        fs::write(
            &path,
            "defect = 'ProbeNeverReady'\nmax-volumes = 2\nfail = '*=14:1'",
        )
        .unwrap();
        let rules = file.changed().unwrap();
        assert_eq!(rules.options.defect, Some(Defect::ProbeNeverReady));
        assert_eq!((rules.options.max_volumes, rules.faults.len()), (2, 1));
        assert_eq!(rules.options.nodes, ["n"]);
        assert!(file.changed().is_none());
        fs::write(&path, "defect = 'LongIdPanics'").unwrap();
        assert!(file.changed().is_none());
        let warning = warnings.try_recv().unwrap();
        assert!(
            warning.contains("settings.toml is not used: ") && warning.contains("only `csi mock`")
        );
        assert!(warnings.try_recv().is_err());
        fs::remove_file(&path).unwrap();
        assert_eq!(
            file.changed().unwrap().options.defect,
            Some(Defect::ProbeFails)
        );
        // Nobody writes to it: reading it would never end.
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(file.changed().is_none());
        let warning = warnings.try_recv().unwrap();
        assert!(
            warning.ends_with("it is not a file of at most 16 MiB"),
            "{warning}"
        );
    }
}
