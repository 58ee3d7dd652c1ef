//! `desc`: shows the specification's text about an RPC, a message or an enum, from the tables of the protocol.

use crate::error::Error;
use crate::output::terminal::{self, columns_of};
use crate::rpc::{self, GROUPS};
use csi_proto::schema::{Enum, Field, Kind, Message, Method};
use csi_proto::tables::{ENUMS, MESSAGES, METHODS};
use std::fmt::Write as _;

/// The widest a comment gets, in columns.
const WIDEST: usize = 100;

/// The text about `name`: an RPC by any of its names, a message or an enum with or without its package.
///
/// # Errors
/// When there is nothing of that name; the error names what is near.
pub fn describe(name: &str) -> Result<String, Error> {
    let columns = terminal::width().unwrap_or(80);
    let mut page = Description {
        text: String::new(),
        columns: columns.clamp(20, WIDEST),
    };
    let name = name.trim_start_matches("csi.v1.");
    if let Some(method) = method(name) {
        page.method(method);
    } else if let Some(message) = MESSAGES.iter().find(|of| same(of.short_name(), name)) {
        page.message(message);
    } else if let Some(of) = ENUMS.iter().find(|of| same(of.short_name(), name)) {
        page.enumeration(of);
    } else {
        return Err(Error::usage(unknown(name)));
    }
    Ok(page.text)
}

/// The number of names that an error offers.
const OFFERED: usize = 8;

/// The error for an unknown `name`, with names that begin like it, or else contain it.
fn unknown(name: &str) -> String {
    let wanted = name.to_lowercase();
    let mut near = names();
    near.retain(|known| known.to_lowercase().contains(&wanted));
    near.sort_by_key(|known| (!known.to_lowercase().starts_with(&wanted), known.len()));
    let more = match near.len().saturating_sub(OFFERED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    near.truncate(OFFERED);
    match near.as_slice() {
        [] => format!(
            "there is no RPC, message or enum {name:?}: Tab lists them, for example CreateVolume or VolumeCapability"
        ),
        near => format!("there is no {name:?}; there is {}{more}", near.join(", ")),
    }
}

/// The RPC of that name: its own in either form, or a verb or alias behind its group, or of one group alone.
pub fn method(name: &str) -> Option<&'static Method> {
    let own = METHODS
        .iter()
        .copied()
        .find(|method| same(method.name, name) || method.kebab_name == name);
    own.or_else(|| {
        let all = GROUPS.iter().flat_map(|group| group.rpcs);
        let mut named = all.filter(|rpc| rpc.names.contains(&name));
        let first = named.next()?;
        // `info` is a verb of two groups.
        named.next().is_none().then_some(first.method)
    })
}

/// The names of everything that can be described.
pub fn names() -> Vec<String> {
    let methods = METHODS.iter().map(|method| method.name.to_owned());
    let messages = MESSAGES.iter().map(|of| of.short_name().to_owned());
    let enums = ENUMS.iter().map(|of| of.short_name().to_owned());
    methods.chain(messages).chain(enums).collect()
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

struct Description {
    text: String,
    columns: usize,
}

impl Description {
    fn method(&mut self, method: &'static Method) {
        let stream = if method.server_streaming {
            "stream of "
        } else {
            ""
        };
        let alpha = if method.alpha { "  (alpha)" } else { "" };
        let _ = writeln!(self.text, "rpc {}{alpha}", method.name);
        if let Some((group, rpc)) = rpc::of_method(method) {
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
        let room = self.columns.saturating_sub(indent);
        let mut line = String::new();
        for word in doc.split_whitespace() {
            if !line.is_empty() && columns_of(&line) + 1 + columns_of(word) > room {
                let _ = writeln!(self.text, "{:indent$}{line}", "");
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            let _ = writeln!(self.text, "{:indent$}{line}", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_has_a_name_is_described() {
        for name in names() {
            assert!(describe(&name).unwrap().contains(&name), "{name}");
        }
    }

    #[test]
    fn an_rpc_has_many_names_and_marks() {
        for name in ["CreateVolume", "create-volume", "createvolume"] {
            let text = describe(name).unwrap();
            assert!(text.starts_with("rpc CreateVolume\n"), "{text}");
            assert!(text.contains("  command  controller create-volume\n"));
            assert!(text.contains("map<string, string> = 5  (secret)"), "{text}");
            assert!(text.contains("message CreateVolumeResponse\n"));
        }
        assert_eq!(method("mnt").map(|of| of.name), Some("NodePublishVolume"));
        assert!(method("capabilities").is_none());
        let text = describe("VolumeCapability.AccessMode.Mode").unwrap();
        assert!(text.contains("  SINGLE_NODE_WRITER = 1\n"));
        let error = describe("VolumeUs")
            .unwrap_err()
            .render(crate::error::Style::Text);
        assert!(
            error.contains("there is VolumeUsage, VolumeUsage.Unit"),
            "{error}"
        );
    }
}
