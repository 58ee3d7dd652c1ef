//! What a call-out has answered, read from its output and its end. Pure; runs nothing.

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;
use thiserror::Error;

/// The answer of a call-out that has succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Answer {
    status: String,
    message: String,
    /// The path of the device: of attach and waitforattach.
    pub device: String,
    /// The volume's name: of getvolumename.
    #[serde(rename = "volumename")]
    pub volume_name: String,
    /// Whether it is attached: of isattached.
    pub attached: bool,
    /// What the driver can do: of init.
    pub capabilities: Capabilities,
    /// The size after expandvolume and expandfs, where the driver tells.
    #[serde(rename = "volumenewsize")]
    pub new_size: i64,
}

/// What a driver says of itself in the answer of init; nothing where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// It attaches and detaches, and mounts devices once for a node.
    pub attach: Option<bool>,
    /// The use of its volumes can be asked of their file system.
    #[serde(rename = "supportsmetrics")]
    pub supports_metrics: bool,
    /// The caller changes the group of files; a driver that says no does it by itself.
    #[serde(rename = "fsgroup")]
    pub fs_group: Option<bool>,
    /// expandfs is to be called.
    #[serde(rename = "requiresfsresize")]
    pub requires_fs_resize: bool,
}

/// A call-out that has not done what it was called for.
#[derive(Debug, Error)]
#[error("{call}: {problem}")]
pub struct CallOutError {
    /// The call-out's name.
    pub call: &'static str,
    /// What is wrong.
    pub problem: Problem,
}

/// Why a call-out has not done it.
#[derive(Debug, Error)]
pub enum Problem {
    /// The executable cannot be run.
    #[error("cannot run {executable}: {cause}", executable = executable.display())]
    NotStarted {
        /// The executable.
        executable: PathBuf,
        /// The system's word.
        cause: std::io::Error,
    },
    /// Its time was over.
    #[error("it had no answer after {0:.1?} and was killed")]
    Late(Duration),
    /// It wrote more than is read.
    #[error("it wrote more than {0} bytes and was killed")]
    TooMuch(usize),
    /// A signal ended it.
    #[error("signal {signal} ended it{wrote}")]
    Killed {
        /// The signal's number.
        signal: i32,
        /// What it wrote.
        wrote: Wrote,
    },
    /// What it wrote is no answer.
    #[error("exit code {code}, and no answer in JSON ({why}){wrote}")]
    NoAnswer {
        /// Its exit code.
        code: i32,
        /// What is wrong with the text.
        why: String,
        /// What it wrote.
        wrote: Wrote,
    },
    /// Success, and an exit code that says otherwise.
    #[error("it answered Success and ended with exit code {code}{wrote}")]
    Contradiction {
        /// Its exit code.
        code: i32,
        /// What it wrote.
        wrote: Wrote,
    },
    /// It has failed, and says so.
    #[error("{status}: {message}")]
    Failure {
        /// The status: Failure, or one that FlexVolume does not have.
        status: String,
        /// The driver's reason.
        message: String,
    },
    /// The driver has no such call-out.
    #[error("Not supported")]
    NotSupported,
}

impl CallOutError {
    /// Whether it is known that nothing was done: the driver said so, or never ran.
    pub fn did_nothing(&self) -> bool {
        matches!(
            self.problem,
            Problem::Failure { .. } | Problem::NotSupported | Problem::NotStarted { .. }
        )
    }

    /// Whether the driver has no such call-out.
    pub fn is_not_supported(&self) -> bool {
        matches!(self.problem, Problem::NotSupported)
    }
}

/// What a driver wrote, as the end of a message.
#[derive(Debug)]
pub struct Wrote(String);

impl fmt::Display for Wrote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "" => f.write_str("; it wrote nothing"),
            text => write!(f, "; it wrote: {text}"),
        }
    }
}

/// The answer in what an executable has left.
pub fn answer(output: &Output) -> Result<Answer, Problem> {
    // Where a signal ended it, a JSON text says nothing of what was done after it was written.
    let Some(code) = output.status.code() else {
        let signal = output.status.signal().unwrap_or_default();
        let wrote = wrote(output);
        return Err(Problem::Killed { signal, wrote });
    };
    let read = match is_blank(&output.stdout) {
        false => parsed(&output.stdout),
        // The kubelet reads both streams as one.
        true => parsed(&output.stderr).map_err(|_| "its standard output is empty".to_owned()),
    };
    let answer = read.map_err(|why| Problem::NoAnswer {
        code,
        why,
        wrote: wrote(output),
    })?;
    match answer.status.as_str() {
        "Success" if code == 0 => Ok(answer),
        "Success" => Err(Problem::Contradiction {
            code,
            wrote: wrote(output),
        }),
        "Not supported" => Err(Problem::NotSupported),
        status => Err(Problem::Failure {
            status: status.to_owned(),
            message: match answer.message.as_str() {
                "" => format!("without a message{}", Wrote(text_of(&output.stderr))),
                message => message.to_owned(),
            },
        }),
    }
}

fn parsed(text: &[u8]) -> Result<Answer, String> {
    let members: Map<String, Json> = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    let answer: Answer =
        serde_json::from_value(in_lower_case(members)).map_err(|error| error.to_string())?;
    match answer.status.is_empty() {
        true => Err("it has no status".to_owned()),
        false => Ok(answer),
    }
}

/// The members with their names in lower case: Go, whose reader FlexVolume drivers were written for, does not tell these apart.
fn in_lower_case(members: Map<String, Json>) -> Json {
    let lower = members.into_iter().map(|(name, value)| {
        let value = match value {
            Json::Object(inner) => in_lower_case(inner),
            value => value,
        };
        (name.to_lowercase(), value)
    });
    // null is the absence of a value in Go.
    Json::Object(lower.filter(|(_, value)| !value.is_null()).collect())
}

fn is_blank(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_whitespace)
}

fn wrote(output: &Output) -> Wrote {
    let both = [&output.stdout, &output.stderr].map(|text| text_of(text));
    Wrote(both.join(" ").trim().to_owned())
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    fn exited(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    fn output(status: ExitStatus, stdout: &str, stderr: &str) -> Output {
        Output {
            status,
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }

    #[test]
    fn answers_are_read() {
        let all = r#"{"status": "Success", "device": "/dev/x", "volumeName": "v", "attached": true, "volumeNewSize": 5,
            "Capabilities": {"attach": false, "supportsMetrics": true, "FSGroup": false, "requiresFSResize": true, "new": 1},
            "message": null}"#;
        let read = answer(&output(exited(0), all, "noise")).unwrap();
        assert_eq!(
            (read.device.as_str(), read.volume_name.as_str()),
            ("/dev/x", "v")
        );
        assert!(read.attached && read.new_size == 5);
        let expected = Capabilities {
            attach: Some(false),
            supports_metrics: true,
            fs_group: Some(false),
            requires_fs_resize: true,
        };
        assert_eq!(read.capabilities, expected);
        // Some drivers answer on the other stream.
        let read = answer(&output(exited(0), "\n", r#"{"Status":"Success"}"#));
        assert_eq!(read.unwrap().capabilities, Capabilities::default());
    }

    #[test]
    fn what_is_no_success_is_told_apart() {
        let success = r#"{"status":"Success"}"#;
        for (end, stdout, stderr, expected) in [
            (
                exited(1),
                r#"{"status":"Failure","message":"no disk"}"#,
                "",
                "Failure: no disk",
            ),
            (
                exited(0),
                r#"{"status":"Failure","message":"no disk"}"#,
                "",
                "Failure: no disk",
            ),
            (
                exited(1),
                r#"{"status":"Failure"}"#,
                "mount: denied",
                "Failure: without a message; it wrote: mount: denied",
            ),
            (
                exited(1),
                r#"{"status":"Not supported"}"#,
                "",
                "Not supported",
            ),
            (
                exited(0),
                r#"{"status":"not supported"}"#,
                "",
                "not supported: without a message; it wrote nothing",
            ),
            (
                exited(3),
                success,
                "oops",
                "it answered Success and ended with exit code 3; it wrote: {\"status\":\"Success\"} oops",
            ),
            (
                ExitStatus::from_raw(9),
                success,
                "",
                "signal 9 ended it; it wrote: {\"status\":\"Success\"}",
            ),
            (
                exited(127),
                "",
                "jq: not found\n",
                "exit code 127, and no answer in JSON (its standard output is empty); it wrote: jq: not found",
            ),
            (
                exited(0),
                " ",
                "",
                "exit code 0, and no answer in JSON (its standard output is empty); it wrote nothing",
            ),
            (
                exited(0),
                "{}",
                "",
                "exit code 0, and no answer in JSON (it has no status); it wrote: {}",
            ),
            (
                exited(0),
                r#"{"status":"Success"} trailing"#,
                "",
                "exit code 0, and no answer in JSON (trailing characters at line 1 column 22); it wrote: {\"status\":\"Success\"} trailing",
            ),
            (
                exited(0),
                r#"{"status":"Success","attached":"yes"}"#,
                "",
                "exit code 0, and no answer in JSON (invalid type: string \"yes\", expected a boolean); it wrote: {\"status\":\"Success\",\"attached\":\"yes\"}",
            ),
        ] {
            let problem = answer(&output(end, stdout, stderr)).unwrap_err();
            assert_eq!(problem.to_string(), expected);
        }
    }
}
