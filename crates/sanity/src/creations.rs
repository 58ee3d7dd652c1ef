//! Requests that make a thing under a name, whose id the driver chooses, and the demands that hold for all of them.
//!
//! Which requests these are stands in `sources.rs`.

use super::context::Context;
use super::given_ids::case_about_ids;
use super::verdict::{Stop, Verdict, ensure, same_id};
use csi_proto::Request;
use csi_proto::lock::lock;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request that makes a thing under a name.
pub trait Creation: Request + Clone {
    /// The message that describes the thing.
    type Thing: Default;
    /// The word for the thing.
    const WORD: &'static str;

    /// The request, with another name.
    fn named(self, name: String) -> Self;

    /// The thing in a reply.
    fn thing(reply: Self::Reply) -> Self::Thing;

    /// The id of the thing.
    fn id(thing: &Self::Thing) -> &str;

    /// Whether the thing can be used.
    fn is_ready(thing: &Self::Thing) -> bool;
}

impl Context {
    /// The thing that a request makes, or has made before.
    ///
    /// # Errors
    /// As [`Context::ok`].
    pub fn made<Q: Creation>(&self, request: &Q) -> Result<Q::Thing, Stop> {
        self.run.works(Q::METHOD, self.access(), None)?;
        self.identified::<Q>(self.ok(request.clone())?)
    }

    /// A thing that can be used: the request, repeated until the reply says so, as the specification has it.
    ///
    /// # Errors
    /// When it is not ready in time. The specification lets that take hours.
    pub fn ready<Q: Creation>(&self, request: &Q) -> Result<Q::Thing, Stop> {
        let end = Instant::now() + self.settings().case_limit / 2;
        let mut pause = Duration::from_millis(5);
        self.one_step(|| {
            loop {
                let thing = self.made(request)?;
                if Q::is_ready(&thing) {
                    return Ok(thing);
                }
                if Instant::now() >= end {
                    let reason = "is not ready yet after half of the time of --case-limit";
                    return Err(Stop::Barred(format!("a {} {reason}", Q::WORD)));
                }
                self.pause(pause)?;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        })?
    }

    /// Demands that equal requests at the same time make one thing.
    ///
    /// # Errors
    /// When they do not, or as [`Context::equal_calls`].
    pub fn one_of_equal_calls<Q: Creation>(self: &Arc<Self>, request: Q) -> Verdict {
        let things = self.equal_calls(request, 6)?.into_iter();
        let ids = things.map(|reply| Ok(Q::id(&self.identified::<Q>(reply)?).to_owned()));
        let ids: BTreeSet<_> = ids.collect::<Result<_, Stop>>()?;
        let actual = format!("ids {}", Vec::from_iter(ids.clone()).join(", "));
        ensure(ids.len() <= 1, "one id", actual)
    }

    /// Demands that requests with different names at the same time make a thing each. A driver may do one of them at a time.
    ///
    /// # Errors
    /// When they do not, or as [`Context::all_ok`].
    pub fn one_of_each_call<Q: Creation>(self: &Arc<Self>, requests: Vec<Q>) -> Verdict {
        let mut ids = BTreeSet::new();
        for reply in self.all_ok(requests)? {
            let id = Q::id(&self.identified::<Q>(reply)?).to_owned();
            let actual = format!("{id} for two names");
            self.demands_of(case_about_ids(Q::METHOD), || {
                ensure(ids.insert(id), "an id for each name", actual)
            })?;
        }
        Ok(())
    }

    /// Demands that a request makes a thing of its own under each of these names.
    ///
    /// # Errors
    /// When it does not, or as [`Context::ok`].
    pub fn one_of_each_name<Q: Creation>(&self, request: &Q, names: &[String]) -> Verdict {
        let mut ids = BTreeSet::new();
        for name in names {
            let thing = self.made(&request.clone().named(name.clone()))?;
            let id = Q::id(&thing).to_owned();
            let expected = format!("a {} of its own for {name:?}", Q::WORD);
            let actual = format!("{id}, the one of a name before it");
            let about_ids = case_about_ids(Q::METHOD);
            let is_new = ids.insert(id);
            if !is_new {
                // Whether these names are told apart is the subject of the case.
                lock(&self.broken_rules).leave(about_ids);
            }
            self.demands_of(about_ids, || ensure(is_new, expected, actual))?;
        }
        Ok(())
    }

    /// Sends a request with a deadline that is too short for most drivers, and demands that it makes the same thing when it
    /// is repeated; the thing.
    ///
    /// # Errors
    /// When it does not, or as [`Context::ok`].
    pub fn made_after_deadline<Q: Creation>(
        &self,
        request: &Q,
        deadline: Duration,
    ) -> Result<Q::Thing, Stop> {
        let first = self.send_within(deadline, request.clone())?;
        let again = self.made(request)?;
        if let Ok(reply) = first {
            let first = self.identified::<Q>(reply)?;
            same_id(Q::WORD, Q::id(&first), Q::id(&again))?;
        }
        Ok(again)
    }

    /// The thing in a reply.
    ///
    /// # Errors
    /// When it has no id, without which nothing can be done with it. The case about the replies of the RPC judges that.
    pub fn identified<Q: Creation>(&self, reply: Q::Reply) -> Result<Q::Thing, Stop> {
        let thing = Q::thing(reply);
        match Q::id(&thing) {
            "" => {
                let expected = format!("{} answers with the {}'s id", Q::METHOD.name, Q::WORD);
                Err(self.cannot_use(Q::METHOD, &expected, "it answered without"))
            }
            _ => Ok(thing),
        }
    }
}
