//! CreateVolume and the names of volumes: any text is a valid name, and different names stand for different volumes.

use crate::vocabulary::*;

pub fn cases(list: &mut Cases) {
    list.about("controller/create-volume", "CreateVolume");
    list.needs(&[CREATE_DELETE_VOLUME]);
    list.rule("Volumes with different names are different volumes, also when the names differ only in case, at the end or by dots");
    list.changes("names-are-told-apart", |c| {
        let name = c.name();
        let names = [
            format!("{name}-a"),
            format!("{name}-A"),
            format!("{name}-a."),
            format!("{name}-a-"),
            format!("{name}_a"),
            format!("{name}.a"),
        ];
        c.one_of_each_name(&c.create_request()?, &names)
    });
    list.rule("A new volume has an id of its own, also when one was deleted that is older than another one");
    list.changes("with-an-id-of-its-own", |c| {
        let (older, newer) = c.two_volumes()?;
        c.ok(c.delete_request(older.id()))?;
        let new = c.volume()?;
        let actual = format!("{}, that of the volume before it", new.id());
        c.demands_of("replies/volume-ids", || {
            ensure(new.id() != newer.id(), "an id of its own", actual)
        })
    });
    list.rule("CreateVolume takes a name of 128 bytes, and tells two apart that differ only at their ends");
    list.under("Size Limits").changes("with-a-long-name", |c| {
        let name = c.name();
        let filled = |end: char| {
            let fill = "x".repeat(127 - name.len());
            format!("{name}{fill}{end}")
        };
        c.one_of_each_name(&c.create_request()?, &[filled('1'), filled('2')])
    });
    list.rule("CreateVolume takes any Unicode in a name but control characters, and tells such names apart");
    list.changes("with-a-unicode-name", |c| {
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
        c.one_of_each_name(&c.create_request()?, &names)
    });
    list.rule(
        "CreateVolume takes a name with slashes, dots and shell characters, for it is no path",
    );
    list.changes("with-a-name-like-a-path", |c| {
        let name = c.name();
        let ends = [
            "/..", "/../../x", "/", "\\", "$(x)", "'\"`", "%2f", "\n", "*",
        ];
        let names = ends.map(|end| format!("{name}{end}"));
        c.one_of_each_name(&c.create_request()?, &names)
    });
    list.rule("CreateVolume with a control character in the name is refused, for the specification bans them");
    list.changes("with-a-control-character", |c| {
        let mut request = c.create_request()?;
        request.name.push('\u{7}');
        let expected = "a name with a control character is INVALID_ARGUMENT";
        c.should_answer(request, &[InvalidArgument], expected)
    });
}
