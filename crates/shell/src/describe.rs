//! `desc`: shows the specification's text about an RPC, a message or an enum, from the tables of the protocol.

use csi_error::Error;
use csi_output::figure::some;
use csi_output::terminal::wrapped;
use csi_proto::Method;
use csi_proto::schema::{Enum, Field, Kind, Message, summary};
use csi_proto::tables::{ENUMS, MESSAGES, METHODS};
use csi_rpc::{GROUPS, Group, Rpc};
use std::fmt::Write as _;

/// The widest a comment gets, in columns.
const WIDEST: usize = 100;

/// The text about what `words` name, in so many columns: an RPC by any of its names, a group, a message or an enum.
///
/// # Errors
/// When there is nothing of that name; the error names what is near.
pub fn describe(words: &[String], columns: usize) -> Result<String, Error> {
    let mut page = Description {
        text: String::new(),
        columns: columns.clamp(20, WIDEST),
    };
    match named(words)? {
        Named::Method(method) => page.method(method),
        Named::Group(group) => page.group(group),
        Named::Message(message) => page.message(message),
        Named::Enum(of) => page.enumeration(of),
    }
    Ok(page.text)
}

/// What a name of the specification means.
enum Named {
    Method(&'static Method),
    Group(&'static Group),
    Message(&'static Message),
    Enum(&'static Enum),
}

fn named(words: &[String]) -> Result<Named, Error> {
    let words = match words {
        [csi, rest @ ..] if csi == "csi" && !rest.is_empty() => rest,
        words => words,
    };
    let name = words.join(" ");
    let (first, second) = match words {
        [first] => (without_package(first), None),
        [first, second] => (first.as_str(), Some(second.as_str())),
        _ => return Err(Error::usage(unknown(&name))),
    };
    // A method as gRPC and protobuf call it.
    let (first, second) = match (first.split_once(['/', '.']), second) {
        (Some((service, method)), None) if group(service).is_some() => (service, Some(method)),
        _ => (first, second),
    };
    if let Some(second) = second {
        let found = group(first).and_then(|group| group.rpcs.iter().find(|rpc| is(rpc, second)));
        return found
            .map(|rpc| Named::Method(rpc.method))
            .ok_or_else(|| Error::usage(unknown(&name)));
    }
    let candidates: Vec<(&Group, &Rpc)> = csi_rpc::with_groups()
        .filter(|(_, rpc)| is(rpc, first))
        .collect();
    let own = |(_, rpc): &&(&Group, &Rpc)| is_full_name(rpc.method, first);
    match (candidates.iter().find(own), candidates.as_slice()) {
        (Some((_, rpc)), _) | (None, [(_, rpc)]) => return Ok(Named::Method(rpc.method)),
        (None, []) => {}
        // `info` is a verb of two groups.
        (None, several) => {
            let names = several.iter().map(|(group, rpc)| group.command_of(rpc));
            let names: Vec<String> = names.collect();
            return Err(Error::usage(format!(
                "{first:?} is a verb of several groups: write {}",
                names.join(" or ")
            )));
        }
    }
    if let Some(group) = group(first) {
        return Ok(Named::Group(group));
    }
    let message = MESSAGES.iter().find(|of| same(of.short_name(), first));
    let of = ENUMS.iter().find(|of| same(of.short_name(), first));
    match (message, of) {
        (Some(message), _) => Ok(Named::Message(message)),
        (None, Some(of)) => Ok(Named::Enum(of)),
        (None, None) => Err(Error::usage(unknown(&name))),
    }
}

fn without_package(name: &str) -> &str {
    let name = name.trim_start_matches('/');
    name.strip_prefix("csi.v1.").unwrap_or(name)
}

/// The group of that name: its own, an alias, or the service's.
fn group(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| {
        let service = group.rpcs.first().map_or("", |rpc| rpc.method.service);
        group.is_called(name) || same(service, name)
    })
}

/// Whether an RPC has that name: a verb, an alias, or its own in any form.
fn is(rpc: &Rpc, name: &str) -> bool {
    rpc.is_called(name) || is_full_name(rpc.method, name)
}

fn is_full_name(method: &Method, name: &str) -> bool {
    same(method.name, name) || method.kebab_name == name.replace('_', "-")
}

/// The RPC that `words` name.
pub fn method(words: &[String]) -> Result<&'static Method, Error> {
    match named(words)? {
        Named::Method(method) => Ok(method),
        _ => Err(Error::usage(format!(
            "{:?} is no RPC: Tab lists them, for example CreateVolume",
            words.join(" ")
        ))),
    }
}

/// The number of names that an error offers.
const OFFERED: usize = 8;

/// The error for an unknown `name`, with names that begin like it, or else contain it.
fn unknown(name: &str) -> String {
    let wanted = name.to_lowercase();
    let mut near = names();
    near.retain(|known| known.to_lowercase().contains(&wanted));
    near.sort_by_key(|known| (!known.to_lowercase().starts_with(&wanted), known.len()));
    match near.as_slice() {
        [] => format!(
            "there is no RPC, message or enum {name:?}: Tab lists them, for example CreateVolume or VolumeCapability"
        ),
        near => format!("there is no {name:?}; there is {}", some(near, OFFERED)),
    }
}

/// The names of everything that can be described.
pub fn names() -> Vec<String> {
    let methods = METHODS.iter().map(|method| method.name.to_owned());
    let messages = MESSAGES.iter().map(|of| of.short_name().to_owned());
    let enums = ENUMS.iter().map(|of| of.short_name().to_owned());
    let groups = GROUPS.iter().map(|group| group.name.to_owned());
    methods.chain(messages).chain(enums).chain(groups).collect()
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

struct Description {
    text: String,
    columns: usize,
}

impl Description {
    fn group(&mut self, group: &'static Group) {
        let service = group.rpcs.first().map_or("", |rpc| rpc.method.service);
        let _ = writeln!(self.text, "service {service}");
        let _ = writeln!(self.text, "  command  {}", group.name);
        for rpc in group.rpcs {
            let _ = writeln!(self.text, "  {}  {}", rpc.verb(), rpc.method.name);
            self.comment(summary(rpc.method.doc), 6);
        }
    }

    fn method(&mut self, method: &'static Method) {
        let stream = if method.server_streaming {
            "stream of "
        } else {
            ""
        };
        let alpha = if method.alpha { "  (alpha)" } else { "" };
        let _ = writeln!(self.text, "rpc {}{alpha}", method.name);
        if let Some((group, rpc)) = csi_rpc::of_method(method) {
            let _ = writeln!(self.text, "  command  {} {}", group.name, rpc.verb());
        }
        let _ = writeln!(self.text, "  service  {}", method.service);
        let _ = writeln!(self.text, "  request  {}", method.request.short_name());
        let _ = writeln!(
            self.text,
            "  reply    {stream}{}",
            method.response.short_name()
        );
        self.comment(method.doc, 2);
        self.text.push('\n');
        self.message(method.request);
        self.text.push('\n');
        self.message(method.response);
    }

    fn message(&mut self, message: &'static Message) {
        let alpha = if message.alpha { "  (alpha)" } else { "" };
        let _ = writeln!(self.text, "message {}{alpha}", message.short_name());
        self.comment(message.doc, 2);
        if message.fields.is_empty() {
            self.text.push_str("  no fields\n");
        }
        for field in message.fields {
            self.field(field);
        }
    }

    fn field(&mut self, field: &'static Field) {
        let _ = write!(self.text, "  {} {field} = {}", field.name, field.number);
        if let Some(oneof) = field.oneof {
            let _ = write!(self.text, "  (one of {oneof})");
        }
        for (mark, set) in [("secret", field.secret), ("alpha", field.alpha)] {
            if set {
                let _ = write!(self.text, "  ({mark})");
            }
        }
        self.text.push('\n');
        self.comment(field.doc, 6);
        if let Kind::Enum(of) = field.kind {
            let values: Vec<&str> = of.values.iter().map(|value| value.name).collect();
            self.comment(&format!("Values: {}.", values.join(", ")), 6);
        }
    }

    fn enumeration(&mut self, of: &'static Enum) {
        let _ = writeln!(self.text, "enum {}", of.short_name());
        self.comment(of.doc, 2);
        for value in of.values {
            let alpha = if value.alpha { "  (alpha)" } else { "" };
            let _ = writeln!(self.text, "  {} = {}{alpha}", value.name, value.number);
            self.comment(value.doc, 6);
        }
    }

    /// Text in lines of the page's width.
    fn comment(&mut self, doc: &str, indent: usize) {
        if !doc.is_empty() {
            let (start, words) = (" ".repeat(indent), doc.split_whitespace());
            self.text += &wrapped(&start, indent, words, self.columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(name: &str) -> Result<String, String> {
        let words: Vec<String> = name.split(' ').map(str::to_owned).collect();
        describe(&words, 80).map_err(|error| error.render(csi_error::Style::Text))
    }

    #[test]
    fn everything_that_has_a_name_is_described() {
        for name in names() {
            assert!(about(&name).unwrap().contains(&name), "{name}");
        }
    }

    #[test]
    fn an_rpc_has_many_names_and_marks() {
        for name in [
            "CreateVolume",
            "create-volume",
            "createvolume",
            "create_volume",
            "controller create-volume",
            "csi c new",
            "Controller CreateVolume",
            "/csi.v1.Controller/CreateVolume",
            "csi.v1.Controller.CreateVolume",
        ] {
            let text = about(name).unwrap();
            assert!(text.starts_with("rpc CreateVolume\n"), "{name}: {text}");
            assert!(text.contains("  command  controller create-volume\n"));
            assert!(text.contains("map<string, string> = 5  (secret)"), "{text}");
            assert!(text.contains("message CreateVolumeResponse\n"));
        }
        for (name, start) in [
            ("mnt", "rpc NodePublishVolume\n"),
            ("node publish", "rpc NodePublishVolume\n"),
            ("n get-capabilities", "rpc NodeGetCapabilities\n"),
            ("controller", "service Controller\n"),
            ("sm", "service SnapshotMetadata\n"),
            ("csi.v1.Volume", "message Volume\n"),
            (
                "volumecapability.mountvolume",
                "message VolumeCapability.MountVolume\n",
            ),
        ] {
            let text = about(name).unwrap();
            assert!(text.starts_with(start), "{name}: {text}");
        }
        let text = about("VolumeCapability.AccessMode.Mode").unwrap();
        assert!(text.contains("  SINGLE_NODE_WRITER = 1\n"));
        for (name, part) in [
            ("VolumeUs", "there is VolumeUsage, VolumeUsage.Unit"),
            (
                "publish",
                "is a verb of several groups: write controller publish or node publish",
            ),
            ("controller stats", "there is no RPC, message or enum"),
            ("a b c", "there is no RPC, message or enum"),
        ] {
            let error = about(name).unwrap_err();
            assert!(error.contains(part), "{name}: {error}");
        }
        let volume = method(&["Volume".to_owned()]).map(|method| method.name);
        assert!(volume.is_err());
    }
}
