//! `edit`: opens a request as commented JSON in an editor.

use super::describe;
use csi_call::user_folders;
use csi_error::{Error, OrError};
use csi_proto::Method;
use csi_proto::schema::{Cardinality, Field, Kind, Message, summary};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// Requests that were written and not taken, each in a file that only its owner can read. They stay when the shell ends.
#[derive(Debug, Default)]
pub(crate) struct Drafts(BTreeMap<&'static str, PathBuf>);

/// A request that was edited. The file that is sent goes away with it; the text with its comments is a draft.
pub(crate) struct Edited {
    method: &'static Method,
    draft: PathBuf,
    sent: PathBuf,
    /// The command that sends it.
    pub words: Vec<String>,
}

impl Drop for Edited {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.sent);
    }
}

impl Drafts {
    /// Opens the editor on a request: on the draft of before, unless there is none or a new one is wanted. `None` where
    /// nothing was changed. `waits` waits for the editor.
    ///
    /// # Errors
    /// When there is no such RPC, or no editor, or the editor fails.
    pub fn edit(
        &mut self,
        words: &[String],
        anew: bool,
        waits: impl FnOnce(Child) -> io::Result<ExitStatus>,
    ) -> Result<Option<Edited>, Error> {
        let method = describe::method(words)?;
        let (group, rpc) =
            csi_rpc::of_method(method).ok_or_else(|| Error::local("the RPC has no command"))?;
        let file = |end: &str| {
            let name = format!("csi-{}-{}{end}.json", method.kebab_name, std::process::id());
            user_folders::temporary().join(name)
        };
        // One that somebody has removed is none.
        self.0.retain(|_, draft| draft.exists());
        let draft = self.0.get(method.name).filter(|_| !anew).cloned();
        let (draft, before) = match draft {
            Some(draft) => {
                let text = read(&draft)?;
                (draft, text)
            }
            None => {
                let (draft, skeleton) = (file(""), skeleton(method));
                write(&draft, &skeleton)?;
                (draft, skeleton)
            }
        };
        let text = open_editor(&draft, waits).and_then(|()| read(&draft));
        let is_same = |text: &String| *text == before || text.trim().is_empty();
        if text.as_ref().map_or(true, is_same) {
            // A draft of before is still one.
            if !self.0.contains_key(method.name) {
                let _ = fs::remove_file(&draft);
            }
            return text.map(|_| None);
        }
        let text = text?;
        // What is sent is a file too: it may hold secrets, which no argument may.
        let sent = file("-sent");
        write(&sent, &without_comments(&text))?;
        let words = [group.name, rpc.verb(), "--request"].map(str::to_owned);
        let path = sent.display().to_string();
        Ok(Some(Edited {
            method,
            draft,
            sent,
            words: words.into_iter().chain([path]).collect(),
        }))
    }

    /// Forgets the draft of a request that was taken, or keeps that of one which was not; then the error says where it is.
    pub fn sent<T>(&mut self, edited: &Edited, result: Result<T, Error>) -> Result<T, Error> {
        let (name, draft) = (edited.method.name, &edited.draft);
        let error = match result {
            Ok(taken) => {
                let _ = fs::remove_file(draft);
                self.0.remove(name);
                return Ok(taken);
            }
            Err(error) => error,
        };
        self.0.insert(name, draft.clone());
        Err(error.hint(format!(
            "what was written is kept: `edit {}` opens it again ({})",
            edited.method.kebab_name,
            draft.display()
        )))
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(path);
    text.or_because(format_args!("{} cannot be read", path.display()))
}

/// Writes a file that only its owner can read.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    // Whatever stands there, possibly somebody else's link, is not followed.
    let _ = fs::remove_file(path);
    let mut options = fs::File::options();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .or_because(format_args!("{} cannot be written", path.display()))
}

fn open_editor(
    file: &Path,
    waits: impl FnOnce(Child) -> io::Result<ExitStatus>,
) -> Result<(), Error> {
    let set = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let editor = set("VISUAL")
        .or_else(|| set("EDITOR"))
        .or_else(|| io::stdin().is_terminal().then(|| "vi".to_owned()));
    let Some(editor) = editor else {
        return Err(Error::usage(
            "there is no terminal to edit in: VISUAL or EDITOR names a program that needs none",
        ));
    };
    let words = shlex::split(&editor).unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::usage("EDITOR names no program"));
    };
    let status = Command::new(program)
        .args(arguments)
        .arg(file)
        .spawn()
        .and_then(waits)
        .map_err(|error| {
            Error::because(format!("the editor {program} cannot be started"), &error)
                .hint("VISUAL or EDITOR names the editor")
        })?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::local(format!(
            "the editor {program} failed ({status}), so nothing is sent"
        ))),
    }
}

/// The request as JSON in which every field stands: those that make a difference when they are empty as comments.
fn skeleton(method: &'static Method) -> String {
    let mut text = format!(
        "// {}: {}.\n// Save and leave to send it; leave it as it is to send nothing. Lines that begin with // are not sent.\n{{\n",
        method.name,
        summary(method.doc)
    );
    for field in method.request.fields {
        let secret = if field.secret { ", secret" } else { "" };
        let _ = writeln!(text, "  // {field}{secret}: {}.", summary(field.doc));
        let is_message = matches!(
            (field.kind, field.cardinality),
            (
                Kind::Message(_) | Kind::Timestamp | Kind::BoolValue | Kind::Int64Value,
                Cardinality::Singular
            )
        );
        let mark = if is_message { "// " } else { "" };
        let _ = writeln!(
            text,
            "  {mark}\"{}\": {},",
            field.json_name,
            example(field, 0)
        );
    }
    text.push_str("}\n");
    text
}

/// A value of a field as JSON on one line.
fn example(field: &Field, depth: usize) -> String {
    let one = match field.kind {
        Kind::Bool | Kind::BoolValue => "false".to_owned(),
        Kind::Int32 => "0".to_owned(),
        Kind::Int64 | Kind::Int64Value => "\"0\"".to_owned(),
        Kind::String => "\"\"".to_owned(),
        Kind::Timestamp => "\"1970-01-01T00:00:00Z\"".to_owned(),
        Kind::Enum(of) => {
            let usual = of.values.get(1).or(of.values.first());
            format!("\"{}\"", usual.map_or("", |value| value.name))
        }
        Kind::Message(of) => object(of, depth),
    };
    match field.cardinality {
        Cardinality::Singular => one,
        Cardinality::Map => "{}".to_owned(),
        // A capability is what most requests need one of.
        Cardinality::Repeated if matches!(field.kind, Kind::Message(of) if of.short_name() == "VolumeCapability") =>
        {
            format!("[{one}]")
        }
        Cardinality::Repeated => "[]".to_owned(),
    }
}

fn object(message: &'static Message, depth: usize) -> String {
    if message.short_name() == "VolumeCapability" {
        return "{\"accessMode\": {\"mode\": \"SINGLE_NODE_WRITER\"}, \"mount\": {}}".to_owned();
    }
    if depth > 4 {
        return "{}".to_owned();
    }
    let mut oneofs = Vec::new();
    let mut fields = Vec::new();
    for field in message.fields {
        // Of alternatives only one can be set.
        if let Some(oneof) = field.oneof {
            if oneofs.contains(&oneof) {
                continue;
            }
            oneofs.push(oneof);
        }
        let value = example(field, depth + 1);
        fields.push(format!("\"{}\": {value}", field.json_name));
    }
    format!("{{{}}}", fields.join(", "))
}

/// JSON without its comments and without commas before a closing bracket, which are left when lines are removed.
fn without_comments(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let mut out = String::new();
    let (mut in_text, mut escaped) = (false, false);
    for letter in lines.flat_map(|line| line.chars().chain(['\n'])) {
        if !in_text && matches!(letter, '}' | ']') {
            let end = out.trim_end().len();
            if out[..end].ends_with(',') {
                out.remove(end - 1);
            }
        }
        match letter {
            '"' if !escaped => in_text = !in_text,
            _ => {}
        }
        escaped = in_text && letter == '\\' && !escaped;
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::json;
    use csi_proto::tables::METHODS;

    #[test]
    fn every_skeleton_is_a_request() {
        for method in METHODS {
            let text = without_comments(&skeleton(method));
            let value = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}\n{text}", method.name));
            json::encode(method.request, &value)
                .unwrap_or_else(|error| panic!("{}: {error}\n{text}", method.name));
            // With every comment that is a field, too.
            let whole = skeleton(method).replace("  // \"", "  \"");
            let value = serde_json::from_str(&without_comments(&whole))
                .unwrap_or_else(|error| panic!("{}: {error}\n{whole}", method.name));
            json::encode(method.request, &value)
                .unwrap_or_else(|error| panic!("{}: {error}\n{whole}", method.name));
        }
    }

    #[test]
    fn commas_and_comments_inside_texts_stay() {
        let text = "{\n // c\n \"a\": \"x,]//\\\"\",\n \"b\": [1, 2,],\n}";
        let value: serde_json::Value = serde_json::from_str(&without_comments(text)).unwrap();
        assert_eq!(value, serde_json::json!({"a": "x,]//\"", "b": [1, 2]}));
    }
}
