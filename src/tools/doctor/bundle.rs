//! The bundle for a bug report: an archive of what was found, of the driver's log, and of what this program was told by
//! its environment. Secrets are taken out of all of it.

use csi_call::redacted::redacted;
use std::env;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use tar::{Builder, Header};

/// The folder in the archive.
const FOLDER: &str = "csi-doctor";

/// What goes into a bundle.
pub struct Bundle {
    /// The page.
    pub page: String,
    /// The same as JSON.
    pub document: String,
    /// The driver's log, or why there is none.
    pub log: Result<String, String>,
    /// Further files, by their names.
    pub files: Vec<(String, String)>,
    /// Values that are secret and can be looked for.
    pub secrets: Vec<String>,
}

impl Bundle {
    /// Writes it to a new file that only its owner can read.
    ///
    /// # Errors
    /// When there is such a file already, or it cannot be written: then there is none.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut options = File::options();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let written = self.write_to(file);
        if written.is_err() {
            // The name is free for the next try.
            let _ = fs::remove_file(path);
        }
        written
    }

    fn write_to(&self, file: File) -> io::Result<()> {
        let mut archive = Builder::new(file);
        for (name, text) in self.files() {
            let text = redacted(&text, &self.secrets);
            let mut header = Header::new_ustar();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            archive.append_data(&mut header, format!("{FOLDER}/{name}"), text.as_bytes())?;
        }
        let mut file = archive.into_inner()?;
        file.flush()?;
        file.sync_all()
    }

    fn files(&self) -> Vec<(&str, String)> {
        let log = match &self.log {
            Ok(log) => ("driver.log", log.clone()),
            Err(why) => ("no-driver-log.txt", format!("{why}\n")),
        };
        let files = vec![
            ("doctor.txt", self.page.clone()),
            ("doctor.json", self.document.clone()),
            (
                "environment.txt",
                environment(env::vars_os().map(|(name, value)| {
                    (
                        name.to_string_lossy().into_owned(),
                        value.to_string_lossy().into_owned(),
                    )
                })),
            ),
            log,
        ];
        let more = self.files.iter();
        let more = more.map(|(name, text)| (name.as_str(), text.clone()));
        files.into_iter().chain(more).collect()
    }
}

/// The variables that say something to this program; of those that hold secrets only that they are set.
fn environment(variables: impl Iterator<Item = (String, String)>) -> String {
    let ours = variables.filter(|(name, _)| {
        ["CSI_", "X_CSI_", "XDG_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || name == "PATH"
            || name == "LANG"
    });
    let mut lines: Vec<String> = ours
        .map(|(name, value)| match name.contains("SECRET") {
            true => format!("{name} is set\n"),
            false => format!("{name}={value}\n"),
        })
        .collect();
    lines.sort();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_bundle_holds_everything_and_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar");
        let bundle = Bundle {
            page: "ok plugin\n".into(),
            document: "{}\n".into(),
            log: Ok("mounted with hunter2, token=abc\n".into()),
            files: vec![("pod.txt".into(), "password=abc\n".into())],
            secrets: vec!["hunter2".to_owned()],
        };
        bundle.write(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut archive = tar::Archive::new(File::open(&path).unwrap());
        let mut names = Vec::new();
        let mut texts = String::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            names.push(entry.path().unwrap().display().to_string());
            entry.read_to_string(&mut texts).unwrap();
        }
        let expected = [
            "doctor.txt",
            "doctor.json",
            "environment.txt",
            "driver.log",
            "pod.txt",
        ];
        assert_eq!(names, expected.map(|name| format!("csi-doctor/{name}")));
        assert!(
            texts.contains("mounted with") && !texts.contains("hunter2") && !texts.contains("abc")
        );
        // What is there is somebody's.
        let again = bundle.write(&path).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_bundle_that_cannot_be_written_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar");
        let bundle = Bundle {
            page: String::new(),
            document: String::new(),
            log: Ok(String::new()),
            // No archive takes such a name.
            files: vec![("../x".into(), String::new())],
            secrets: Vec::new(),
        };
        bundle.write(&path).unwrap_err();
        assert!(!path.exists());
    }

    #[test]
    fn of_variables_only_ours_are_told() {
        let all = [
            ("CSI_ENDPOINT", "/s"),
            ("X_CSI_SECRETS", "k=v"),
            ("AWS_KEY", "x"),
            ("PATH", "/bin"),
        ];
        let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = environment(all.into_iter());
        assert_eq!(text, "CSI_ENDPOINT=/s\nPATH=/bin\nX_CSI_SECRETS is set\n");
    }
}
