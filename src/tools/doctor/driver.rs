//! Asks the driver for what it says of itself and of its volumes, and judges that.
//!
//! Every question has a limit, and after one without an answer nothing else is asked.

use super::finding::Finding;
use csi_call::advertised::{Asks, DriverEnd, if_served};
use csi_call::pages::Pages;
use csi_call::session::Lost;
use csi_call::{Advertised, CallError, Connection, call_error};
use csi_error::Error;
use csi_output::figure::counted;
use csi_proto::{Request, v1};
use csi_rpc::facts::ControllerCapability;
use std::time::{Duration, Instant};
use tonic::Code;

/// How many abnormal volumes are named.
const NAMED: usize = 3;

const CONDITIONS: &str = "conditions";

/// The advice where a driver breaks a rule.
const DEFECT: &str = "a defect of the driver: `csi sanity` has the rule";

/// The most pages of volumes that are looked at.
const PAGES: usize = 100;

/// A driver that is asked.
pub struct Asked<'a> {
    driver: &'a Connection,
    /// Whether it has let a question pass.
    silent: bool,
}

/// A volume, as the driver lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeSeen {
    /// Its id.
    pub id: String,
    /// Everything by which its name may be known.
    pub words: Vec<String>,
    /// What the driver says of its condition.
    pub condition: String,
    /// Why it is abnormal, where the driver says that it is.
    pub abnormal: Option<String>,
}

/// The volumes that the driver lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumesSeen {
    /// Those that were looked at.
    pub seen: Vec<VolumeSeen>,
    /// Whether the list goes on.
    pub go_on: bool,
}

impl VolumesSeen {
    /// How many there are, or were looked at.
    pub fn count(&self) -> String {
        match self.go_on {
            true => format!("the first {}", counted(self.seen.len(), "volume")),
            false => counted(self.seen.len(), "volume"),
        }
    }
}

/// Everything that the driver has said.
#[derive(Debug, Default)]
pub struct Said {
    /// Its name and version.
    pub info: v1::GetPluginInfoResponse,
    /// What it advertises.
    pub advertised: Advertised,
    /// Its volumes, where it lists them.
    pub volumes: Option<VolumesSeen>,
    /// What was found on the way.
    pub findings: Vec<Finding>,
}

impl Said {
    /// What is known of a driver that was not asked.
    pub fn nothing(why: Finding) -> Self {
        Self {
            findings: vec![why],
            ..Self::default()
        }
    }
}

/// Asks everything.
pub async fn ask(driver: &Connection) -> Said {
    let mut asked = Asked {
        driver,
        silent: false,
    };
    let mut said = Said::default();
    let began = Instant::now();
    match asked.send(&v1::GetPluginInfoRequest {}).await {
        Ok(info) => {
            said.findings.push(plugin(&info, began.elapsed()));
            said.info = info;
        }
        Err(error) => said.findings.push(asked.failed("plugin", &error)),
    }
    let probe = match asked.silent {
        true => unasked("probe"),
        false => match asked.send(&v1::ProbeRequest {}).await {
            Ok(reply) => ready(reply.ready),
            Err(error) => asked.failed("probe", &error),
        },
    };
    said.findings.push(probe);
    if asked.silent {
        said.findings
            .extend(["capabilities", CONDITIONS].map(unasked));
        return said;
    }
    match Advertised::ask_all(&mut asked, false).await {
        Ok(advertised) => {
            said.findings.extend(super::meaning::findings(&advertised));
            said.advertised = advertised;
        }
        Err(error) => {
            said.findings.push(asked.failed("capabilities", &error));
            said.findings.push(match asked.silent {
                true => unasked(CONDITIONS),
                false => Finding::unknown(CONDITIONS, "not asked: the capabilities are not known"),
            });
            return said;
        }
    }
    let finding = match said
        .advertised
        .controller(ControllerCapability::ListVolumes)
    {
        false => Finding::unknown(CONDITIONS, "not advertised: LIST_VOLUMES"),
        true => match asked.volumes().await {
            Ok(volumes) => {
                let advertised = said
                    .advertised
                    .controller(ControllerCapability::VolumeCondition);
                let finding = conditions(&volumes, advertised);
                said.volumes = Some(volumes);
                finding
            }
            Err(failure) => failure,
        },
    };
    said.findings.push(finding);
    said
}

/// What was not asked, after a question that had no answer.
fn unasked(check: &'static str) -> Finding {
    Finding::unknown(check, "not asked: the driver does not answer")
}

/// What an error means: its causes, and its own advice where it has some.
pub fn of_error(check: &'static str, error: &Error, otherwise: &str) -> Finding {
    Finding::wrong(
        check,
        error.in_one_line(),
        error.advice().unwrap_or(otherwise),
    )
}

/// What the driver's name and version mean.
fn plugin(info: &v1::GetPluginInfoResponse, took: Duration) -> Finding {
    let milliseconds = took.as_secs_f64() * 1000.0;
    let words = [&*info.name, &*info.vendor_version].join(" ");
    match info.name.is_empty() {
        true => Finding::wrong(
            "plugin",
            "it has no name, which the specification requires",
            DEFECT,
        ),
        false => Finding::fine(
            "plugin",
            format!("{}, answered in {milliseconds:.1} ms", words.trim_end()),
        ),
    }
}

/// What the answer of Probe means; one that says nothing is ready.
fn ready(ready: Option<bool>) -> Finding {
    match ready {
        Some(false) => Finding::wrong(
            "probe",
            "the driver says that it is not ready",
            "its log says what it waits for; `csi --wait 1m identity probe` waits with it",
        ),
        _ => Finding::fine("probe", "ready"),
    }
}

/// What the conditions of its volumes mean.
fn conditions(volumes: &VolumesSeen, advertised: bool) -> Finding {
    let count = volumes.count();
    if !advertised {
        return Finding::unknown(
            CONDITIONS,
            format!("{count}; not advertised: VOLUME_CONDITION"),
        );
    }
    let seen = volumes.seen.iter();
    let abnormal: Vec<String> = seen
        .filter_map(|volume| Some(format!("{} ({})", volume.id, volume.abnormal.as_ref()?)))
        .collect();
    match (abnormal.is_empty(), volumes.go_on) {
        (true, false) => return Finding::fine(CONDITIONS, format!("{count}, none abnormal")),
        (true, true) => {
            let text = format!("{count}, none abnormal; those behind them were not looked at");
            return Finding::unknown(CONDITIONS, text);
        }
        (false, _) => {}
    }
    let shown = abnormal[..abnormal.len().min(NAMED)].join(", ");
    Finding::wrong(
        CONDITIONS,
        format!("{} of {count} abnormal: {shown}", abnormal.len()),
        "`csi controller get-volume ID` shows one; `csi wait volume ID --for healthy` waits for its end",
    )
}

impl Asked<'_> {
    async fn send<Q: Request>(&mut self, request: &Q) -> Result<Q::Reply, CallError> {
        let answer = self.driver.session.ask(request).await;
        if let Err(error) = &answer {
            // One cause is one fault.
            self.silent |= error.is_out_of_time || Lost::of(&error.status).is_some();
        }
        answer
    }

    /// The volumes of the first pages; a finding where they cannot be had.
    async fn volumes(&mut self) -> Result<VolumesSeen, Finding> {
        let mut volumes = VolumesSeen::default();
        let mut request = v1::ListVolumesRequest::default();
        let mut pages = Pages::default();
        for _ in 0..PAGES {
            let reply = self.send(&request).await;
            let reply = reply.map_err(|error| self.failed(CONDITIONS, &error))?;
            volumes.seen.extend(reply.entries.into_iter().map(|entry| {
                let volume = entry.volume.unwrap_or_default();
                let condition = entry.status.and_then(|status| status.volume_condition);
                let condition = condition.unwrap_or_default();
                VolumeSeen {
                    words: volume
                        .volume_context
                        .into_iter()
                        // The words of a claim are a user's.
                        .filter(|(key, _)| !key.starts_with("csi.storage.k8s.io/"))
                        .map(|(_, value)| value)
                        .chain([volume.volume_id.clone()])
                        .collect(),
                    id: volume.volume_id,
                    abnormal: condition.abnormal.then(|| condition.message.clone()),
                    condition: condition.message,
                }
            }));
            let goes_on = pages.go_on(&reply.next_token);
            volumes.go_on = goes_on.map_err(|error| of_error(CONDITIONS, &error, DEFECT))?;
            if !volumes.go_on {
                break;
            }
            request.starting_token = reply.next_token;
        }
        Ok(volumes)
    }

    /// What a failed call means.
    fn failed(&self, check: &'static str, error: &CallError) -> Finding {
        match error.status.code() {
            Code::DeadlineExceeded if error.is_out_of_time => Finding::wrong(
                check,
                format!("no answer within {:?}", error.timeout.unwrap_or_default()),
                "the driver accepts calls and does not answer: look at its log, and at the storage that it waits for",
            ),
            _ => of_error(
                check,
                &call_error(error, &self.driver.endpoint),
                "look at the driver's log",
            ),
        }
    }
}

impl Asks for Asked<'_> {
    type Error = CallError;

    async fn ask<Q: Request>(
        &mut self,
        _end: DriverEnd,
        request: Q,
    ) -> Result<Option<Q::Reply>, CallError> {
        if_served(self.send(&request).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::finding::State;

    #[test]
    fn what_the_driver_says_of_itself_is_judged() {
        let info = |name: &str| v1::GetPluginInfoResponse {
            name: name.into(),
            vendor_version: "1".into(),
            ..Default::default()
        };
        let took = Duration::from_millis(2);
        assert_eq!(plugin(&info("d"), took).text, "d 1, answered in 2.0 ms");
        assert_eq!(plugin(&info(""), took).state, State::Wrong);
        assert_eq!(ready(None).state, State::Fine);
        assert_eq!(ready(Some(true)).state, State::Fine);
        assert_eq!(ready(Some(false)).state, State::Wrong);
    }

    #[test]
    fn abnormal_volumes_are_named() {
        let volume = |abnormal: Option<&str>| VolumeSeen {
            id: "v".into(),
            abnormal: abnormal.map(str::to_owned),
            ..VolumeSeen::default()
        };
        let [fine, gone] = [None, Some("gone")].map(volume);
        let (one, both) = (std::slice::from_ref(&fine), [fine.clone(), gone]);
        for (seen, go_on, advertised, state, part) in [
            (
                &[][..],
                false,
                true,
                State::Fine,
                "0 volumes, none abnormal",
            ),
            (one, false, true, State::Fine, "1 volume, none abnormal"),
            (one, false, false, State::Unknown, "VOLUME_CONDITION"),
            (
                &both,
                false,
                true,
                State::Wrong,
                "1 of 2 volumes abnormal: v (gone)",
            ),
            (
                one,
                true,
                true,
                State::Unknown,
                "the first 1 volume, none abnormal; those behind them were not looked at",
            ),
            (
                &both,
                true,
                true,
                State::Wrong,
                "1 of the first 2 volumes abnormal",
            ),
        ] {
            let seen = seen.to_vec();
            let finding = conditions(&VolumesSeen { seen, go_on }, advertised);
            assert_eq!(finding.state, state, "{finding:?}");
            assert!(finding.text.contains(part), "{finding:?}");
        }
    }
}
