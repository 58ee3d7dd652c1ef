//! The rules for messages, judged once for each RPC after all other cases: whichever case got a reply that breaks one goes on.

use crate::case::CaseKind;
use crate::given_ids::case_about_ids;
use crate::need::Need;
use crate::vocabulary::*;
use csi_proto::tables::METHODS;

pub fn cases(list: &mut Cases) {
    for method in METHODS {
        list.about("replies", method.name);
        let needs = csi_rpc::facts(method).map_or(&[][..], |facts| facts.needs);
        if !needs.is_empty() {
            list.needs(&[Need::OneOf(needs)]);
        }
        let name = method.name;
        list.rule(&format!(
            "Every reply of {name} has what the specification requires, in its form, and agrees with the request"
        ));
        list.add(CaseKind::Last, method.kebab_name, |c| {
            c.keeps_reply_rules(method)
        });
        if let Some(name) = case_about_ids(method).strip_prefix("replies/") {
            let rule = "The id of what {} makes is that of nothing else of its kind that exists";
            list.rule(&rule.replace("{}", method.name));
            list.add(CaseKind::Last, name, |c| {
                c.has_replied(method)?;
                c.no_id_was_given_twice(case_about_ids(method))
            });
        }
    }
}
