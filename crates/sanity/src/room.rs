//! What a driver has room for, which is its right to limit: the limits that it tells, the answers that say that it lacks
//! something.
//!
//! What becomes of a case that met such an answer is `case_states.rs`'s.

use super::driver_info::DriverInfo;
use super::need::needs::GET_CAPACITY;
use super::settings::Settings;
use super::verdict::status_text;
use bytes::Bytes;
use csi_call::advertised::{Asks, DriverEnd};
use csi_proto::path::Path;
use csi_proto::schema::Method;
use csi_proto::v1;
use csi_proto::value::Value;
use csi_rpc::facts::Effect;
use tonic::{Code, Status};

/// The volumes that a case has at a time, and those of them that are published to the node. Some have more, and run alone where
/// there is no room for them.
const VOLUMES_OF_A_CASE: i64 = 2;
const PLACES_OF_A_CASE: i64 = 1;

/// The limits that a driver tells; `None` for what it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The number of volumes that can be published to the node.
    places: Option<i64>,
    /// The bytes that are free.
    free: Option<i64>,
    /// The bytes of the largest volume.
    largest: Option<i64>,
}

impl Limits {
    /// Asks the driver, whose node has told how many volumes it takes, and where it is.
    pub(super) async fn ask<A: Asks>(
        ends: &mut A,
        settings: &Settings,
        driver: &DriverInfo,
    ) -> Result<Self, A::Error> {
        let known = |number: i64| (number > 0).then_some(number);
        let mut limits = Self {
            places: known(driver.node_info.max_volumes_per_node),
            ..Self::default()
        };
        if driver.has(GET_CAPACITY) == Some(true) {
            let request = v1::GetCapacityRequest {
                volume_capabilities: settings.capabilities.first().cloned().into_iter().collect(),
                parameters: settings.parameters.clone(),
                accessible_topology: driver.node_info.accessible_topology.clone(),
            };
            let told = ends.ask(DriverEnd::Controller, request).await?;
            limits.free = told
                .as_ref()
                .and_then(|told| known(told.available_capacity));
            limits.largest = told.and_then(|told| known(told.maximum_volume_size?));
        }
        Ok(limits)
    }

    /// How many cases may run at a time, of those that were asked for, so that all of them have room.
    pub(super) fn jobs(&self, asked: usize, size: i64) -> usize {
        let places = self.places.map(|places| places / PLACES_OF_A_CASE);
        let one = size.saturating_mul(VOLUMES_OF_A_CASE).max(1);
        let volumes = self.free.map(|free| free / one);
        let most = [places, volumes].into_iter().flatten().min();
        let most = most.map(|most| usize::try_from(most).unwrap_or(0));
        most.map_or(asked, |most| asked.min(most)).max(1)
    }

    /// The size of volumes, where one was asked for: the driver must have some of the double size too.
    pub(super) fn size(&self, asked: i64) -> i64 {
        let most = self.largest.map(|largest| (largest / 2).max(1));
        most.map_or(asked, |most| asked.min(most))
    }
}

/// What a driver says it lacks, as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Room for one more volume, snapshot or group, or for a larger one.
    Room,
    /// A place on the node for one more volume.
    Places,
    /// Volumes of such a size.
    Size,
    /// Whatever it needs to serve the call.
    Service,
}

impl Lack {
    /// In words, with what helps, and the case about whether what was taken is given back.
    fn told(self) -> (&'static str, &'static str, Option<&'static str>) {
        match self {
            Self::Room => (
                "no room",
                "where bytes are lacking, a smaller --volume-size needs less",
                Some("lifecycle/gives-room-back"),
            ),
            Self::Places => (
                "no place on the node",
                "it needs a node that takes more volumes",
                Some("lifecycle/gives-places-back"),
            ),
            Self::Size => (
                "no volumes of such a size",
                "--volume-size names a size of which there is also the double",
                None,
            ),
            Self::Service => (
                "not served now",
                "it runs once the driver serves that",
                None,
            ),
        }
    }

    /// The case about whether what was taken is given back.
    pub(super) fn case(self) -> Option<&'static str> {
        self.told().2
    }
}

/// An answer that says what the driver lacks.
#[derive(Clone, Debug)]
pub struct Shortage {
    pub(super) lack: Lack,
    /// The name of the RPC.
    pub(super) method: &'static str,
    /// The size that was asked for.
    pub(super) size: i64,
    /// The RPC and its answer.
    pub(super) told: String,
    /// Whether another refusal was demanded, so that this may be the driver's answer to the request, whenever it comes. Never
    /// where a case has made something, and it lacks room or a place for more.
    pub(super) in_place_of_another: bool,
}

impl Shortage {
    /// What the answer to a request says that the driver lacks. Sizes up to the largest that has worked are there.
    pub(super) fn of(
        method: &'static Method,
        request: &Bytes,
        status: &Status,
        largest: i64,
    ) -> Option<Self> {
        let size = required(method, request);
        Some(Self {
            lack: lack(method, size, status.code(), largest)?,
            method: method.name,
            size: size.unwrap_or(0),
            told: format!("{}: {}", method.name, status_text(status)),
            in_place_of_another: false,
        })
    }

    /// Why a run is incomplete at whose end that is lacking which was there at first.
    pub(super) fn at_last(&self) -> String {
        let (name, told) = (self.lack.told().0, &self.told);
        format!(
            "{name}, though there was at first: {told}: the driver keeps it, or somebody else has taken it"
        )
    }

    /// Why a case is skipped that met it.
    pub(super) fn reason(&self) -> String {
        let (name, advice, _) = self.lack.told();
        format!("{name}: {}; {advice}", self.told)
    }
}

fn lack(method: &Method, size: Option<i64>, code: Code, largest: i64) -> Option<Lack> {
    let effect = csi_rpc::facts(method).map(|facts| &facts.effect);
    match (code, effect) {
        (Code::Unavailable, _) => Some(Lack::Service),
        (Code::OutOfRange, _) => size.filter(|size| *size > largest).map(|_| Lack::Size),
        (Code::ResourceExhausted, Some(Effect::Makes(making))) => Some(match making.has_own_id() {
            true => Lack::Room,
            false => Lack::Places,
        }),
        // What needs no room may have a limit of calls in a time.
        (Code::ResourceExhausted, _) => Some(size.map_or(Lack::Service, |_| Lack::Room)),
        _ => None,
    }
}

/// The least size that a request asks for, 0 where it leaves that open; `None` of an RPC that has nothing to do with sizes.
pub fn required(method: &Method, request: &Bytes) -> Option<i64> {
    let path = Path::parse(method.request, "capacity_range.required_bytes").ok()?;
    match path.read(request) {
        Ok(Value::Int64(size)) => Some(size),
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_lacks_follows_from_call_and_code() {
        use Code::{Aborted, OutOfRange, ResourceExhausted as Full, Unavailable};
        use Lack::{Places, Room, Service, Size};
        let sized = |required: u8| Bytes::copy_from_slice(&[0x12, 2, 0x08, required]);
        let none = Bytes::new;
        for (name, request, code, expected) in [
            ("CreateVolume", sized(9), Full, Some(Room)),
            ("CreateVolume", none(), Full, Some(Room)),
            ("CreateSnapshot", none(), Full, Some(Room)),
            ("ControllerExpandVolume", sized(9), Full, Some(Room)),
            ("ControllerPublishVolume", none(), Full, Some(Places)),
            ("NodePublishVolume", none(), Full, Some(Places)),
            // Nothing that is asked or given back needs room.
            ("DeleteVolume", none(), Full, Some(Service)),
            ("ListVolumes", none(), Full, Some(Service)),
            // Eight bytes have worked.
            ("CreateVolume", sized(9), OutOfRange, Some(Size)),
            ("CreateVolume", sized(8), OutOfRange, None),
            ("CreateVolume", none(), OutOfRange, None),
            ("ListVolumes", none(), OutOfRange, None),
            ("ListVolumes", none(), Unavailable, Some(Service)),
            ("CreateVolume", sized(9), Aborted, None),
        ] {
            let method = csi_proto::tables::METHODS;
            let method = method.iter().find(|method| method.name == name).unwrap();
            let found = lack(method, required(method, &request), code, 8);
            assert_eq!(found, expected, "{name} {code:?}");
        }
    }

    #[test]
    fn limits_are_kept_by_running_fewer_cases_and_by_smaller_volumes() {
        let none = Limits::default();
        let of = |places, free, largest| Limits {
            places,
            free,
            largest,
        };
        for (limits, jobs, size) in [
            (none, 8, 1000),
            (of(Some(2), None, None), 2, 1000),
            (of(Some(1), None, None), 1, 1000),
            (of(Some(7), None, None), 7, 1000),
            (of(Some(100), None, None), 8, 1000),
            (of(None, Some(1500), None), 1, 1000),
            (of(None, Some(5000), None), 2, 1000),
            (of(None, Some(12_000), None), 6, 1000),
            (of(Some(4), Some(12_000), None), 4, 1000),
            (of(None, Some(7000), Some(1000)), 7, 500),
            (of(None, None, Some(1)), 8, 1),
        ] {
            let found = limits.size(1000);
            assert_eq!((limits.jobs(8, found), found), (jobs, size), "{limits:?}");
        }
    }
}
