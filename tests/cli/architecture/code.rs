//! The code of a source text: without comments, and without what is built for tests alone.
//!
//! Owns the reading of `#[cfg(test)]`, which trusts that the text is formatted.

/// The text, in which comments on lines of their own are blank, and every item, field and statement under `#[cfg(test)]`.
pub fn code(text: &str) -> String {
    let mut lines = text.lines();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        let words = line.trim_start();
        if words == "#[cfg(test)]" {
            let indent = &line[..line.len() - words.len()];
            let mut is_open = false;
            for line in lines.by_ref() {
                code.push('\n');
                let rest = line.strip_prefix(indent).unwrap_or(" ");
                let is_attribute = rest.starts_with('#') || rest.starts_with("//");
                let ends = match is_open {
                    true => rest.starts_with(['}', ')']),
                    false => !is_attribute && rest.ends_with([';', ',', '}']),
                };
                if ends {
                    break;
                }
                is_open |= !is_attribute;
            }
        } else if !words.starts_with("//") {
            code += line;
        }
        code.push('\n');
    }
    code
}

/// The modules that are built for tests alone, as the file at `path` declares them: the paths of their files without `.rs`.
pub fn test_files(path: &str, text: &str) -> Vec<String> {
    let module = path.trim_end_matches(".rs");
    let roots = ["/mod", "/lib", "/main"].into_iter();
    let folder = roots.filter_map(|root| module.strip_suffix(root)).next();
    let folder = folder.unwrap_or(module);
    let declared = text.split("#[cfg(test)]\n").skip(1);
    let names = declared.filter_map(|rest| {
        let line = rest.lines().find(|line| !line.starts_with('#'))?;
        line.split_once("mod ")?.1.strip_suffix(';')
    });
    names.map(|name| format!("{folder}/{name}")).collect()
}

#[test]
fn comments_and_what_is_built_for_tests_alone_are_no_code() {
    let text = "//! a\nuse a;\n#[cfg(test)]\nuse c::{\n    d,\n};\nstruct S {\n    #[cfg(test)]\n    #[e]\n    one: u8,\n    \
                /// f\n    two: u8,\n}\n#[cfg(test)]\nmod tests {\n    fn f() {}\n\n    fn g() {}\n}\nfn h() {\n    \
                #[cfg(test)]\n    if x {\n        y();\n    }\n    z();\n}\n";
    let code = code(text);
    assert_eq!(code.lines().count(), text.lines().count());
    let left: Vec<&str> = code.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        left.join("\n"),
        "use a;\nstruct S {\n    two: u8,\n}\nfn h() {\n    z();\n}"
    );
    let declared = "#[cfg(test)]\n#[a]\npub mod x;\nmod y;\n#[cfg(test)]\nmod z {\n";
    assert_eq!(test_files("a/src/lib.rs", declared), ["a/src/x"]);
    assert_eq!(test_files("a/b.rs", declared), ["a/b/x"]);
}
