//! A browser without a window.

use crate::made::Made;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Debian's names for it.
const NAMES: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// High enough for what a picture should have.
const HEIGHT: u32 = 2000;

/// A browser with a profile of its own.
pub struct Browser {
    program: PathBuf,
    profile: TempDir,
}

/// What a page says of itself.
pub struct Outcome {
    pub text: String,
    state: String,
}

impl Outcome {
    pub fn is_passed(&self) -> bool {
        self.state == "passed"
    }

    /// The number of checks that held.
    pub fn passed(&self) -> usize {
        let number = self.text.split(' ').next();
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

impl Browser {
    /// The browser of this machine. That there is none is a failure: `tests/pages/run` installs it.
    pub fn new() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<_> = std::env::split_paths(&path).collect();
        let mut programs = NAMES
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        let program = programs.find(|program| program.is_file());
        Self {
            program: program.expect("no browser: apt-get install chromium-headless-shell"),
            profile: TempDir::new().unwrap(),
        }
    }

    fn command(&self, width: u32, more: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--headless")
            .arg("--no-sandbox")
            .arg("--disable-gpu")
            .arg("--hide-scrollbars")
            .arg(format!("--user-data-dir={}", self.profile.path().display()))
            .arg(format!("--window-size={width},{HEIGHT}"))
            .args(more);
        command
    }

    /// The document after its scripts have run.
    pub fn document(&self, page: &Path, width: u32) -> String {
        self.opened(&format!("file://{}", page.display()), width)
    }

    fn opened(&self, address: &str, width: u32) -> String {
        let output = self
            .command(width, &["--dump-dom", address])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The outcome of the page's test of itself.
    pub fn selftest(&self, page: &Path, width: u32) -> Outcome {
        let document = self.opened(&format!("file://{}#selftest", page.display()), width);
        let (_, rest) = document
            .split_once("<pre id=\"selftest\" data-outcome=\"")
            .unwrap_or_else(|| panic!("the page says nothing of itself:\n{document}"));
        let (state, rest) = rest.split_once("\">").unwrap();
        let (text, _) = rest.split_once("</pre>").unwrap();
        Outcome {
            text: text.to_owned(),
            state: state.to_owned(),
        }
    }

    /// Where somebody wants to look at it: the page, and pictures.
    pub fn keep(&self, made: &Made) {
        let Some(folder) = std::env::var_os("CSI_PAGES").map(PathBuf::from) else {
            return;
        };
        std::fs::create_dir_all(&folder).unwrap();
        let page = folder.join(format!("{}.html", made.name));
        std::fs::copy(&made.page, &page).unwrap();
        for width in crate::WIDTHS {
            for (theme, blink) in [
                ("light", "preferredColorScheme=1"),
                ("dark", "preferredColorScheme=0"),
            ] {
                let picture = folder.join(format!("{}-{width}-{theme}.png", made.name));
                let address = format!("file://{}", page.display());
                let settings = format!("--blink-settings={blink}");
                let shot = format!("--screenshot={}", picture.display());
                let taken = self
                    .command(width, &[&settings, &shot, &address])
                    .output()
                    .unwrap();
                assert!(taken.status.success() && picture.exists());
            }
        }
    }
}
