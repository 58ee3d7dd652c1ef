//! The files made from the command tree that are shipped with the program: completion scripts and man pages. The test
//! proves that the committed ones are current; `UPDATE_GENERATED=1` writes them anew.

use crate::cli;
use crate::completion::{Shell, script};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every shipped file: its path below `completions/` and its content.
fn files() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let shells = [
        (Shell::Bash, "csi.bash"),
        (Shell::Zsh, "_csi"),
        (Shell::Fish, "csi.fish"),
        (Shell::Powershell, "csi.ps1"),
    ];
    for (shell, name) in shells {
        let script = script(shell, "csi").expect("a vector can be written");
        files.insert(PathBuf::from(name), script);
    }
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
    {
        man_pages(inner, &format!("{name}-{}", inner.get_name()), files);
    }
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
