//! The process that listens: its program, its unit, its container and pod, as far as `/proc` shows them.

use super::finding::Finding;
use csi_invocation::process_stat::ProcessStat;
use std::fs;
use std::path::PathBuf;

const CHECK: &str = "listener";

/// What is known of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Its number.
    pub process: u32,
    /// Its program's short name.
    pub program: Option<String>,
    /// Where it is kept.
    pub home: Home,
    /// Whether it sees other mounts than this process; `None` where that cannot be known.
    pub other_mounts: Option<bool>,
    /// How many of its threads wait in the kernel and cannot be interrupted.
    pub stuck: usize,
    /// Whether a signal or a debugger has stopped it.
    pub is_stopped: bool,
}

/// What keeps a process, by the names of its control groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// The container's id.
    pub container: Option<String>,
    /// The pod's UID.
    pub pod: Option<String>,
    /// The unit of systemd.
    pub unit: Option<String>,
}

impl Home {
    /// Reads `/proc/PID/cgroup`: a line a hierarchy, `N:CONTROLLERS:PATH`.
    pub fn parse(text: &str) -> Self {
        let mut home = Self::default();
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        for part in paths.flat_map(|path| path.split('/')) {
            let bare = part.strip_suffix(".scope").or(part.strip_suffix(".slice"));
            let bare = bare.unwrap_or(part);
            // `docker-ID`, `cri-containerd-ID`, `crio-ID`, or the id alone.
            let last = bare.rsplit('-').next().unwrap_or(bare);
            if last.len() == 64 && last.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                home.container = Some(last.to_owned());
            } else if let Some((_, uid)) = bare.rsplit_once("pod")
                && uid.len() == 36
            {
                home.pod = Some(uid.replace('_', "-"));
            } else if part.ends_with(".service") {
                home.unit = Some(part.to_owned());
            }
        }
        home
    }
}

impl ProcessFacts {
    /// Looks at a process.
    pub fn look(process: u32) -> Self {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
        let theirs = mounts(&process.to_string());
        let threads = fs::read_dir(folder.join("task")).into_iter().flatten();
        let threads = threads.filter_map(|thread| ProcessStat::of(&thread.ok()?.path()));
        Self {
            process,
            program: read("comm").map(|name| name.trim_end().to_owned()),
            home: Home::parse(&read("cgroup").unwrap_or_default()),
            other_mounts: theirs.map(|theirs| Some(theirs) != mounts("self")),
            stuck: threads.filter(ProcessStat::is_stuck).count(),
            is_stopped: ProcessStat::of(&folder).is_some_and(|it| it.is_stopped()),
        }
    }

    /// The process in words.
    pub fn finding(facts: Option<&Self>) -> Finding {
        let Some(facts) = facts else {
            return Finding::unknown(
                CHECK,
                "its process is not visible here: it is in another container or another namespace",
            );
        };
        let program = facts
            .program
            .as_deref()
            .unwrap_or("a program of another user");
        let mut text = format!("{program}, process {}", facts.process);
        let short = |id: &String| id.chars().take(12).collect::<String>();
        for (what, name) in [
            ("container", facts.home.container.as_ref().map(short)),
            ("pod", facts.home.pod.clone()),
            ("unit", facts.home.unit.clone()),
        ] {
            if let Some(name) = name {
                text.push_str(&format!(", {what} {name}"));
            }
        }
        if facts.other_mounts == Some(true) {
            text.push_str(", which sees other mounts than this program");
        }
        match facts.stuck {
            _ if facts.is_stopped => Finding::wrong(
                CHECK,
                format!("{text}; it is stopped"),
                format!(
                    "`kill -CONT {}` lets it go on, unless a debugger holds it",
                    facts.process
                ),
            ),
            0 => Finding::fine(CHECK, text),
            stuck => Finding::wrong(
                CHECK,
                format!("{text}; {stuck} of its threads wait in the kernel"),
                "mostly for storage that does not answer: see the mounts below, and the kernel's log (dmesg)",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tools::doctor::finding::State;

    #[test]
    fn control_groups_tell_container_pod_and_unit() {
        let id = "0123456789abcdef".repeat(4);
        let pod = "11111111-2222-3333-4444-555555555555";
        for (text, container, of_pod, unit) in [
            ("0::/\n".to_owned(), false, false, None),
            (
                "0::/system.slice/csi-nfs.service\n".to_owned(),
                false,
                false,
                Some("csi-nfs.service"),
            ),
            (
                format!("0::/system.slice/docker-{id}.scope\n"),
                true,
                false,
                None,
            ),
            (
                format!("12:cpu:/docker/{id}\n1:name=systemd:/docker/{id}\n"),
                true,
                false,
                None,
            ),
            (
                format!(
                    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope\n",
                    pod.replace('-', "_")
                ),
                true,
                true,
                None,
            ),
            (
                format!("4:memory:/kubepods/besteffort/pod{pod}/{id}\n"),
                true,
                true,
                None,
            ),
            (
                format!("0::/machine.slice/libpod-{id}.scope/container\n"),
                true,
                false,
                None,
            ),
        ] {
            let expected = Home {
                container: container.then(|| id.clone()),
                pod: of_pod.then(|| pod.to_owned()),
                unit: unit.map(str::to_owned),
            };
            assert_eq!(Home::parse(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_process_is_described_as_far_as_it_is_visible() {
        assert_eq!(ProcessFacts::finding(None).state, State::Unknown);
        let mut facts = ProcessFacts {
            process: 7,
            program: Some("csi-nfs".into()),
            other_mounts: Some(true),
            ..ProcessFacts::default()
        };
        let found = ProcessFacts::finding(Some(&facts));
        assert_eq!(found.state, State::Fine);
        assert_eq!(
            found.text,
            "csi-nfs, process 7, which sees other mounts than this program"
        );
        facts.stuck = 2;
        let found = ProcessFacts::finding(Some(&facts));
        assert_eq!(found.state, State::Wrong);
        let own = ProcessFacts::look(std::process::id());
        assert!(
            own.program.is_some() && own.other_mounts == Some(false) && !own.is_stopped,
            "{own:?}"
        );
    }
}
