//! The completion scripts as they are shipped. The test proves that the committed ones are current;
//! `tests/generate` writes them anew.

use super::completion::script::{CompletionShell, kubectl, script};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The name of the script that kubectl runs to complete a plugin; it has to be executable.
const KUBECTL: &str = "kubectl_complete-csi";

/// Every shipped file: its name in `completions/` and its content.
fn files() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in ["csi", "csc", "kubectl-csi"] {
        for (shell, file) in [
            (CompletionShell::Bash, format!("{name}.bash")),
            (CompletionShell::Zsh, format!("_{name}")),
            (CompletionShell::Fish, format!("{name}.fish")),
            (CompletionShell::Powershell, format!("{name}.ps1")),
        ] {
            let script = script(shell, name).expect("a vector can be written");
            files.insert(file, script);
        }
    }
    files.insert(KUBECTL.to_owned(), kubectl().into_bytes());
    files
}

#[test]
fn completions_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions");
    let files = files();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::remove_dir_all(&root).expect("the folder is writable");
        std::fs::create_dir(&root).expect("the folder is writable");
        for (name, content) in &files {
            std::fs::write(root.join(name), content).expect("the folder is writable");
        }
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.join(KUBECTL), executable).expect("the file is there");
    }
    let stale = |(name, content): &(&String, &Vec<u8>)| {
        std::fs::read(root.join(name)).ok().as_ref() != Some(*content)
    };
    let mut stale: Vec<String> = files
        .iter()
        .filter(stale)
        .map(|(name, _)| name.clone())
        .collect();
    let found = std::fs::read_dir(&root).into_iter().flatten().flatten();
    let found = found.map(|entry| entry.file_name().to_string_lossy().into_owned());
    stale.extend(found.filter(|name| !files.contains_key(name)));
    assert!(
        stale.is_empty(),
        "{stale:?} differ from the commands: run tests/generate"
    );
}
