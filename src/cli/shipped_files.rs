//! The files made from the command tree that are shipped with the program: completion scripts and man pages. The test
//! proves that the committed ones are current; `UPDATE_GENERATED=1` writes them anew.

use super::completion::script::{Shell, kubectl, script};
use crate::cli;
use crate::rpc::GROUPS;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What kubectl runs to complete a plugin; it has to be executable.
const KUBECTL: &str = "kubectl_complete-csi";

/// Every shipped file: its path below `completions/` and its content.
fn files() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in ["csi", "csc", "kubectl-csi"] {
        for (shell, file) in [
            (Shell::Bash, format!("{name}.bash")),
            (Shell::Zsh, format!("_{name}")),
            (Shell::Fish, format!("{name}.fish")),
            (Shell::Powershell, format!("{name}.ps1")),
        ] {
            let script = script(shell, name).expect("a vector can be written");
            files.insert(PathBuf::from(file), script);
        }
    }
    files.insert(PathBuf::from(KUBECTL), kubectl().into_bytes());
    let mut command = cli::command("csi").disable_help_subcommand(true);
    command.build();
    man_pages(&command, "csi", &mut files);
    files
}

fn man_pages(command: &clap::Command, name: &str, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name)
        .date("")
        .render(&mut page)
        .expect("a vector can be written");
    files.insert(Path::new("man").join(format!("{name}.1")), page);
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
        // What a load calls has its page already.
        .filter(|inner| name != "csi-bench" || !is_group(inner.get_name()))
    {
        man_pages(inner, &format!("{name}-{}", inner.get_name()), files);
    }
}

fn is_group(name: &str) -> bool {
    GROUPS.iter().any(|group| group.name == name)
}

#[test]
fn completions_and_man_pages_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions");
    let files = files();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::remove_dir_all(&root).expect("the folder is writable");
        std::fs::create_dir_all(root.join("man")).expect("the folder is writable");
        for (path, content) in &files {
            std::fs::write(root.join(path), content).expect("the folder is writable");
        }
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.join(KUBECTL), executable).expect("the file is there");
    }
    let mut stale: Vec<_> = files
        .iter()
        .filter(|(path, content)| std::fs::read(root.join(path)).ok().as_ref() != Some(*content))
        .map(|(path, _)| path.clone())
        .collect();
    for folder in [root.clone(), root.join("man")] {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let found = entries.filter(|entry| entry.path().is_file());
        let relative = found.map(|entry| {
            entry
                .path()
                .strip_prefix(&root)
                .expect("below it")
                .to_owned()
        });
        stale.extend(relative.filter(|path| !files.contains_key(path)));
    }
    assert!(
        stale.is_empty(),
        "{stale:?} differ from the commands: run UPDATE_GENERATED=1 cargo test -p csi-cli shipped"
    );
}
