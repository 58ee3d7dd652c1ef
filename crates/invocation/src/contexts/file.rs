//! The file of the contexts: `csi/contexts.toml` in the folder for a user's configuration.
//!
//! ```toml
//! current = "lab"
//! [contexts.lab]
//! endpoint = "unix:///csi/csi.sock"
//! cap = "5,mount"
//! [contexts.lab.params]
//! server = "10.0.0.4"
//! ```
//!
//! Owns its format and how it is changed: as a whole, by one process at a time, readable by its owner alone.

use crate::private_file;
use csi_arguments::likest::likest;
use csi_arguments::text::text_of;
use csi_arguments::toml::{self as syntax, TomlError};
use csi_call::user_folders;
use csi_error::Error;
use csi_output::shell_word::word;
use csi_proto::place_lock::{PlaceLock, PlaceLockError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The name of the context that counts where nobody names another, or a driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Each by its name.
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// A driver, and what its calls need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Context {
    /// The driver.
    pub endpoint: String,
    /// The capability where a request needs one and none is given, as `--cap` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// The file of the secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets_file: Option<String>,
    /// The authorities to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
    /// This client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The key of the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The name in the server's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The parameters of new volumes. A table, so it comes last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

/// Why contexts cannot be had or kept.
#[derive(Debug, thiserror::Error)]
pub enum ContextsError {
    /// There is no place for the file.
    #[error("there is no home folder, in which contexts are kept: set HOME or XDG_CONFIG_HOME")]
    NoHome,
    /// The file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file, or its folder.
        path: PathBuf,
        /// The system's word.
        #[source]
        cause: io::Error,
    },
    /// Others change the contexts.
    #[error("the contexts cannot be changed: {0}")]
    Locked(PlaceLockError),
    /// The file is damaged.
    #[error("{}: {problem}; mend that line, or remove the file and add the contexts anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, and what is wrong there.
        problem: TomlError,
    },
    /// The contexts cannot be written as TOML.
    #[error("the contexts cannot be written: {0}")]
    Unwritable(String),
    /// There is no such context.
    #[error("there is no context {name:?}; {}", instead(like, known))]
    Unknown {
        /// The name.
        name: String,
        /// Those that may be meant, the likest first.
        like: Vec<String>,
        /// All there are.
        known: Vec<String>,
    },
}

fn instead(like: &[String], known: &[String]) -> String {
    match (like, known) {
        (_, []) => {
            "there is none yet: `csi context add NAME --endpoint ENDPOINT` keeps one".to_owned()
        }
        ([], known) => format!("there is {}", known.join(", ")),
        (like, _) => format!("did you mean {}?", like.join(" or ")),
    }
}

impl From<ContextsError> for Error {
    fn from(error: ContextsError) -> Self {
        Self::unusable(error.to_string(), &error)
    }
}

impl Contexts {
    /// The context of that name.
    ///
    /// # Errors
    /// That there is none, with those that may be meant.
    pub fn named(&self, name: &str) -> Result<&Context, ContextsError> {
        self.contexts.get(name).ok_or_else(|| {
            let names = self.contexts.keys();
            ContextsError::Unknown {
                name: name.to_owned(),
                like: likest(name, names.map(|known| (vec![&**known], known.clone()))),
                known: self.contexts.keys().cloned().collect(),
            }
        })
    }

    /// The contexts of this user; none where there is no file.
    ///
    /// # Errors
    /// When there is no place for the file, or it cannot be read.
    pub fn load() -> Result<Self, ContextsError> {
        Self::read(&place()?)
    }

    fn read(path: &Path) -> Result<Self, ContextsError> {
        let text = match text_of(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(path)(error)),
        };
        syntax::parse(&text).map_err(|problem| ContextsError::Damaged {
            path: path.to_owned(),
            problem,
        })
    }

    /// Changes the contexts of this user; nobody else does meanwhile, and a reader sees the old ones or the new ones.
    ///
    /// # Errors
    /// When the file cannot be read or written; of `change` its own.
    pub fn change<T, E: From<ContextsError>>(
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        Self::change_at(place()?, change)
    }

    fn change_at<T, E: From<ContextsError>>(
        path: PathBuf,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        // Where the file is a link, as those who keep their configuration elsewhere have it, it stays one.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        user_folders::make_private(&folder).map_err(failed(&folder))?;
        // Held until the end of this function.
        let _lock = PlaceLock::take(&path).map_err(ContextsError::Locked)?;
        let mut contexts = Self::read(&path)?;
        let result = change(&mut contexts)?;
        contexts.write(&path)?;
        Ok(result)
    }

    fn write(&self, path: &Path) -> Result<(), ContextsError> {
        let text = toml::to_string(self);
        let text = text.map_err(|error| ContextsError::Unwritable(error.to_string()))?;
        private_file::replace(path, text.as_bytes()).map_err(failed(path))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ContextsError {
    let path = path.to_owned();
    move |cause| ContextsError::Io { path, cause }
}

/// The file of this user.
fn place() -> Result<PathBuf, ContextsError> {
    let folder = user_folders::config().ok_or(ContextsError::NoHome)?;
    Ok(folder.join("csi/contexts.toml"))
}

/// What is wrong with the name of a new context, if something is.
pub fn name_problem(name: &str) -> Option<String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let begins_well = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    let fits = begins_well && name.len() <= 63 && name.chars().all(is_plain);
    (!fits).then(|| {
        format!(
            "{} cannot be the name of a context: it has up to 63 letters, digits, dots, underscores and hyphens, and begins with \
             a letter or digit",
            word(name)
        )
    })
}

/// The text of a variable that says which driver is meant.
///
/// # Errors
/// When it is set and is no text: another driver would get the call.
pub fn variable(name: &str) -> Result<Option<String>, Error> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Error::usage(format!("{name} is not UTF-8 text"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn lab() -> Context {
        Context {
            endpoint: "unix:///csi/csi.sock".to_owned(),
            cap: Some("5,mount".to_owned()),
            secrets_file: Some("/s".to_owned()),
            params: [("server".to_owned(), "a \"b\"\n".to_owned())].into(),
            ..Context::default()
        }
    }

    fn add(path: &Path, name: &str) {
        let added = Contexts::change_at(path.to_owned(), |contexts| {
            contexts.contexts.insert(name.to_owned(), lab());
            Ok::<(), ContextsError>(())
        });
        added.expect(name);
    }

    #[test]
    fn what_is_kept_is_read_again_by_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("csi/contexts.toml");
        assert_eq!(Contexts::read(&path).expect("none"), Contexts::default());
        add(&path, "lab");
        add(&path, "0.x_y-z");
        let found = Contexts::read(&path).expect("written");
        assert_eq!(found.contexts.len(), 2);
        assert_eq!(found.named("lab").expect("there"), &lab());
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left = fs::read_dir(path.parent().expect("a folder")).expect("there");
        assert_eq!(left.count(), 1);
        // A link to a file elsewhere stays one.
        let link = folder.path().join("link.toml");
        symlink(&path, &link).expect("linked");
        add(&link, "more");
        assert!(link.is_symlink());
        assert_eq!(Contexts::read(&path).expect("there").contexts.len(), 3);
    }

    #[test]
    fn formats_of_contexts_are_as_in_the_newest_version_and_all_are_read() {
        let text = |name: &str| Some(format!("a {name}"));
        let whole = Context {
            endpoint: "tcp://10.0.0.4:9000".to_owned(),
            cap: Some("5,mount:ext4".to_owned()),
            secrets_file: text("secret"),
            cacert: text("ca").map(PathBuf::from),
            cert: text("cert").map(PathBuf::from),
            key: text("key").map(PathBuf::from),
            server_name: text("name"),
            params: [("server".to_owned(), "a \"b\"\n".to_owned())].into(),
        };
        let least = Context {
            endpoint: "unix:///csi/csi.sock".to_owned(),
            ..Context::default()
        };
        let contexts = Contexts {
            current: Some("whole".to_owned()),
            contexts: [("whole", whole), ("least", least)]
                .map(|(name, context)| (name.to_owned(), context))
                .into(),
        };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("contexts.toml");
        contexts.write(&path).expect("written");
        corpus::holds("contexts", corpus::read(folder.path()));
        for (version, folder) in corpus::versions("contexts") {
            let found = Contexts::read(&folder.join("contexts.toml")).expect(&version);
            assert_eq!(found, contexts, "{version}");
        }
    }

    #[test]
    fn many_at_once_lose_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("contexts.toml");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || add(path, &format!("c{number}")));
            }
        });
        assert_eq!(Contexts::read(&path).expect("there").contexts.len(), 8);
    }

    #[test]
    fn a_damaged_file_is_told_by_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("contexts.toml");
        for (text, part) in [
            ("current = \"a\"\n[contexts.a\n", "line 2: "),
            ("\n\ncurrant = \"a\"\n", "line 3: no such key `currant`"),
            (
                "[contexts.a]\ncap = \"5,mount\"\n",
                "line 1: contexts.a: missing field `endpoint`",
            ),
            (
                "[contexts.a]\nendpoint = 5\n",
                "line 2: contexts.a.endpoint: ",
            ),
        ] {
            fs::write(&path, text).expect("written");
            let error = Contexts::read(&path).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
            assert!(error.contains("mend that line"), "{error}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_by_the_likest() {
        let mut contexts = Contexts::default();
        let said = |contexts: &Contexts, name| contexts.named(name).expect_err(name).to_string();
        assert!(said(&contexts, "prod").contains("csi context add NAME"));
        for name in ["prod", "lab"] {
            contexts.contexts.insert(name.to_owned(), lab());
        }
        assert!(said(&contexts, "prdo").ends_with("did you mean prod?"));
        assert!(said(&contexts, "lba").ends_with("did you mean lab?"));
        assert!(said(&contexts, "zzz").ends_with("there is lab, prod"));
    }

    #[test]
    fn names_are_plain_words() {
        for (name, fits) in [
            ("prod", true),
            ("0.x_y-z", true),
            ("", false),
            ("-x", false),
            ("a b", false),
            ("ä", false),
        ] {
            assert_eq!(name_problem(name).is_none(), fits, "{name}");
        }
        assert!(name_problem(&"x".repeat(64)).is_some());
    }
}
