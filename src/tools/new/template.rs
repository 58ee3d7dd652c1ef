//! The files of a new driver, made of those in `template/`. Pure.
//!
//! A template is the driver that has everything, or nearly: between `with NAME` and `end`, as comments on lines of their own,
//! is what belongs to a service; `with NAME or NAME` and `without NAME` exist too. `DRIVER_NAME` and `CRATE_NAME` stand for the
//! names.

use super::names::Names;
use super::services::{Service, Services};
use Service::{Controller, Node, Snapshots};
use clap::ValueEnum as _;

/// A file of a new driver.
#[derive(Debug)]
pub struct NewFile {
    /// Its path in the project.
    pub path: &'static str,
    /// What is in it.
    pub text: String,
}

/// The path of a file, what is in it, and the service without which there is no such file.
type Template = (&'static str, &'static str, Option<Service>);

macro_rules! template {
    ($path:literal, $of:expr) => {
        ($path, include_str!(concat!("template/", $path)), $of)
    };
}

const MANIFEST: &str = include_str!("template/Cargo.toml");

/// This project's own, whole.
const PROTO: &str = include_str!("../../../proto/csi.proto");

const TEMPLATES: &[Template] = &[
    template!("README.md", None),
    ("Cargo.toml", MANIFEST, None),
    template!("build.rs", None),
    ("csi.proto", PROTO, None),
    template!("src/main.rs", None),
    template!("src/calls.rs", None),
    template!("src/identity.rs", None),
    template!("src/controller.rs", Some(Controller)),
    template!("src/snapshots.rs", Some(Snapshots)),
    template!("src/node.rs", Some(Node)),
    template!("src/storage.rs", None),
    template!("src/local.rs", None),
    template!("Dockerfile", None),
    template!("kubernetes.yaml", None),
    template!("ci", None),
];

/// The libraries that some driver uses, by which no package can be called.
pub fn libraries() -> Vec<&'static str> {
    let lines = MANIFEST.lines();
    let lines = lines.skip_while(|line| *line != "[dependencies]");
    let lines = lines.take_while(|line| !line.starts_with("[lints"));
    let keys = lines.filter_map(|line| line.split_once(" = "));
    keys.map(|(name, _)| name).collect()
}

/// The files of a driver with these services and names.
pub fn files(services: &Services, names: &Names) -> Vec<NewFile> {
    let there = |(.., of): &&Template| of.is_none_or(|service| services.has(service));
    let file = |(path, text, _): &Template| {
        let text = expanded(text, services)
            .replace("DRIVER_NAME", &names.driver)
            .replace("CRATE_NAME", &names.package);
        NewFile { path, text }
    };
    TEMPLATES.iter().filter(there).map(file).collect()
}

/// What a line of a template says about those that follow.
enum Mark {
    /// They are there, or they are not.
    Begin(bool),
    End,
}

/// A template without its marks, and without what belongs to services that are not there.
fn expanded(template: &str, services: &Services) -> String {
    let mut kept = String::new();
    let mut open = Vec::new();
    for line in template.split_inclusive('\n') {
        match mark(line, services) {
            Some(Mark::Begin(is_there)) => open.push(is_there),
            Some(Mark::End) => drop(open.pop()),
            None if open.iter().all(|is_there| *is_there) => kept.push_str(line),
            None => {}
        }
    }
    kept
}

fn mark(line: &str, services: &Services) -> Option<Mark> {
    let words: Vec<&str> = comment(line.trim())?.split_whitespace().collect();
    match words.as_slice() {
        ["end"] => Some(Mark::End),
        ["with", one] => Some(Mark::Begin(services.has(service(one)?))),
        ["with", one, "or", other] => {
            let has = services.has(service(one)?) || services.has(service(other)?);
            Some(Mark::Begin(has))
        }
        ["without", one] => Some(Mark::Begin(!services.has(service(one)?))),
        _ => None,
    }
}

/// What is in the comment that a line is, in any of the templates' languages.
fn comment(line: &str) -> Option<&str> {
    let markdown = line
        .strip_prefix("<!--")
        .and_then(|rest| rest.strip_suffix("-->"));
    let rust = line.strip_prefix("//");
    markdown.or(rust).or_else(|| line.strip_prefix('#'))
}

fn service(name: &str) -> Option<Service> {
    Service::from_str(name, false).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every choice that gives another driver.
    fn all_services() -> Vec<Services> {
        let mut all = Vec::new();
        let every = Service::value_variants();
        for bits in 0..1 << every.len() {
            let is_chosen =
                |(bit, service): (usize, Service)| (bits >> bit & 1 == 1).then_some(service);
            let asked: Vec<Service> = every
                .iter()
                .copied()
                .enumerate()
                .filter_map(is_chosen)
                .collect();
            let services = Services::asked(&asked);
            if !all.contains(&services) {
                all.push(services);
            }
        }
        all
    }

    fn driver(services: &Services) -> Vec<NewFile> {
        let names = Names::of("disks.csi.example.com", &libraries()).expect("a name");
        files(services, &names)
    }

    #[test]
    fn lines_are_there_with_the_services_that_they_belong_to() {
        let template = "a\n  // with node\nb\n# without stage\nc\n# end\n<!-- with stage or attach -->\nd\n<!-- end -->\n// end\n// with care\n";
        let text = |asked: &[Service]| expanded(template, &Services::asked(asked));
        assert_eq!(text(&[Service::Controller]), "a\n// with care\n");
        assert_eq!(text(&[Service::Node]), "a\nb\nc\n// with care\n");
        assert_eq!(text(&[Service::Stage]), "a\nb\nd\n// with care\n");
        assert_eq!(text(&[Service::Attach]), "a\nb\nc\nd\n// with care\n");
    }

    #[test]
    fn every_driver_is_whole_and_small() {
        let all = all_services();
        assert_eq!(all.len(), 17);
        for services in all {
            let files = driver(&services);
            assert!(files.len() <= 15, "{services:?}: {} files", files.len());
            for NewFile { path, text } in files {
                for left in [
                    "DRIVER_NAME",
                    "CRATE_NAME",
                    "TODO",
                    "todo!",
                    "unimplemented!",
                ] {
                    assert!(!text.contains(left), "{services:?}: {left} in {path}");
                }
                let is_mark = |line: &&str| mark(line, &services).is_some();
                assert_eq!(text.lines().find(is_mark), None, "{services:?}: {path}");
                // What a mark leaves behind.
                assert!(
                    !text.contains("\n\n\n") && text.ends_with('\n'),
                    "{services:?}: {path}"
                );
                assert!(
                    !text.ends_with("\n\n") && !text.starts_with('\n'),
                    "{services:?}: {path}"
                );
            }
        }
    }

    #[test]
    fn marks_are_closed() {
        let services = Services::asked(&[]);
        for (path, text, _) in TEMPLATES {
            let mut depth = 0;
            for line in text.lines() {
                match mark(line, &services) {
                    Some(Mark::Begin(_)) => depth += 1,
                    Some(Mark::End) => depth -= 1,
                    None => {}
                }
                assert!(depth >= 0, "{path}: {line}");
            }
            assert_eq!(depth, 0, "{path}");
        }
    }

    #[test]
    fn libraries_have_the_versions_of_this_project() {
        let manifest = |text: &str| text.parse::<toml::Table>().expect("a manifest");
        let ours = manifest(include_str!("../../../Cargo.toml"));
        let ours = &ours["workspace"]["dependencies"];
        let version = |one: &toml::Value| {
            let of_table = one.get("version").and_then(toml::Value::as_str);
            of_table.or(one.as_str()).map(str::to_owned)
        };
        for services in all_services() {
            let files = driver(&services);
            let text = files
                .iter()
                .find(|file| file.path == "Cargo.toml")
                .expect("a manifest");
            let theirs = manifest(&text.text);
            for part in ["dependencies", "build-dependencies"] {
                for (name, wanted) in theirs[part].as_table().expect("dependencies") {
                    assert_eq!(version(wanted), version(&ours[name.as_str()]), "{name}");
                    assert!(libraries().contains(&name.as_str()), "{name}");
                }
            }
        }
    }
}
