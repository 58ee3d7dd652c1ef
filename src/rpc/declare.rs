//! The declaration of an RPC: its names, flags, request and columns, and the parts of it that commands need.
//!
//! Nothing here prints, connects, or knows a particular RPC.

use super::facts::Facts;
use super::flags::{self, RequestContext, RequestError};
use super::validation::rpc_rules::RpcRules;
use crate::output::csc;
use crate::output::view::View;
use clap::{ArgMatches, Args};
use csi_proto::Request as _;
use csi_proto::schema::{self, Method};
use prost::Message;

/// A declaration: implemented by the struct that holds an RPC's flags.
pub trait Declare: Args {
    /// The request's type, which knows its method and its reply.
    type Request: csi_proto::Request;
    /// The facts of the RPC: its effect, its needs, its required fields, the ids in its reply.
    const FACTS: Facts;
    /// The rules that `--with-spec-validation` checks beyond those of all messages.
    const RULES: RpcRules = RpcRules::NONE;
    /// The verb, then its aliases.
    const NAMES: &'static [&'static str];
    /// The table of its replies.
    const VIEW: View;
    /// The output of `csc`, where csc has the RPC and prints more than the subject.
    const CSC: Option<csc::CscWriter> = None;
    /// Command lines behind `csi GROUP`, which say every field of the request between them.
    const EXAMPLES: &'static [&'static str];

    /// The arguments of which each makes a call (volume ids, snapshot names …). `None` where the RPC has no such argument.
    fn subjects(&self) -> Option<flags::Subjects<'_>> {
        None
    }

    /// Whether to follow `next_token` to the end.
    fn follows_pages(&self) -> bool {
        false
    }

    /// Puts what the flags say into `request`, over what a `--request` has put there. Nothing, where the request is empty.
    ///
    /// # Errors
    /// When flags contradict each other or need something that is not there.
    fn fill(
        &self,
        _subject: Option<&str>,
        _context: &RequestContext,
        _request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        Ok(())
    }
}

/// A declaration as data.
#[derive(Clone, Copy)]
pub struct Rpc {
    /// The method in the descriptors.
    pub method: &'static Method,
    /// The facts of the RPC: its effect, its needs, its required fields, the ids in its reply.
    pub facts: &'static Facts,
    /// The rules beyond those of all messages.
    pub rules: RpcRules,
    /// The verb, then its aliases.
    pub names: &'static [&'static str],
    /// The table of its replies.
    pub view: &'static View,
    /// The output of `csc`, where csc has the RPC.
    pub csc: Option<csc::CscWriter>,
    /// Command lines behind `csi GROUP`.
    #[cfg(test)]
    pub examples: &'static [&'static str],
    /// Adds the flags to a command.
    pub add_flags: fn(clap::Command) -> clap::Command,
    /// The calls that a parsed command line asks for.
    pub calls: fn(&ArgMatches, &RequestContext) -> Result<Calls, RequestError>,
}

/// The requests of one command line.
#[derive(Debug)]
pub struct Calls {
    /// One request for each subject, in order.
    pub requests: Vec<Request>,
    /// Whether to follow `next_token` to the end.
    pub follow_pages: bool,
}

/// One request, encoded.
#[derive(Debug)]
pub struct Request {
    /// The volume, snapshot or name that the command line named; empty where there is none.
    pub subject: String,
    /// The message.
    pub bytes: Vec<u8>,
}

impl Rpc {
    /// The declaration of `T` as data.
    pub const fn of<T: Declare>() -> Self {
        Self {
            method: T::Request::METHOD,
            facts: &T::FACTS,
            rules: T::RULES,
            names: T::NAMES,
            view: &T::VIEW,
            csc: T::CSC,
            #[cfg(test)]
            examples: T::EXAMPLES,
            add_flags: add_flags::<T>,
            calls: calls::<T>,
        }
    }

    /// The verb.
    pub fn verb(&self) -> &'static str {
        self.names.first().copied().unwrap_or(self.method.name)
    }
}

fn add_flags<T: Declare>(command: clap::Command) -> clap::Command {
    let method = T::Request::METHOD;
    let (about, section) = method.doc.split_once("Spec: ").unwrap_or((method.doc, ""));
    let service = method.service;
    let group = schema::kebab(service);
    let examples: String = T::EXAMPLES
        .iter()
        .map(|line| format!("\n  csi {group} {line}"))
        .collect();
    flags::RequestFlags::augment_args(T::augment_args(command))
        .about(schema::summary(method.doc))
        .long_about(about.trim_end().to_owned())
        .after_help(format!(
            "RPC: csi.v1.{service}/{}; specification: {}\nExamples:{examples}",
            method.name,
            section.trim_end_matches('.')
        ))
}

fn calls<T: Declare>(
    matches: &ArgMatches,
    context: &RequestContext,
) -> Result<Calls, RequestError> {
    let flags = T::from_arg_matches(matches).map_err(RequestError::Flags)?;
    let base = context.base(T::Request::METHOD.request)?;
    let mut requests = Vec::new();
    let mut add = |subject: Option<&str>| {
        let mut request = T::Request::decode(base.as_slice()).map_err(RequestError::Base)?;
        flags.fill(subject, context, &mut request)?;
        requests.push(Request {
            subject: subject.unwrap_or_default().to_owned(),
            bytes: request.encode_to_vec(),
        });
        Ok(())
    };
    match flags.subjects() {
        Some(subjects) if !subjects.all.is_empty() => {
            for subject in subjects.all {
                add(Some(subject))?;
            }
        }
        Some(subjects) if !context.has_base() => {
            return Err(RequestError::NoSubject(subjects.value_name));
        }
        _ => add(None)?,
    }
    Ok(Calls {
        requests,
        follow_pages: flags.follows_pages(),
    })
}

/// A service and its RPCs.
pub struct Group {
    /// The command's name.
    pub name: &'static str,
    /// Other names of it.
    pub aliases: &'static [&'static str],
    /// Whether the driver's node answers it, where node and controller are two processes.
    pub at_node: bool,
    /// A line of help.
    pub about: &'static str,
    /// The RPCs of the group in the order of the help.
    pub rpcs: &'static [Rpc],
}

impl Group {
    /// The RPC as it is typed behind the program's name, such as `controller create-volume`.
    pub fn command_of(&self, rpc: &Rpc) -> String {
        format!("{} {}", self.name, rpc.verb())
    }
}
