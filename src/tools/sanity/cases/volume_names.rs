//! CreateVolume and the names of volumes: any text is a valid name, and different names stand for different volumes.

use crate::tools::sanity::answers::answer_text;
use crate::tools::sanity::case::{Case, Verdict, case, ensure};
use crate::tools::sanity::context::Context;
use crate::tools::sanity::need::needs::CREATE_DELETE_VOLUME;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/create-volume/names-are-told-apart",
        "Volumes with different names are different volumes, also when the names differ only in case, at the end or by dots",
        "CreateVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            let name = c.name();
            let names = [
                format!("{name}-a"),
                format!("{name}-A"),
                format!("{name}-a."),
                format!("{name}-a-"),
                format!("{name}_a"),
                format!("{name}.a"),
            ];
            distinct(c, &names)?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/with-a-long-name",
        "CreateVolume takes a name of 128 bytes, and tells two apart that differ only at their ends",
        "Size Limits",
        [CREATE_DELETE_VOLUME],
        |c| {
            let name = c.name();
            let filled = |end: char| {
                let fill = "x".repeat(127 - name.len());
                format!("{name}{fill}{end}")
            };
            distinct(c, &[filled('1'), filled('2')])?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/with-a-unicode-name",
        "CreateVolume takes any Unicode in a name but control characters, and tells such names apart",
        "CreateVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            let name = c.name();
            // Composed and decomposed, a right-to-left script, and what takes two units in UTF-16.
            let ends = [
                "\u{e4}",
                "a\u{308}",
                "\u{5d0}",
                "\u{1f4be}",
                " with blanks ",
            ];
            let names = ends.map(|end| format!("{name}{end}"));
            distinct(c, &names)?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/with-a-name-like-a-path",
        "CreateVolume takes a name with slashes, dots and shell characters, for it is no path",
        "CreateVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            let name = c.name();
            let ends = [
                "/..", "/../../x", "/", "\\", "$(x)", "'\"`", "%2f", "\n", "*",
            ];
            let names = ends.map(|end| format!("{name}{end}"));
            distinct(c, &names)?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/with-a-control-character",
        "CreateVolume with a control character in the name is refused, for the specification bans them",
        "CreateVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            let mut request = c.create_request()?;
            request.name.push('\u{7}');
            let answer = c.send(request)?;
            let actual = answer_text(&answer);
            let refused = answer.is_err_and(|status| status.code() == Code::InvalidArgument);
            c.should(
                refused,
                "a name with a control character is INVALID_ARGUMENT",
                actual,
            );
        }
    ),
];

/// Creates volumes of these names, and demands that each has an id of its own.
fn distinct(c: &Context, names: &[String]) -> Verdict {
    let mut ids: Vec<String> = Vec::new();
    for name in names {
        let mut request = c.create_request()?;
        request.name.clone_from(name);
        let id = c.volume_of(request)?.id();
        let actual = format!("{name:?} has the id {id} of another name");
        ensure(
            !ids.contains(&id),
            "every name has a volume of its own",
            actual,
        )?;
        ids.push(id);
    }
    Ok(())
}
