//! What expressions find, and what they refuse.

use super::*;
use csi_proto::tables;
use serde_json::json;
use serde_json_path::JsonPath;

fn document() -> Json {
    json!({
        "volume": {
            "volumeId": "vol-1", "capacityBytes": "5",
            "volumeContext": {"a.b": "x", "c": "\u{1b}[2J", "app.io/n-1": "y"},
        },
        "entries": [{"id": "a", "n": 1}, {"id": "b", "n": 2}],
        "ready": true,
        "bytes": [{"b": "900"}, {"b": "1000"}, {"b": "9223372036854775807"}, {"b": "none"}],
    })
}

fn parsed(template: &str) -> Template {
    Template::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"))
}

fn found(template: &str) -> String {
    parsed(template).text(&document())
}

#[test]
fn kubectl_s_way_and_the_standard_s_find_the_same() {
    for (template, expected) in [
        ("{.volume.volumeId}", "vol-1"),
        ("{$.volume.volumeId}", "vol-1"),
        ("{@.volume.volumeId}", "vol-1"),
        ("{volume.volumeId}", "vol-1"),
        ("$.volume.volumeId", "vol-1"),
        (".volume.volumeId", "vol-1"),
        ("{.volume['volumeContext']['a.b']}", "x"),
        (r"{.volume.volumeContext.a\.b}", "x"),
        (r"{.volume.volumeContext['a\.b']}", "x"),
        (r"{.volume.volumeContext.app\.io/n-1}", "y"),
        ("{.entries[*].id}", "a b"),
        ("{.entries.[0].id}", "a"),
        ("{.entries[-1].id}{\"\\n\"}", "b\n"),
        ("{.entries[?(@.n > 1)].id}", "b"),
        ("{.entries[?@.id == '}'].id}", ""),
        ("{..id}", "a b"),
        ("id={.entries[0].id}{'\\t'}n={.entries[0].n};", "id=a\tn=1;"),
        ("{.ready} {.entries[0]}", "true {\"id\":\"a\",\"n\":1}"),
        ("{.missing}{.volume.missing.deeper}{.entries[9]}", ""),
        ("{\"}\"}{'it\"s'}{'it\\'s'}", "}it\"sit's"),
        ("{.volume.volumeContext.c}", "\\u{1b}[2J"),
        ("text", "text"),
    ] {
        assert_eq!(found(template), expected, "{template}");
    }
    assert!(found("{.}").starts_with("{\"volume\":{"));
}

#[test]
fn loops_say_their_inside_for_each_value() {
    for (template, expected) in [
        ("{range .entries[*]}{.id}={.n}{\"\\n\"}{end}", "a=1\nb=2\n"),
        (
            "{range .entries[*]}[{.id}, {@.n}] {end}.",
            "[a, 1] [b, 2] .",
        ),
        ("{range .missing[*]}{.id}{end}", ""),
        (
            "{range .entries[*]}{.}{$.ready}{end}",
            "{\"id\":\"a\",\"n\":1}true{\"id\":\"b\",\"n\":2}true",
        ),
        ("{range .entries}{[1].id}{end}", "b"),
        (
            "{range $}{range .entries[*]}{.id}{end}{.ready}{end}",
            "abtrue",
        ),
    ] {
        assert_eq!(found(template), expected, "{template}");
    }
}

#[test]
fn numbers_of_64_bits_compare_as_numbers() {
    for (test, expected) in [
        ("@.b > 900", "1000 9223372036854775807"),
        ("@.b == 900", "900"),
        ("@.b == '900'", "900"),
        ("@.b == 9e2", "900"),
        ("@.b == '0900'", ""),
        ("@.b <= '1000'", "900 1000"),
        ("@.b < $.bytes[1].b", "900"),
        ("@.b >= 9223372036854775807", "9223372036854775807"),
        ("@.b >= 9223372036854775806", "9223372036854775807"),
        ("@.b == 'none'", "none"),
        ("!(@.b > 900) && @.b != 'none'", "900"),
        ("length(@.b) == 4", "1000 none"),
    ] {
        assert_eq!(found(&format!("{{.bytes[?{test}].b}}")), expected, "{test}");
    }
}

/// Our own, because the library keeps its syntax trees to itself, and names and numbers need them. In what both know, they are
/// one.
#[test]
fn expressions_find_what_the_library_finds() {
    let document = json!({
        "a": [{"b": 1, "c": {"d": [1, 2, 3]}}, {"b": 2.5, "é": null}, {"b": "x"}, [[0], 1], "t"],
        "o": {"b": [5, 4, 3, 2, 1, 0], "a b": true, "'": 1},
        "n": 2,
    });
    for path in [
        "$",
        "$.a",
        "$.*",
        "$.a[*].b",
        "$['a'][0]['b','c']",
        "$..b",
        "$..*",
        "$..[0]",
        "$..['b','d']",
        "$.a[0,2].b",
        "$.o.b[1:4]",
        "$.o.b[:2]",
        "$.o.b[-2:]",
        "$.o.b[::2]",
        "$.o.b[::-1]",
        "$.o.b[4:1:-2]",
        "$.o.b[-1]",
        "$.o.b[9]",
        "$.o.b[-9]",
        "$.o.b[5:1]",
        "$.o.b[::0]",
        "$.o.b[-9:2]",
        "$.o.b[9:-9:-3]",
        "$['o']['a b']",
        "$.o[\"'\"]",
        "$['o']['\\'']",
        "$.a[1].é",
        "$.a[1]['\\u00e9']",
        "$ .a [ 0 , 1 ] .b",
        "$.a[?@.b]",
        "$.a[?!@.b]",
        "$.a[?@.b > 1]",
        "$.a[?@.b >= 1 && @.b <= 2.5]",
        "$.a[?@.b == 1 || @.b == 'x'].b",
        "$.a[?@.b == $.n]",
        "$.a[?@.b < 'y']",
        "$.a[?(@.b == 1)]",
        "$.a[?@.é == null]",
        "$.a[?@.x == @.y]",
        "$.a[?@.b != 1]",
        "$.a[?@[0]]",
        "$.a[?@ == 't']",
        "$.o[?@ == true]",
        "$.a[?@.c.d[?@ > 2]]",
        "$.a[?length(@) == 2]",
        "$.a[?length(@.b) == 1]",
        "$.a[?count(@.*) > 1]",
        "$.a[?value(@..d[0]) == 1]",
        "$..[?@.b]",
        "$.a[?@.c == $.a[0].c]",
        "$.a[?!(@.b || @[0])]",
        "$.a[?@.b == 1.0]",
        "$.o.b[?@ > 2, 0]",
        "$.a[?1 == 1]",
        "$.a[?@.b >= 'x' || 'a' < 'b' && false == true]",
    ] {
        let library = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let ours = expression(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let found = ours.find(Scope::whole(&document, Shape::Unknown));
        let found: Vec<&Json> = found.into_iter().map(|node| node.value).collect();
        assert_eq!(found, library.query(&document).all(), "{path}");
    }
}

#[test]
fn what_is_no_template_says_why() {
    for (template, problem) in [
        ("", "write an expression"),
        ("{}", "write an expression"),
        ("{.a", "no closing brace"),
        (
            "{range .entries[*]}{.id}",
            "{range .entries[*]} has no {end}",
        ),
        ("{range}{end}", "write what to loop over"),
        ("{.id}{end}", "{end} has no {range}"),
        ("{\"a}", "no closing brace"),
        ("{\"\\q\"}", "is no literal"),
        ("{.a..}", "a name is missing at the end"),
        ("{.a[id]}", "a selector is missing before \"id]\""),
        ("{.a[0}", "\"]\" is missing behind a selector, at the end"),
        ("{.a[0]b}", "\"b\" is more than an expression"),
        ("{.a[?@.*==1]}", "a comparison is of one value"),
        ("{.a[?@.b==]}", "a value is missing before \"]\""),
        ("{.a[?'b']}", "a comparison is missing"),
        (
            "{.entries[?match(@.id, 'a.*')]}",
            "there is no function match(), only length()",
        ),
        ("{.a[99999999999999999999]}", "is no index"),
    ] {
        let error = Template::parse(template).expect_err(template).to_string();
        assert!(error.contains(problem), "{template}: {error}");
    }
}

#[test]
fn names_are_the_specification_s_or_json_s() {
    let reply = json!({"entries": [
        {"volume": {"volumeId": "v1", "capacityBytes": "9", "volumeContext": {"volume_id": "k"}}, "#7": {"x": 1}},
        {"volume": {"volumeId": "v2", "capacityBytes": "10"}},
    ], "nextToken": "t"});
    let found = |template: &str| {
        let template =
            parsed(template).for_documents(Shape::Message(&tables::LIST_VOLUMES_RESPONSE));
        template.unwrap().text(&reply)
    };
    for (template, expected) in [
        ("{.entries[*].volume.volume_id}", "v1 v2"),
        ("{.entries[*]['volume']['volumeId']}", "v1 v2"),
        (
            "{.entries[?@.volume.capacity_bytes > 9].volume.volume_id}",
            "v2",
        ),
        (
            "{.entries[?@.volume.capacityBytes < $.entries[1].volume.capacity_bytes].volume.volumeId}",
            "v1",
        ),
        (
            "{range .entries[*]}{.volume.volume_id}:{$.next_token} {end}",
            "v1:t v2:t ",
        ),
        ("{.entries[*].status.volume_condition.abnormal}", ""),
        ("{.entries[*].volume.volume_context.missing}", ""),
        ("{.entries[0].volume.volume_context.volume_id}", "k"),
        ("{..volume_id}", "v1 k v2"),
        ("{.entries[*]['#7'].x}", "1"),
        ("{.entries[*].*.volume_id}", "v1 v2"),
    ] {
        assert_eq!(found(template), expected, "{template}");
    }
}

#[test]
fn a_name_that_the_message_lacks_is_an_error_with_those_that_are_near() {
    for (template, problem) in [
        (
            "{.entries[*].volume.id}",
            "Volume has no field \"id\"; it has capacity_bytes, volume_id,",
        ),
        ("{.entries[*].volume.volumeid}", "did you mean volume_id"),
        (
            "{.entires[*].volume}",
            "ListVolumesResponse has no field \"entires\"; did you mean entries?",
        ),
        (
            "{.volume.volume_id}",
            "no field \"volume\"; did you mean entries[*].volume?",
        ),
        (
            "{.volumeId}",
            "no field \"volumeId\"; did you mean entries[*].volume.volume_id?",
        ),
        (
            "{.entries.volume}",
            "\"volume\" is looked for in a list: write [*] before it",
        ),
        (
            "{.next_token.x}",
            "\"x\" is looked for in a value that has no parts",
        ),
        (
            "{.entries[?@.capacity_bytes > 1]}",
            "ListVolumesResponse.Entry has no field \"capacity_bytes\"",
        ),
        (
            "{range .entries[*]}{.volume_id}{end}",
            "Entry has no field \"volume_id\"; did you mean volume.volume_id",
        ),
        ("{.entries[?length(@.volum) > 1]}", "did you mean volume?"),
    ] {
        let template =
            parsed(template).for_documents(Shape::Message(&tables::LIST_VOLUMES_RESPONSE));
        let error = template.unwrap_err().to_string();
        assert!(error.contains(problem), "{problem}: {error}");
    }
    let empty = parsed("{.a}").for_documents(Shape::Message(&tables::DELETE_VOLUME_RESPONSE));
    let error = empty.unwrap_err().to_string();
    assert_eq!(
        error,
        "DeleteVolumeResponse has no field \"a\": there are no fields in it"
    );
}

#[test]
fn what_is_no_list_has_no_index_and_a_map_its_own_keys() {
    for (template, problem) in [
        (
            "{[0].garbage.more}",
            "an index is of a list, and ListVolumesResponse is none",
        ),
        ("{.next_token[0].garbage}", "a value without parts is none"),
        ("{.entries[0].volume[0]}", "Volume is none"),
        ("{.entries[*].volume.volume_context[1:]}", "a map is none"),
        (
            "{.next_token[*].garbage}",
            "\"*\" is looked for in a value that has no parts",
        ),
        (
            "{.entries[*].*.xyz}",
            "Volume has no field \"xyz\"; it has capacity_bytes, volume_id, volume_context, content_source, accessible_topology",
        ),
    ] {
        let template =
            parsed(template).for_documents(Shape::Message(&tables::LIST_VOLUMES_RESPONSE));
        let error = template.unwrap_err().to_string();
        assert!(error.ends_with(problem), "{problem}: {error}");
    }
    let reply =
        json!({"entries": [{"volume": {"volumeContext": {"volumeId": "J", "volume_id": "S"}}}]});
    let key =
        json!({"entries": [{"volume": {"volumeId": "v", "volumeContext": {"volumeId": "J"}}}]});
    for (template, of_both, of_key) in [
        ("{..volume_id}", "S", "v"),
        ("{..volumeId}", "J", "v J"),
        ("{.entries[*].volume.*.volume_id}", "S", ""),
        ("{.entries[?value(@..volume_id) == 'J']}", "", ""),
        ("{.entries[*]..volume_context.volumeId}", "J", "J"),
    ] {
        let template =
            parsed(template).for_documents(Shape::Message(&tables::LIST_VOLUMES_RESPONSE));
        let template = template.unwrap();
        assert_eq!(template.text(&reply), of_both, "{template:?}");
        let found = template.text(&key);
        let sorted = |text: &str| {
            let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(sorted(&found), sorted(of_key), "{template:?}");
    }
    let list = &reply["entries"];
    let template = parsed("{[*].volume.volume_context.volumeId}");
    let row = tables::LIST_VOLUMES_RESPONSE
        .field("entries")
        .and_then(|field| field.message());
    let template = template.for_documents(Shape::List(row));
    assert_eq!(template.unwrap().text(list), "J");
}

#[test]
fn what_stands_too_deep_is_an_error() {
    let nested = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    for (open, close) in [("(", ")"), ("!", ""), ("@[?", "]"), ("length(", ")")] {
        let template = |times| {
            let test = nested(open, "@.n", close, times);
            match open {
                "length(" => format!("{{.entries[?{test} == 1]}}"),
                _ => format!("{{.entries[?{test}]}}"),
            }
        };
        parsed(&template(20));
        let error = Template::parse(&template(100_000)).expect_err(open);
        assert!(
            error
                .to_string()
                .ends_with("more than 64 filters stand in each other"),
            "{open}"
        );
    }
    let loops = |times| nested("{range .}", "{.n}", "{end}", times);
    parsed(&loops(64));
    assert_eq!(
        Template::parse(&loops(65)).expect_err("too deep"),
        TemplateError::Deep
    );
}

#[test]
fn columns_have_a_name_and_an_expression() {
    let entry = json!({"volume": {"volumeId": "v1", "accessibleTopology": [
        {"segments": {"zone": "a,b"}}, {"segments": {"zone": "c"}},
    ]}});
    let text = "ID:.volume.volume_id,ZONES:{.volume.accessible_topology[*].segments['zone','x']},NONE:volume.volume_context.x";
    let columns = ExpressionColumn::parse_all(text).unwrap();
    let row = tables::LIST_VOLUMES_RESPONSE
        .field("entries")
        .and_then(|field| field.message())
        .unwrap();
    let shown: Vec<_> = columns
        .iter()
        .map(|column| {
            (
                column.head.as_str(),
                column.for_message(row).unwrap().text(&entry),
            )
        })
        .collect();
    let shown: Vec<_> = shown
        .iter()
        .map(|(head, text)| (*head, text.as_str()))
        .collect();
    assert_eq!(shown, [("ID", "v1"), ("ZONES", "a,b,c"), ("NONE", "")]);
    for (text, problem) in [
        ("", "\"\" is no column: write NAME:EXPRESSION"),
        ("ID", "\"ID\" is no column"),
        ("ID:", "\"ID:\" is no column"),
        ("ID:.a,", "\"\" is no column"),
        ("ID:.a[", "is no expression"),
    ] {
        let error = ExpressionColumn::parse_all(text)
            .expect_err(text)
            .to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}
