//! The flags of tools for the volume that they make or use, beside its capability: size, parameters, volume context.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use csi_arguments::capability;
use csi_error::Error;
use csi_proto::{Request, tables, v1};
use csi_rpc::context::RequestContext;
use csi_rpc::draft::Draft;
use csi_rpc::flags::{CAPACITY, Flag, PARAMETERS, VOLUME_CONTEXT};
use prost::Message as _;

/// The flags that have the names of an RPC's.
const FLAGS: [Flag; 3] = [CAPACITY, PARAMETERS.of_new_volumes(), VOLUME_CONTEXT];

/// What was given for the volume.
#[derive(Clone, Debug)]
pub struct VolumeFlags(ArgMatches);

impl VolumeFlags {
    /// A request with capability, size, parameters, volume context and secrets, as far as it has fields for them. Without a
    /// capability it is the context's.
    pub fn request<Q: Request>(
        &self,
        cap: Option<&v1::VolumeCapability>,
        context: &RequestContext,
    ) -> Q {
        let mut draft = Draft::new(Q::METHOD.request, Vec::new());
        let cap = cap.or(context.default_capability.as_ref()).cloned();
        let cap = cap.unwrap_or_else(capability::default).encode_to_vec();
        draft.put("volume_capability", &cap);
        draft.put("volume_capabilities", &cap);
        draft.put_secrets(context.secrets.reveal());
        for flag in FLAGS {
            // None of these refuses anything.
            let _ = flag.fill(&self.0, None, context, &mut draft);
        }
        // These are the fields that it has.
        Q::decode(&*draft.bytes).unwrap_or_default()
    }

    /// Refuses a context for a volume that is created: the driver gives it one.
    ///
    /// # Errors
    /// When one is given, and no volume.
    pub fn check_context(&self, volume: Option<&str>) -> Result<(), Error> {
        match volume {
            None if VOLUME_CONTEXT.is_given(&self.0) => Err(Error::usage(
                "--vol-context has no effect without --volume-id: a new volume has the driver's",
            )),
            _ => Ok(()),
        }
    }
}

impl Args for VolumeFlags {
    fn augment_args(command: Command) -> Command {
        let flags = FLAGS.iter();
        let flags = flags.flat_map(|flag| flag.args(&tables::CREATE_VOLUME_REQUEST, &[]));
        command.args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for VolumeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
