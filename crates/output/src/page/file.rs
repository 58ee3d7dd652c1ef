//! The file of a page: its place is taken before the work begins, and the page appears whole or not at all.

use super::Page;
use crate::draft::Draft;
use csi_error::{Error, OrError};
use csi_proto::random;
use std::io;
use std::path::{Path, PathBuf};

/// Who may read a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Whoever the umask lets.
    Umask,
    /// Its owner alone, as a recording.
    Owner,
}

/// A file that is to hold a page. Until then, and where no page comes of it, what was there stays.
#[derive(Debug)]
pub struct PageFile {
    draft: Draft,
}

impl PageFile {
    /// Takes the place of the page that `--html` names, where it names one.
    ///
    /// # Errors
    /// As [`PageFile::create`].
    pub fn asked(path: Option<&PathBuf>, readers: Readers) -> Result<Option<Self>, Error> {
        path.map(|path| Self::create(path, readers)).transpose()
    }

    /// Takes the place of a page.
    ///
    /// # Errors
    /// When no file can be made there.
    pub fn create(path: &Path, readers: Readers) -> Result<Self, Error> {
        let unusable = |cause: io::Error| Error::usage(unwritable(path)).caused_by(&cause);
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            let problem = format!("{}: it exists and is no file", unwritable(path));
            return Err(Error::usage(problem));
        }
        let mode = match readers {
            Readers::Umask => 0o666,
            Readers::Owner => 0o600,
        };
        let draft = Draft::create(path, mode).map_err(unusable)?;
        Ok(Self { draft })
    }

    /// Writes the page.
    ///
    /// # Errors
    /// When it cannot be written; what was there stays then.
    pub fn write(self, page: &Page) -> Result<(), Error> {
        let document = page.document(&nonce()?);
        let failed = unwritable(self.draft.place());
        self.draft.write(document.as_bytes()).or_because(failed)
    }
}

fn unwritable(path: &Path) -> String {
    format!("--html: {} cannot be written", path.display())
}

/// What nobody who gave a text to the page could know.
fn nonce() -> Result<String, Error> {
    let drawn = random::from_kernel().or_because(random::MISSING)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(drawn)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::page_of;
    use maud::html;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_page_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.html");
        std::fs::write(&path, "before").unwrap();
        drop(PageFile::create(&path, Readers::Umask).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(names(folder.path()), ["p.html"]);
        let page = page_of(html! { p { "body" } }, json!({}));
        for (readers, mode) in [(Readers::Owner, 0o600), (Readers::Umask, 0o600 | 0o044)] {
            let file = PageFile::create(&path, readers).unwrap();
            file.write(&page).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>"));
            let found = path.metadata().unwrap().permissions().mode() & 0o777;
            // Whatever the umask of these tests, the owner's bits stay.
            assert_eq!(found & mode, found & 0o644, "{found:o}");
        }
        assert_eq!(names(folder.path()), ["p.html"]);
    }

    #[test]
    fn what_cannot_hold_a_page_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for (path, part) in [
            (folder.path().to_owned(), "it exists and is no file"),
            (PathBuf::from("/dev/null"), "it exists and is no file"),
            (folder.path().join("none/p.html"), "cannot be written"),
        ] {
            let error = PageFile::create(&path, Readers::Umask).unwrap_err();
            let text = error.render(csi_error::Style::Text);
            assert!(text.contains("--html: ") && text.contains(part), "{text}");
        }
    }
}
