//! The formats in `tests/formats/`: of each format that later versions must read, the files as a version wrote them. Finds them, and
//! compares what is written today with the newest. Knows no format, and changes no folder that is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Says for which version a format in a new shape gets a new folder.
const NEW: &str = "UPDATE_FORMATS";
const TODAY: &str = env!("CARGO_PKG_VERSION");

/// Files by their paths in the folder of their format.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The folders of `format` by the versions that have written it in a new shape, the newest last.
pub fn versions(format: &str) -> Vec<(String, PathBuf)> {
    let found = folders(format);
    assert!(!found.is_empty(), "no version has written {format}");
    found
}

fn folders(format: &str) -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(root()).expect("the formats");
    let folders = folders.map(|entry| entry.expect("an entry").path().join(format));
    let mut found: Vec<(String, PathBuf)> = folders
        .filter(|folder| folder.is_dir())
        .map(|folder| (version_of(&folder), folder))
        .collect();
    found.sort_by_key(|(version, _)| numbers(version));
    found
}

/// Demands that `files`, as today's code writes them, are those of the newest version. The version of the program that has written
/// them may differ.
pub fn holds<P: AsRef<Path>>(format: &str, files: impl IntoIterator<Item = (P, Vec<u8>)>) {
    let written: Files = files
        .into_iter()
        .map(|(path, text)| (path.as_ref().to_owned(), text))
        .collect();
    let newest = folders(format).pop();
    if let Some((version, folder)) = &newest {
        let kept = read(folder);
        let written = of_version(&written, version);
        if kept == written {
            return;
        }
        let paths: BTreeSet<_> = kept.keys().chain(written.keys()).collect();
        for path in paths {
            let [before, now] = [&kept, &written].map(|files| match files.get(path) {
                Some(text) => String::from_utf8_lossy(text),
                None => "no such file".into(),
            });
            if before != now {
                eprintln!("{}\n{version}:\n{before}\ntoday:\n{now}", path.display());
            }
        }
    }
    let Ok(version) = std::env::var(NEW) else {
        panic!(
            "{format} is written in a new shape: see above. Where that is meant, and older files are still read, {NEW}=VERSION, the \
             one in which it will be released, makes its folder in tests/formats"
        );
    };
    let folder = root().join(&version).join(format);
    let is_newer = newest.is_none_or(|(newest, _)| numbers(&newest) < numbers(&version));
    assert!(
        is_newer && !folder.exists(),
        "{} is there, or older than another one",
        folder.display()
    );
    for (path, text) in of_version(&written, &version) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }
}

/// Demands that `names`, which are promised today, are among them all that a release before promised, unless this version may break
/// what that one promised. A new version has a file of its own, where it has more.
#[allow(dead_code, reason = "most formats are files")]
pub fn keeps(format: &str, names: &BTreeSet<String>) {
    let today: String = names.iter().map(|name| format!("{name}\n")).collect();
    let newest = folders(format).pop();
    let binding = newest.filter(|(version, _)| major(version) == major(TODAY));
    if let Some((version, folder)) = binding {
        let kept = fs::read_to_string(folder.join("names")).expect("names");
        let gone: Vec<&str> = kept.lines().filter(|name| !names.contains(*name)).collect();
        assert!(
            gone.is_empty(),
            "{version} promised what is not there any more, as docs/stability.md says: {gone:#?}"
        );
        if version == TODAY || kept == today {
            return;
        }
    }
    assert!(
        std::env::var(NEW).is_ok_and(|version| version == TODAY),
        "{TODAY} promises more than the version before: {NEW}={TODAY} writes that into tests/formats"
    );
    let folder = root().join(TODAY).join(format);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("names"), today).expect("written");
}

/// The first numbers of a version, up to one that is not 0: what another version has to keep while they stay.
fn major(version: &str) -> Vec<u64> {
    let numbers = numbers(version);
    let end = numbers.iter().position(|number| *number > 0);
    numbers[..=end.unwrap_or(numbers.len() - 1)].to_vec()
}

/// A copy of a folder, with what is in it.
#[allow(dead_code, reason = "few formats are changed where they lie")]
pub fn copy(from: &Path, to: &Path) {
    for (path, text) in read(from) {
        let path = to.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }
}

/// All files below `folder`.
pub fn read(folder: &Path) -> Files {
    let (mut files, mut left) = (Files::new(), vec![folder.to_owned()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let text = fs::read(&path).expect("a file");
            let name = path.strip_prefix(folder).expect("below it");
            files.insert(name.to_owned(), text);
        }
    }
    files
}

fn root() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut found = folders.map(|folder| folder.join("tests/formats"));
    found.find(|folder| folder.is_dir()).expect("the formats")
}

fn version_of(folder: &Path) -> String {
    let version = folder.parent().and_then(Path::file_name);
    version
        .expect("a version")
        .to_str()
        .expect("text")
        .to_owned()
}

fn numbers(version: &str) -> Vec<u64> {
    let numbers = version.split('.').map(str::parse);
    numbers.collect::<Result<_, _>>().expect("a version")
}

/// The same as a program of that version says it of itself.
fn of_version(files: &Files, version: &str) -> Files {
    let said = |text: &Vec<u8>| match std::str::from_utf8(text) {
        Ok(text) => text
            .replace(&format!("\"{TODAY}\""), &format!("\"{version}\""))
            .into_bytes(),
        Err(_) => text.clone(),
    };
    files
        .iter()
        .map(|(path, text)| (path.clone(), said(text)))
        .collect()
}
