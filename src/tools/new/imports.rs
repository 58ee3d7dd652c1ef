//! Merges the imports of a new driver: a template says them apart, since each belongs to a service, and a person says them once a
//! module. Pure.

/// The columns of a line, as rustfmt has them.
const WIDTH: usize = 100;

/// A text whose imports at the beginning of lines that follow each other are one a module, in rustfmt's form and order.
pub fn merged(text: &str) -> String {
    let mut out = String::new();
    let mut run: Vec<String> = Vec::new();
    let mut open = String::new();
    for line in text.split_inclusive('\n') {
        if open.is_empty() && !line.starts_with("use ") {
            out.push_str(&of_run(&run));
            run.clear();
            out.push_str(line);
            continue;
        }
        open.push_str(line.trim());
        if let Some(import) = open.strip_suffix(';') {
            run.push(import.trim_start_matches("use ").to_owned());
            open.clear();
        }
    }
    out.push_str(&of_run(&run));
    out
}

/// The imports of a run, merged.
fn of_run(run: &[String]) -> String {
    let mut modules: Vec<(&str, Vec<&str>)> = Vec::new();
    for import in run {
        let (module, names) = split(import);
        match modules.iter_mut().find(|(other, _)| *other == module) {
            Some((_, known)) => known.extend(names),
            None => modules.push((module, names)),
        }
    }
    // A module that is imported itself, and things of it: `fs` and `fs::File`.
    let mut merged: Vec<(String, Vec<&str>)> = Vec::new();
    for (module, names) in &modules {
        let has_things = |name: &&&str| {
            modules
                .iter()
                .any(|(other, _)| *other == path(module, name))
        };
        let (selves, names): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| has_things(name));
        for name in selves {
            add(&mut merged, path(module, name), &["self"]);
        }
        add(&mut merged, (*module).to_owned(), &names);
    }
    merged.sort_by_cached_key(|(module, names)| place(module, names));
    let line = |(module, names): (String, Vec<&str>)| written(&module, names);
    merged.into_iter().map(line).collect()
}

/// Where an import stands: by the parts of its path, of which a list is the last.
fn place(module: &str, names: &[&str]) -> Vec<(bool, String)> {
    let parts = module.split("::").map(|part| (false, part.to_owned()));
    let last = match names {
        ["self"] => None,
        [name] => Some((false, (*name).to_owned())),
        _ => Some((true, String::new())),
    };
    parts.chain(last).collect()
}

fn add<'a>(merged: &mut Vec<(String, Vec<&'a str>)>, module: String, names: &[&'a str]) {
    match merged.iter_mut().find(|(other, _)| *other == module) {
        Some((_, known)) => known.extend(names),
        None if names.is_empty() => {}
        None => merged.push((module, names.to_vec())),
    }
}

fn path(module: &str, name: &str) -> String {
    match module.is_empty() {
        true => name.to_owned(),
        false => format!("{module}::{name}"),
    }
}

/// The module of an import, and the names that it takes from there.
fn split(import: &str) -> (&str, Vec<&str>) {
    match import.split_once("::{") {
        Some((module, names)) => {
            let names = names.trim_end_matches('}').split(',').map(str::trim);
            (module, names.filter(|name| !name.is_empty()).collect())
        }
        None => {
            let (module, name) = import.rsplit_once("::").unwrap_or(("", import));
            (module, vec![name])
        }
    }
}

/// An import as rustfmt writes it.
fn written(module: &str, mut names: Vec<&str>) -> String {
    names.sort_by_key(|name| (*name != "self", *name));
    if let [name] = names.as_slice() {
        return match *name {
            "self" => format!("use {module};\n"),
            name => format!("use {};\n", path(module, name)),
        };
    }
    let line = format!("use {module}::{{{}}};", names.join(", "));
    if line.len() <= WIDTH {
        return line + "\n";
    }
    let mut text = format!("use {module}::{{\n");
    let mut line = String::from("   ");
    for name in names {
        if line.len() + name.len() + 2 > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("   ");
        }
        line.push_str(&format!(" {name},"));
    }
    text + &line + "\n};\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_a_module_are_one() {
        for (apart, together) in [
            ("use a::B;\nuse a::{A, c};\n", "use a::{A, B, c};\n"),
            (
                "use std::fs;\nuse std::fs::File;\n",
                "use std::fs::{self, File};\n",
            ),
            (
                "use a::b;\nuse a::b::c as d;\nuse e::F;\n",
                "use a::b::{self, c as d};\nuse e::F;\n",
            ),
            (
                "use a::b::C;\nuse a::b::d::E;\n",
                "use a::b::C;\nuse a::b::d::E;\n",
            ),
            (
                "use a::b;\nuse a::b::c as d;\nuse a::b::z::Z;\n",
                "use a::b::z::Z;\nuse a::b::{self, c as d};\n",
            ),
            ("use a::{\n    B,\n    C,\n};\n", "use a::{B, C};\n"),
            ("use a::{b::C, D};\nuse a::E;\n", "use a::{D, E, b::C};\n"),
            ("use z::Z;\n\nuse z::Y;\n", "use z::Z;\n\nuse z::Y;\n"),
            (
                "fn f() {\n    use a::B;\n    use a::C;\n}\n",
                "fn f() {\n    use a::B;\n    use a::C;\n}\n",
            ),
        ] {
            assert_eq!(merged(apart), together);
        }
    }

    #[test]
    fn what_is_too_long_for_a_line_is_several() {
        let names = |letter: char| format!("{}{letter}", "N".repeat(40));
        let [a, b, c] = ['a', 'b', 'c'].map(names);
        let merged = merged(&format!("use m::{a};\nuse m::{b};\nuse m::{c};\n"));
        assert_eq!(merged, format!("use m::{{\n    {a}, {b},\n    {c},\n}};\n"));
    }
}
