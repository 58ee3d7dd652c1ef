//! The declaration of an RPC: its names, flags, request and columns, and the parts of it that commands need.
//!
//! Nothing here prints, connects, or knows a particular RPC.

use super::context::{RequestContext, RequestError, RequestFlags, WatchFlags};
use super::csc_flags;
use super::facts::{Capability, Effect, Facts, Given};
use super::flags::Flag;
use super::from_reply;
use super::validation::exchange::Agreement;
use super::validation::rule::Rule;
use clap::{ArgMatches, Args, Command};
use csi_output::csc::{Csc, CscWriter};
use csi_output::view::View;
use csi_proto::{Method, contents, schema};

/// Names, fields or command lines.
pub type Words = &'static [&'static str];
/// Capabilities of which a driver advertises one that has the RPC.
pub type Needs = &'static [Capability];
/// Values in a reply, each with its path there.
pub type Gives = &'static [(Given, &'static str)];
/// Rules about a message.
pub type Rules = &'static [Rule];
/// Rules between a request and its reply.
pub type Agreements = &'static [Agreement];
/// Flags in the order of the help.
pub type Flags = &'static [Flag];

/// A declaration of an RPC: implemented by its request, which knows its method and its reply.
pub trait Declare: csi_proto::Request {
    /// The effect of a call on the driver's volumes and snapshots.
    const EFFECT: Effect;
    /// A driver that advertises one of these has the RPC. Empty: every driver that serves the service has it.
    const NEEDS: Needs;
    /// The ids and contexts that later calls take from the reply, but for the id of a thing that the RPC makes.
    const GIVES: Gives = &[];
    /// What `--with-spec-validation` checks of the request beside its required fields.
    const REQUEST_RULES: Rules = &[];
    /// What it checks of the reply.
    const REPLY_RULES: Rules = &[];
    /// What it checks between the two.
    const AGREEMENTS: Agreements = &[];
    /// The verb, then its aliases.
    const NAMES: Words;
    /// The flags, which say every field of the request.
    const FLAGS: Flags = &[];
    /// The table of its replies.
    const VIEW: View;
    /// The output of `csc`, where csc has the RPC and prints more than the subject.
    const CSC: Csc = None;
    /// Command lines behind `csi GROUP`, which say every field of the request between them.
    const EXAMPLES: Words;
}

/// A declaration as data.
#[derive(Clone, Copy)]
pub struct Rpc {
    /// The method in the descriptors.
    pub method: &'static Method,
    /// The facts of the RPC: its effect, its needs, the ids in its reply.
    pub facts: Facts,
    /// The rules of its request, beyond those of all messages and their required fields.
    pub request_rules: Rules,
    /// Those of its reply.
    pub reply_rules: Rules,
    /// Those between the two.
    pub agreements: Agreements,
    /// The verb, then its aliases.
    pub names: Words,
    /// The table of its replies.
    pub view: &'static View,
    /// The output of `csc`, where csc has the RPC.
    pub csc: Option<CscWriter>,
    /// Command lines behind `csi GROUP`.
    pub examples: Words,
    /// The flags, which say every field of the request.
    flags: Flags,
    /// Adds the flags to a command.
    add_flags: fn(Command) -> Command,
}

/// The requests of one command line.
#[derive(Debug)]
pub struct Calls {
    /// One request for each subject, in order.
    pub requests: Vec<EncodedRequest>,
    /// Whether to follow `next_token` to the end.
    pub follow_pages: bool,
}

/// One request, encoded.
#[derive(Debug)]
pub struct EncodedRequest {
    /// The volume, snapshot or name that the command line named; empty where there is none.
    pub subject: String,
    /// The message.
    pub bytes: Vec<u8>,
}

impl Rpc {
    /// The declaration of `T` as data.
    pub const fn of<T: Declare>() -> Self {
        Self {
            method: T::METHOD,
            facts: Facts {
                effect: T::EFFECT,
                needs: T::NEEDS,
                gives: T::GIVES,
            },
            request_rules: T::REQUEST_RULES,
            reply_rules: T::REPLY_RULES,
            agreements: T::AGREEMENTS,
            names: T::NAMES,
            view: &T::VIEW,
            csc: T::CSC,
            examples: T::EXAMPLES,
            flags: T::FLAGS,
            add_flags: |command| Self::of::<T>().with_flags(command),
        }
    }

    /// Whether it may be called again and again, to see what changes.
    pub fn may_be_watched(&self) -> bool {
        self.facts.effect.is_reads() && !self.method.server_streaming
    }

    /// The verb.
    pub fn verb(&self) -> &'static str {
        self.names.first().copied().unwrap_or(self.method.name)
    }

    /// Whether a word on the command line is this RPC, within its group.
    pub fn is_called(&self, word: &str) -> bool {
        self.names.contains(&word) || self.method.kebab_name == word
    }

    /// The command of the RPC, whose flags are added when it is used, under its verb, its aliases and its full name.
    pub fn command(&self) -> Command {
        let full_name = self.method.kebab_name;
        let command = self.command_named(self.verb());
        let command = command.visible_aliases(self.names.get(1..).unwrap_or_default());
        match self.names.contains(&full_name) {
            true => command,
            false => command.alias(full_name),
        }
    }

    /// The same command under another name.
    pub fn command_named(&self, name: &'static str) -> Command {
        let about = schema::summary(self.method.doc);
        Command::new(name).about(about).defer(self.add_flags)
    }

    fn with_flags(&self, command: Command) -> Command {
        let Method {
            name,
            service,
            doc,
            request,
            ..
        } = self.method;
        let (about, section) = doc.split_once("Spec: ").unwrap_or((doc, ""));
        let section = section.trim_end_matches('.');
        let group = schema::kebab(service);
        let examples = self.examples.iter();
        let examples: String = examples
            .map(|line| format!("\n  csi {group} {line}"))
            .collect();
        let flags = self.flags.iter();
        let flags = flags.flat_map(|flag| {
            let own = flag.args(request, request.required).into_iter();
            let replied = flag.replied(request);
            own.chain(replied.map(|(long, field)| from_reply::arg(long, field)))
        });
        let command = RequestFlags::augment_args(command.args(flags));
        let command = match self.may_be_watched() {
            true => WatchFlags::augment_args(command),
            false => command,
        };
        let command = match csc_flags::is_as_csc(&command) {
            true => csc_flags::as_csc(command),
            false => command,
        };
        command
            .about(schema::summary(doc))
            .long_about(about.trim_end().to_owned())
            .after_help(format!(
                "RPC: csi.v1.{service}/{name}; specification: {section}\n\nExamples:{examples}"
            ))
    }

    /// The calls that a parsed command line asks for.
    ///
    /// # Errors
    /// When the flags do not make a request.
    pub fn calls(
        &self,
        matches: &ArgMatches,
        context: &RequestContext,
    ) -> Result<Calls, RequestError> {
        let message = self.method.request;
        let mut base = context.draft(message)?;
        for (long, field) in self.flags.iter().filter_map(|flag| flag.replied(message)) {
            for (key, value) in from_reply::given(matches, long, field)? {
                base.put_entry(field.name, &key, &value);
            }
        }
        let request = |subject: Option<&str>| {
            let mut draft = base.clone();
            for flag in self.flags {
                flag.fill(matches, subject, context, &mut draft)?;
            }
            let subject = subject.map(str::to_owned);
            Ok(EncodedRequest {
                subject: subject.unwrap_or_else(|| self.named_in(&draft.bytes)),
                bytes: draft.bytes,
            })
        };
        let subjects = self.flags.iter().find_map(|flag| flag.subjects(matches));
        let requests = match subjects {
            Some((_, all)) if !all.is_empty() => {
                all.into_iter().map(|one| request(Some(one))).collect()
            }
            Some((name, _)) if context.base.is_none() => Err(RequestError::NoSubject(name)),
            _ => request(None).map(|request| vec![request]),
        };
        Ok(Calls {
            requests: requests?,
            follow_pages: self.flags.iter().any(|flag| flag.follows_pages(matches)),
        })
    }

    /// What a request is about that was given as a whole.
    fn named_in(&self, request: &[u8]) -> String {
        let message = self.method.request;
        let mut flags = self.flags.iter();
        let field = flags.find_map(|flag| flag.subject_field(message));
        let named = field.and_then(|field| contents(message, request, field.name).pop());
        String::from_utf8_lossy(named.unwrap_or_default()).into_owned()
    }
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
    /// Whether a word on the command line is this group.
    pub fn is_called(&self, word: &str) -> bool {
        self.name == word || self.aliases.contains(&word)
    }

    /// The command of the group, in which the commands of its RPCs stand.
    pub fn command(&self) -> Command {
        self.command_with(self.rpcs)
    }

    /// The same with a part of its RPCs.
    pub fn command_with(&self, rpcs: impl IntoIterator<Item = &'static Rpc>) -> Command {
        let group = Command::new(self.name)
            .about(self.about)
            .visible_aliases(self.aliases)
            .subcommand_required(true)
            .arg_required_else_help(true);
        group.subcommands(rpcs.into_iter().map(Rpc::command))
    }

    /// The RPC as it is typed behind the program's name, such as `controller create-volume`.
    pub fn command_of(&self, rpc: &Rpc) -> String {
        format!("{} {}", self.name, rpc.verb())
    }
}
