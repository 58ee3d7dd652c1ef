//! The details that a driver may attach to a status (`google.rpc.Status`), as JSON for errors.

use base64::Engine as _;
use prost::Message;
use prost_types::Any;
use serde_json::{Value as Json, json};
use tonic_types::pb;

/// The details in `bytes`, the value of the trailer `grpc-status-details-bin`: each with its type's name under `@type`,
/// and as base64 where the type is not one of gRPC's own. Bytes that are no status have no details.
pub fn decoded(bytes: &[u8]) -> Vec<Json> {
    let details = pb::Status::decode(bytes).map(|status| status.details);
    details.unwrap_or_default().iter().map(detail).collect()
}

fn detail(any: &Any) -> Json {
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let known = match name {
        "google.rpc.ErrorInfo" => pb::ErrorInfo::decode(&*any.value).map(|info| {
            let metadata: std::collections::BTreeMap<_, _> = info.metadata.into_iter().collect();
            json!({"reason": info.reason, "domain": info.domain, "metadata": metadata})
        }),
        "google.rpc.RetryInfo" => pb::RetryInfo::decode(&*any.value).map(|info| {
            let delay = info.retry_delay.map(|delay| delay.to_string());
            json!({ "retryDelay": delay })
        }),
        "google.rpc.DebugInfo" => pb::DebugInfo::decode(&*any.value)
            .map(|info| json!({"stackEntries": info.stack_entries, "detail": info.detail})),
        "google.rpc.QuotaFailure" => pb::QuotaFailure::decode(&*any.value).map(|failure| {
            let violation = |one: &pb::quota_failure::Violation| {
                json!({"subject": one.subject, "description": one.description})
            };
            json!({"violations": failure.violations.iter().map(violation).collect::<Vec<_>>()})
        }),
        "google.rpc.PreconditionFailure" => pb::PreconditionFailure::decode(&*any.value).map(|failure| {
            let violation = |one: &pb::precondition_failure::Violation| {
                json!({"type": one.r#type, "subject": one.subject, "description": one.description})
            };
            json!({"violations": failure.violations.iter().map(violation).collect::<Vec<_>>()})
        }),
        "google.rpc.BadRequest" => pb::BadRequest::decode(&*any.value).map(|request| {
            let violation = |one: &pb::bad_request::FieldViolation| {
                json!({"field": one.field, "description": one.description})
            };
            json!({"fieldViolations": request.field_violations.iter().map(violation).collect::<Vec<_>>()})
        }),
        "google.rpc.RequestInfo" => pb::RequestInfo::decode(&*any.value)
            .map(|info| json!({"requestId": info.request_id, "servingData": info.serving_data})),
        "google.rpc.ResourceInfo" => pb::ResourceInfo::decode(&*any.value).map(|info| {
            json!({
                "resourceType": info.resource_type,
                "resourceName": info.resource_name,
                "owner": info.owner,
                "description": info.description,
            })
        }),
        "google.rpc.Help" => pb::Help::decode(&*any.value).map(|help| {
            let link = |one: &pb::help::Link| json!({"description": one.description, "url": one.url});
            json!({"links": help.links.iter().map(link).collect::<Vec<_>>()})
        }),
        "google.rpc.LocalizedMessage" => pb::LocalizedMessage::decode(&*any.value)
            .map(|message| json!({"locale": message.locale, "message": message.message})),
        _ => Ok(Json::Null),
    };
    let mut out = json!({ "@type": name });
    match (known, &mut out) {
        (Ok(Json::Object(fields)), Json::Object(out)) => out.extend(fields),
        (_, out) => {
            out["value"] = json!(base64::engine::general_purpose::STANDARD.encode(&any.value))
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_details_are_decoded_and_others_kept() {
        let text = str::to_owned;
        let described = || text("why");
        let known = |name: &str, value: Vec<u8>| Any {
            type_url: format!("type.googleapis.com/google.rpc.{name}"),
            value,
        };
        let error = pb::ErrorInfo {
            reason: text("QUOTA"),
            domain: text("storage.example"),
            metadata: [(text("k"), text("v"))].into(),
        };
        let retry = pb::RetryInfo {
            retry_delay: Some(prost_types::Duration {
                seconds: 1,
                nanos: 500_000_000,
            }),
        };
        let debug = pb::DebugInfo {
            stack_entries: vec![text("main")],
            detail: described(),
        };
        let quota = pb::QuotaFailure {
            violations: vec![pb::quota_failure::Violation {
                subject: text("s"),
                description: described(),
                ..Default::default()
            }],
        };
        let precondition = pb::PreconditionFailure {
            violations: vec![pb::precondition_failure::Violation {
                r#type: text("t"),
                subject: text("s"),
                description: described(),
            }],
        };
        let request = pb::BadRequest {
            field_violations: vec![pb::bad_request::FieldViolation {
                field: text("f"),
                description: described(),
                ..Default::default()
            }],
        };
        let about = pb::RequestInfo {
            request_id: text("r"),
            serving_data: text("d"),
        };
        let resource = pb::ResourceInfo {
            resource_type: text("t"),
            resource_name: text("n"),
            owner: text("o"),
            description: described(),
        };
        let help = pb::Help {
            links: vec![pb::help::Link {
                description: described(),
                url: text("u"),
            }],
        };
        let message = pb::LocalizedMessage {
            locale: text("de"),
            message: text("m"),
        };
        let own = Any {
            type_url: text("type.example/example.Own"),
            value: vec![1, 2, 3],
        };
        let status = pb::Status {
            details: vec![
                known("ErrorInfo", error.encode_to_vec()),
                known("RetryInfo", retry.encode_to_vec()),
                known("DebugInfo", debug.encode_to_vec()),
                known("QuotaFailure", quota.encode_to_vec()),
                known("PreconditionFailure", precondition.encode_to_vec()),
                known("BadRequest", request.encode_to_vec()),
                known("RequestInfo", about.encode_to_vec()),
                known("ResourceInfo", resource.encode_to_vec()),
                known("Help", help.encode_to_vec()),
                known("LocalizedMessage", message.encode_to_vec()),
                own,
            ],
            ..Default::default()
        };
        let expected = [
            json!({"@type": "google.rpc.ErrorInfo", "reason": "QUOTA", "domain": "storage.example", "metadata": {"k": "v"}}),
            json!({"@type": "google.rpc.RetryInfo", "retryDelay": "1.500s"}),
            json!({"@type": "google.rpc.DebugInfo", "stackEntries": ["main"], "detail": "why"}),
            json!({"@type": "google.rpc.QuotaFailure", "violations": [{"subject": "s", "description": "why"}]}),
            json!({"@type": "google.rpc.PreconditionFailure", "violations": [{"type": "t", "subject": "s", "description": "why"}]}),
            json!({"@type": "google.rpc.BadRequest", "fieldViolations": [{"field": "f", "description": "why"}]}),
            json!({"@type": "google.rpc.RequestInfo", "requestId": "r", "servingData": "d"}),
            json!({"@type": "google.rpc.ResourceInfo", "resourceType": "t", "resourceName": "n", "owner": "o", "description": "why"}),
            json!({"@type": "google.rpc.Help", "links": [{"description": "why", "url": "u"}]}),
            json!({"@type": "google.rpc.LocalizedMessage", "locale": "de", "message": "m"}),
            json!({"@type": "example.Own", "value": "AQID"}),
        ];
        assert_eq!(decoded(&status.encode_to_vec()), expected);
        assert_eq!(decoded(b"\xff no status"), Vec::<Json>::new());
    }
}
