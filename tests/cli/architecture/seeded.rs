//! Shows that the rules can fail: small packages of texts, into each of which one forbidden arrow is written.

use super::graph::Graph;
use super::modules::{Package, Sources};
use super::rules::{self, Never, Only};

/// A package of three rooms, in order: `top` with two files, `middle` that hands on, and `bottom`.
const CLEAN: &[(&str, &str)] = &[
    ("lib.rs", "mod bottom; mod middle; mod top; use top::Top;"),
    (
        "top/mod.rs",
        "pub mod inner; pub use inner::Deep; pub struct Top; pub const LIMIT: u8 = 1; pub fn make() -> Top { Top }",
    ),
    ("top/inner.rs", "pub struct Deep; pub enum Sort { Plain }"),
    ("middle.rs", "pub use crate::bottom::low;"),
    ("bottom.rs", "pub fn low() {}"),
];

const ROOMS: &[&str] = &["lib", "top", "middle", "bottom"];

/// The package with other texts in these files.
fn seeded(changes: &[(&str, &str)]) -> Graph {
    let texts = CLEAN.iter().chain(changes);
    let sources: Sources = texts
        .map(|(path, text)| (format!("src/{path}"), (*text).to_owned()))
        .collect();
    Graph::of(
        Package::read("fixture", "src", &["lib.rs"], &sources),
        "src",
    )
}

#[test]
fn a_clean_package_breaks_no_rule() {
    let graph = seeded(&[]);
    assert_eq!(rules::upward(&graph, ROOMS), [""; 0]);
    assert_eq!(rules::circular(&graph, &[]), [""; 0]);
}

/// Each line of code, in the lowest room, takes something from the room on top.
#[test]
fn an_arrow_up_is_seen_however_it_is_written() {
    let top = "src/top/mod.rs";
    let inner = "src/top/inner.rs";
    let cases = [
        // Imports.
        ("use crate::top::Top;", top),
        ("use super::top::Top;", top),
        ("use crate::{middle, top::{self as t, Top}};", top),
        ("use {crate::{top::{inner::{Deep}}}};", inner),
        ("use crate::top::Top as Other;", top),
        ("use crate::top::Top as _;", top),
        ("use crate::top;", top),
        ("use crate::top::*;", top),
        ("fn f() { use crate::top::make; make(); }", top),
        ("mod own { use super::super::top::Top; }", top),
        ("fn f() { use crate as all; all::top::make(); }", top),
        // Re-exports: what is handed on, and what came through another file.
        ("pub use crate::top::Top;", top),
        ("pub(crate) use crate::top::Deep;", inner),
        ("use crate::top::Deep;", inner),
        ("fn f(_: crate::top::Deep) {}", inner),
        (
            "mod own { pub use crate::top; } fn f() { own::top::Deep; }",
            top,
        ),
        // Paths in code.
        ("fn f() { crate::top::make(); }", top),
        ("fn f() { let x = crate::top::Top {}; }", top),
        ("const ALL: &[u8] = &[super::top::LIMIT];", top),
        ("static MAKE: fn() = || drop(crate::top::make());", top),
        ("fn f() { call::<crate::top::Top>(); }", top),
        ("fn f() { let top = 1; crate::top::make(); }", top),
        // Paths in types and patterns.
        ("fn f(_: Option<&[Box<super::top::Top>]>) {}", top),
        ("fn f() -> impl Fn(crate::top::Top) { |_| () }", top),
        ("struct S { field: crate::top::inner::Deep }", inner),
        ("type T = <crate::top::Top as Iterator>::Item;", top),
        ("impl Iterator for crate::top::Top {}", top),
        ("fn f<T: Into<T>>() where crate::top::Top: From<T> {}", top),
        ("fn f(x: u8) { if let crate::top::LIMIT = x {} }", top),
        (
            "fn f(x: X) { match x { crate::top::inner::Sort::Plain => {} } }",
            inner,
        ),
        // Attributes.
        ("#[arg(value_parser = crate::top::make)] struct S;", top),
        (
            "struct S { #[arg(default_value_t = crate::top::LIMIT)] x: u8 }",
            top,
        ),
        ("#[derive(crate::top::Top)] struct S;", top),
        ("#[crate::top::make] struct S;", top),
        ("#[serde(with = \"crate::top::inner\")] struct S;", inner),
        // Tokens of macros.
        ("fn f() { vec![1, crate::top::LIMIT]; }", top),
        ("fn f() { format!(\"{}\", super::top::LIMIT); }", top),
        (
            "case! { name => |x| { use crate::{top::{inner::Deep as D}}; x } }",
            inner,
        ),
        ("case! { name: { a(b[crate :: top :: make()]) } }", top),
        ("macro_rules! m { () => { $crate::top::make() } }", top),
        ("crate::top::make! {}", top),
        ("case! { a => |x| x.map(super::top::make).make() }", top),
        ("#[cfg(not(test))] use crate::top::Top;", top),
        ("#[cfg(feature = \"x\")] use crate::top::Top;", top),
    ];
    for (code, target) in cases {
        let text = format!("pub fn low() {{}}\n{code}\n");
        let broken = rules::upward(&seeded(&[("bottom.rs", &text)]), ROOMS);
        assert!(!broken.is_empty(), "nobody sees {code}");
        let arrow = |line: &String| {
            line.starts_with("src/bottom.rs:2 takes ")
                && line.contains(&format!(
                    " from {target}: an arrow up, for bottom lies below top"
                ))
        };
        assert!(broken.iter().any(arrow), "{code}: {broken:?}");
    }
}

#[test]
fn what_is_no_arrow_is_not_seen() {
    let cases = [
        "// use crate::top::Top;\n/// See [`crate::top::Top`].\nfn f() {}",
        "const TEXT: &str = \"crate::top::Top\";",
        "#[cfg(test)] use crate::top::Top;",
        "#[cfg(all(test, feature = \"x\"))] mod tests { use crate::top::Top; }",
        "#[cfg(test)] mod tests;",
        "#[test] fn f() { crate::top::make(); }",
        "fn f() { #[cfg(test)] if x { crate::top::make(); } else { crate::top::make(); } }",
        "struct S { #[cfg(test)] field: Option<crate::top::Top>, other: u8 }",
        "fn f() { S { #[cfg(test)] field: crate::top::make(), other: 1 }; }",
        "fn f(x: X) { match x { #[cfg(test)] X::A => { crate::top::make(); } X::B => {} } }",
        "enum E { #[cfg(test)] A(crate::top::Top), B }",
        "impl S { #[cfg(test)] fn f() -> crate::top::Top { crate::top::make() } fn g() {} }",
        "mod top { pub fn make() {} } fn f() { top::make(); self::top::make(); }",
        "use other::top::Top; fn f(_: Top) {}",
        "use ::top::Top;",
        "fn f(top: X) { top.make(); let make = top; make(); vec![make]; }",
        "pub(in crate) fn f() {} pub(super) fn g() {}",
    ];
    for code in cases {
        let text = format!("pub fn low() {{}}\n{code}\n");
        let changes = [
            ("bottom.rs", &*text),
            ("bottom/tests.rs", "use crate::top::Top;"),
        ];
        let broken = rules::upward(&seeded(&changes), ROOMS);
        assert!(broken.is_empty(), "{code}: {broken:?}");
    }
}

#[test]
fn a_room_that_the_list_does_not_have_is_named_and_so_is_one_too_much() {
    let broken = rules::upward(&seeded(&[]), &["lib", "top", "bottom"]);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("the list of rooms has no middle"));
    let broken = rules::upward(&seeded(&[]), &["lib", "top", "middle", "bottom", "cellar"]);
    assert_eq!(
        broken,
        ["the room cellar does not exist: remove it from the list"]
    );
}

#[test]
fn a_circle_of_files_is_seen_also_through_a_reexport() {
    let cases: [&[(&str, &str)]; 5] = [
        // Two files.
        &[
            ("middle.rs", "pub use crate::bottom::low; pub struct M;"),
            ("bottom.rs", "pub fn low(_: crate::middle::M) {}"),
        ],
        // A folder's file uses what its child has, and the child what the folder's file has.
        &[
            ("top/inner.rs", "pub struct Deep(super::Top); pub fn f() {}"),
            (
                "top/mod.rs",
                "mod inner; pub use inner::Deep; pub struct Top; pub fn make() { inner::f(); }",
            ),
        ],
        // The folder's file says the name that it hands on.
        &[
            ("top/inner.rs", "pub struct Deep(super::Top);"),
            (
                "top/mod.rs",
                "mod inner; pub use inner::Deep; pub struct Top; pub fn make(_: Deep) {}",
            ),
        ],
        // Two children that take each other's names from their folder's file.
        &[
            (
                "top/mod.rs",
                "mod inner; mod other; pub use {inner::Deep, other::O}; pub struct Top;",
            ),
            ("top/inner.rs", "use super::O; pub struct Deep(O);"),
            ("top/other.rs", "use crate::top::Deep; pub struct O(Deep);"),
        ],
        // Three files.
        &[
            ("top/inner.rs", "use crate::bottom::low; pub struct Deep;"),
            ("middle.rs", "pub use crate::top::inner::Deep;"),
            ("bottom.rs", "pub fn low() { vec![crate::middle::f()]; }"),
        ],
    ];
    for changes in cases {
        let broken = rules::circular(&seeded(changes), &[]);
        assert_eq!(broken.len(), 1, "{changes:?}: {broken:?}");
        for (file, _) in changes
            .iter()
            .filter(|(_, text)| !text.starts_with("mod inner; mod other;"))
        {
            assert!(
                broken[0].contains(&format!("src/{file}")),
                "{changes:?}: {broken:?}"
            );
        }
        assert!(broken[0].contains("; cut an arrow: move what both need"));
        assert!(broken[0].contains(" -> src/"), "{broken:?}");
    }
}

#[test]
fn a_child_may_use_its_folder_that_hands_the_child_on() {
    let graph = seeded(&[("top/inner.rs", "pub struct Deep(super::Top);")]);
    assert_eq!(rules::circular(&graph, &[]), [""; 0]);
}

/// The list of arrows still to be cut excuses these alone, and may only get shorter.
#[test]
fn arrows_that_are_left_are_excused_until_they_are_gone() {
    let circle = [("bottom.rs", "pub fn low() { crate::middle::f(); }")];
    let left = "src/bottom.rs -> src/middle.rs";
    assert_eq!(rules::circular(&seeded(&circle), &[left]), [""; 0]);

    let gone = rules::circular(&seeded(&[]), &[left]);
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert!(gone[0].ends_with("is no arrow any more: remove it from the list"));

    let cut_elsewhere = [circle[0], ("middle.rs", "pub struct M;")];
    let open = rules::circular(&seeded(&cut_elsewhere), &[left]);
    assert_eq!(open.len(), 1, "{open:?}");
    assert!(open[0].ends_with("closes no circle any more: remove it from the list"));

    let another = [
        circle[0],
        ("top/inner.rs", "use super::Top; pub struct Deep;"),
        ("top/mod.rs", "mod inner; use inner::Deep; pub struct Top;"),
    ];
    let broken = rules::circular(&seeded(&another), &[left]);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("src/top/inner.rs and src/top/mod.rs import each other"));
}

#[test]
fn a_tool_that_knows_another_is_named() {
    let tools = |text: &str| {
        let changes = [
            ("lib.rs", "mod tools;"),
            (
                "tools/mod.rs",
                "pub mod saw; pub mod axe; pub struct Edge; fn f() { saw::cut(); }",
            ),
            (
                "tools/saw/mod.rs",
                "mod teeth; pub fn cut() { teeth::bite(); }",
            ),
            ("tools/saw/teeth.rs", text),
            ("tools/axe.rs", "pub struct Axe;"),
        ];
        seeded(&changes)
    };
    let between = |graph, left| rules::between_tools(graph, "src/tools", left);
    let clean = tools("pub fn bite() { super::cut(); }");
    assert_eq!(between(&clean, &[]), [""; 0]);
    let seeded = tools("use super::super::axe::Axe; pub fn bite() {}");
    let broken = between(&seeded, &[]);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with(
        "src/tools/saw/teeth.rs:1 takes super::super::axe::Axe (1) from src/tools/axe.rs: no tool knows another, here \
         saw knows axe"
    ));
    let left = ["src/tools/saw/teeth.rs -> src/tools/axe.rs"];
    assert_eq!(between(&seeded, &left), [""; 0]);
    let gone = between(&clean, &left);
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert!(gone[0].ends_with("is no arrow any more: remove it from the list"));
}

const ONLY: &[Only] = &[Only {
    names: &[
        "std::println",
        "std::io::stdout",
        "std::process::exit",
        ".exit",
        "engine",
    ],
    files: &["src/top"],
    why: "top alone does that",
}];

#[test]
fn a_name_from_outside_is_seen_however_it_is_taken() {
    let cases = [
        "fn f() { println!(\"{}\", 1); }",
        "fn f() { vec![println!()]; }",
        "fn f() { std::io::stdout(); }",
        "use std::io; fn f() { io::stdout(); }",
        "use std::io::{self as i}; fn f() { write!(i::stdout(), \"\"); }",
        "use std::io::stdout;",
        "use std::io::*;",
        "pub use std::process;\nfn f() { process::exit(1); }",
        "fn f() { error.exit(); }",
        "fn f() { vec![error.exit()]; }",
        "use engine::Part;",
        "use engine;",
        "#[derive(engine::Part)] struct S;",
        "case! { use ::engine::Part; }",
        "use ::engine::Part;",
        "fn f(_: Option<engine::deep::Part>) {}",
    ];
    for code in cases {
        let text = format!("pub fn low() {{}}\n{code}\n");
        let broken = rules::only(&seeded(&[("bottom.rs", &text)]), ONLY);
        assert!(!broken.is_empty(), "nobody sees {code}");
        assert!(broken[0].starts_with("src/bottom.rs:"), "{broken:?}");
        assert!(
            broken[0].ends_with(": top alone does that (allowed: src/top)"),
            "{broken:?}"
        );
        let text = format!("pub struct Deep;\n{code}\n");
        let allowed = rules::only(&seeded(&[("top/inner.rs", &text)]), ONLY);
        assert_eq!(allowed, [""; 0], "{code}");
    }
    let clean = "pub fn low() { eprintln!(); let stdout = 1; std::io::stderr(); enginery::f(); }";
    assert_eq!(rules::only(&seeded(&[("bottom.rs", clean)]), ONLY), [""; 0]);
}

#[test]
fn a_name_that_a_file_never_takes_is_seen() {
    let never = [Never {
        files: &["src/bottom"],
        names: &["engine", "src/top/inner"],
        except: &["engine::oil"],
        why: "bottom is plain",
    }];
    let allowed = "use engine::oil::Can; pub fn low() {}";
    assert_eq!(rules::never(&seeded(&[]), &never), [""; 0]);
    assert_eq!(
        rules::never(&seeded(&[("bottom.rs", allowed)]), &never),
        [""; 0]
    );
    for code in [
        "use engine::Part;",
        "use engine::*;",
        "use crate::top::Deep;",
    ] {
        let broken = rules::never(
            &seeded(&[("bottom.rs", &format!("{code} pub fn low() {{}}"))]),
            &never,
        );
        assert_eq!(broken.len(), 1, "{broken:?}");
        assert!(broken[0].ends_with(": bottom is plain"));
    }
    let missing = [Never {
        files: &["src/cellar"],
        names: &["engine"],
        except: &[],
        why: "",
    }];
    assert_eq!(
        rules::never(&seeded(&[]), &missing),
        ["src/cellar does not exist: correct the rule that names it"]
    );
}
