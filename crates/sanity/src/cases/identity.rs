//! The Identity service: the driver's name and version, its capabilities, whether it is ready.

use super::capabilities::are_constant;
use crate::vocabulary::*;

pub fn cases(list: &mut Cases) {
    list.about("identity/plugin-info", "GetPluginInfo");
    list.rule("GetPluginInfo answers with a name in domain name notation and a version");
    list.reads("names-the-driver", |c| {
        // The rules of the message say it all.
        c.ok(v1::GetPluginInfoRequest {})
    });
    list.rule("GetPluginInfo gives the same answer every time, also to calls at the same time");
    list.reads("is-constant", |c| {
        let first = c.ok(v1::GetPluginInfoRequest {})?;
        each(
            c.together(vec![v1::GetPluginInfoRequest {}; 8])?,
            |answer| {
                let actual = match &answer {
                    Ok(info) => format!("it answered {} {}", info.name, info.vendor_version),
                    Err(status) => status_text(status),
                };
                let same = answer.is_ok_and(|info| info == first);
                ensure(same, "the same name and version again", actual)
            },
        )
    });
    list.rule("The endpoints of one driver give the same name");
    list.also(&[CONTROLLER_SERVICE]);
    list.reads("is-the-same-at-the-controller", |c| {
        let at_node = c.ok(v1::GetPluginInfoRequest {})?.name;
        let at_controller = c.at_controller(v1::GetPluginInfoRequest {})?.name;
        ensure(at_node == at_controller, &at_node, at_controller)
    });
    list.about("identity/plugin-capabilities", "GetPluginCapabilities");
    list.rule("GetPluginCapabilities answers with types of the specification, each once, and the same ones every time");
    list.reads("are-known-and-constant", |c| {
        are_constant(c, v1::GetPluginCapabilitiesRequest {})
    });
    list.about("identity/probe", "Probe");
    list.rule("Probe of a driver that serves its calls answers OK, with ready true or left out");
    list.reads("answers-ready", |c| {
        let ready = c.ok(v1::ProbeRequest {})?.ready != Some(false);
        let expected = "ready is true or left out, for the driver serves calls";
        // How long it may say that it is still initializing no sentence says.
        c.should(ready, expected, "ready is false");
        Ok(())
    });
    list.rule("Probe can be called often and at the same time");
    list.reads("can-be-called-at-any-time", |c| {
        c.demands_of("identity/probe/answers-ready", || {
            c.all_ok(vec![v1::ProbeRequest {}; 16])
        })
    });
}
