//! The files of a new driver, made of those in `template/`. Pure.
//!
//! A template is the driver that has everything, or nearly: between `with NAME` and `end`, as comments on lines of their own,
//! is what belongs to a service; `with NAME or NAME` and `without NAME` exist too. `DRIVER_NAME` and `CRATE_NAME` stand for the
//! names.

use super::names::Names;
use super::services::{Service, Services};

/// A file of a new driver.
#[derive(Debug)]
pub struct NewFile {
    /// Its path in the project.
    pub path: &'static str,
    /// What is in it.
    pub text: String,
    /// Whether it is a program.
    pub is_executable: bool,
}

struct Template {
    path: &'static str,
    text: &'static str,
    /// Without it there is no such file.
    of: Option<Service>,
    is_executable: bool,
}

const fn always(path: &'static str, text: &'static str) -> Template {
    Template {
        path,
        text,
        of: None,
        is_executable: false,
    }
}

const fn with(service: Service, path: &'static str, text: &'static str) -> Template {
    Template {
        of: Some(service),
        ..always(path, text)
    }
}

const MANIFEST: &str = include_str!("template/Cargo.toml");

const TEMPLATES: &[Template] = &[
    always("README.md", include_str!("template/README.md")),
    always("Cargo.toml", MANIFEST),
    always("build.rs", include_str!("template/build.rs")),
    // This project's own, whole.
    always("csi.proto", include_str!("../../../proto/csi.proto")),
    always("src/main.rs", include_str!("template/src/main.rs")),
    always("src/calls.rs", include_str!("template/src/calls.rs")),
    always("src/identity.rs", include_str!("template/src/identity.rs")),
    with(
        Service::Controller,
        "src/controller.rs",
        include_str!("template/src/controller.rs"),
    ),
    with(
        Service::Snapshots,
        "src/snapshots.rs",
        include_str!("template/src/snapshots.rs"),
    ),
    with(
        Service::Node,
        "src/node.rs",
        include_str!("template/src/node.rs"),
    ),
    always("src/storage.rs", include_str!("template/src/storage.rs")),
    always("src/local.rs", include_str!("template/src/local.rs")),
    always("Dockerfile", include_str!("template/Dockerfile")),
    always("kubernetes.yaml", include_str!("template/kubernetes.yaml")),
    Template {
        is_executable: true,
        ..always("ci", include_str!("template/ci"))
    },
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
    let there = |one: &&Template| one.of.is_none_or(|service| services.has(service));
    let file = |one: &Template| {
        let text = expanded(one.text, services)
            .replace("DRIVER_NAME", &names.driver)
            .replace("CRATE_NAME", &names.package);
        NewFile {
            path: one.path,
            text,
            is_executable: one.is_executable,
        }
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
    Service::ALL
        .into_iter()
        .find(|service| service.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every choice that gives another driver.
    fn all_services() -> Vec<Services> {
        let mut all = Vec::new();
        for bits in 0..1 << Service::ALL.len() {
            let is_chosen =
                |(bit, service): (usize, Service)| (bits >> bit & 1 == 1).then_some(service);
            let asked: Vec<Service> = Service::ALL
                .into_iter()
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
            for NewFile { path, text, .. } in files {
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
        for Template { path, text, .. } in TEMPLATES {
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
