//! Proves that the committed code is what `csi.proto` generates; `tests/generate` writes it anew.

#![allow(clippy::unwrap_used)]

use prost_reflect::{
    Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    MethodDescriptor,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[test]
fn generated_code_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = protox::Compiler::new([root]).expect("the proto folder is readable");
    compiler.include_source_info(true).include_imports(true);
    compiler
        .open_file("csi.proto")
        .expect("csi.proto is a valid proto file");
    // `encode_file_descriptor_set` keeps the custom options that `file_descriptor_set` drops.
    let encoded = compiler.encode_file_descriptor_set();
    let pool = DescriptorPool::decode(encoded.as_slice()).expect("a descriptor set");
    let comments = Comments::read(&pool);

    let mut files = BTreeMap::new();
    let csi = types_and_services(root, "csi");
    files.insert("csi.v1.rs", default_answers(&csi, &pool));
    let registration = types_and_services(root, "pluginregistration");
    files.insert("pluginregistration.rs", registration);
    let header = std::fs::read_to_string(root.join("csi.proto")).expect("csi.proto is readable");
    let tables = tables(&pool, &comments, version(&header));
    files.insert("tables.rs", formatted(&tables));
    files.insert("requests.rs", formatted(&requests(&pool)));

    let mut stale = Vec::new();
    for (name, text) in files {
        let path = root.join("src/generated").join(name);
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(&path, text).expect("the folder is writable");
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(path);
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} differ from csi.proto: run tests/generate"
    );
}

#[test]
fn every_comment_is_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let missing: Vec<String> = csi_proto::tables::METHODS
        .iter()
        .filter(|method| method.doc.is_empty())
        .map(|method| method.name.to_owned())
        .chain(csi_proto::tables::MESSAGES.iter().flat_map(|message| {
            let fields = message.fields.iter().filter(|field| field.doc.is_empty());
            fields.map(|field| format!("{}.{}", message.name, field.name))
        }))
        .collect();
    assert!(
        missing.is_empty(),
        "without a comment in {}: {missing:?}",
        root.join("csi.proto").display()
    );
}

/// Whoever moves to the next version of the specification changes `csi.proto` and no code.
#[test]
fn the_version_stands_in_csi_proto_alone() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = proto.parent().expect("the workspace");
    let (short, _) = csi_proto::SPEC_VERSION.rsplit_once('.').expect("two dots");
    let mut folders: Vec<PathBuf> = ["src", "crates", "tests", "driver", "mock", "proto", "sys"]
        .map(|folder| workspace.join(folder))
        .into();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs")
                && path != proto.join("src/generated/tables.rs")
                && std::fs::read_to_string(&path).is_ok_and(|text| text.contains(short))
            {
                found.push(path);
            }
        }
    }
    assert!(found.is_empty(), "{short} stands in {found:?} too");
}

/// What prost and tonic make of the file `name`.proto.
fn types_and_services(root: &Path, name: &str) -> String {
    let folder = std::env::temp_dir().join(format!("csi-proto-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let files = protox::compile([format!("{name}.proto")], [root]).expect("a valid proto file");
    tonic_prost_build::configure()
        .build_client(false)
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        // An RPC that a driver does not have is answered all the same; the kubelet's two have no default.
        .generate_default_stubs(name == "csi")
        .btree_map(".")
        .out_dir(&folder)
        .compile_fds(files)
        .expect("code is generated");
    let written = std::fs::read_dir(&folder).expect("the temporary folder");
    let texts: Vec<String> = written
        .map(|file| std::fs::read_to_string(file.expect("an entry").path()).expect("text"))
        // Packages of the files that it imports have none.
        .filter(|text| !text.is_empty())
        .collect();
    std::fs::remove_dir_all(&folder).expect("the temporary folder is removable");
    assert_eq!(texts.len(), 1, "one package is generated");
    texts.concat()
}

/// What a method answers that a driver does not have. tonic says "Not yet implemented" of each, which does not tell the
/// user which RPC it was and promises that it will come.
fn default_answers(text: &str, pool: &DescriptorPool) -> String {
    let rpcs: BTreeMap<String, String> = methods(pool)
        .map(|method| (snake_case(method.name()), method.name().to_owned()))
        .collect();
    let (mut out, mut rpc, mut count) = (String::new(), None, 0);
    for line in text.lines() {
        let function = line.trim_start().strip_prefix("async fn ");
        if let Some((name, _)) = function.and_then(|rest| rest.split_once('(')) {
            rpc = rpcs.get(name);
        }
        let answer = "Not yet implemented";
        if line.contains(answer) {
            let rpc = rpc.expect("the answer stands in the method of an RPC");
            let sentence = format!("{rpc} is not implemented by this driver");
            out.push_str(&line.replace(answer, &sentence));
            count += 1;
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    assert_eq!(count, rpcs.len(), "each RPC has one default answer");
    out
}

/// The comment above every item, by the item's full name.
struct Comments(BTreeMap<String, String>);

impl Comments {
    fn read(pool: &DescriptorPool) -> Self {
        let file = pool
            .get_file_by_name("csi.proto")
            .expect("csi.proto is in the set");
        let proto = file.file_descriptor_proto();
        let source = proto.source_code_info.as_ref().expect("source information");
        let by_path: BTreeMap<Vec<i32>, String> = source
            .location
            .iter()
            .filter_map(|location| {
                let text = location.leading_comments.as_deref()?;
                let lines: Vec<&str> = text.lines().map(str::trim).collect();
                Some((location.path.clone(), lines.join(" ").trim().to_owned()))
            })
            .collect();
        let at = |path: &[i32]| by_path.get(path).cloned().unwrap_or_default();
        let mut all = BTreeMap::new();
        for service in file.services() {
            all.insert(service.full_name().to_owned(), at(service.path()));
            for method in service.methods() {
                all.insert(method.full_name().to_owned(), at(method.path()));
            }
        }
        for message in every_message(pool) {
            all.insert(message.full_name().to_owned(), at(message.path()));
            for field in message.fields() {
                all.insert(field.full_name().to_owned(), at(field.path()));
            }
        }
        for of in every_enum(pool) {
            all.insert(of.full_name().to_owned(), at(of.path()));
            for value in of.values() {
                let key = format!("{}.{}", of.full_name(), value.name());
                all.insert(key, at(value.path()));
            }
        }
        Self(all)
    }

    fn of(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }
}

fn every_message(pool: &DescriptorPool) -> Vec<MessageDescriptor> {
    pool.all_messages()
        .filter(|message| message.package_name() == "csi.v1" && !message.is_map_entry())
        .collect()
}

fn methods(pool: &DescriptorPool) -> impl Iterator<Item = MethodDescriptor> {
    let services = pool.services();
    let services = services.filter(|service| service.package_name() == "csi.v1");
    services.flat_map(|service| service.methods().collect::<Vec<_>>())
}

fn every_enum(pool: &DescriptorPool) -> Vec<EnumDescriptor> {
    pool.all_enums()
        .filter(|of| of.package_name() == "csi.v1")
        .collect()
}

fn constant(full_name: &str) -> String {
    let short = full_name.strip_prefix("csi.v1.").unwrap_or(full_name);
    let mut out = String::new();
    let letters: Vec<char> = short.chars().collect();
    for (index, letter) in letters.iter().enumerate() {
        if *letter == '.' {
            out.push('_');
            continue;
        }
        let before = index.checked_sub(1).map(|i| letters[i]);
        let starts_word = letter.is_uppercase()
            && before.is_some_and(|b| b != '.' && b != '_')
            && (before.is_some_and(char::is_lowercase)
                || letters.get(index + 1).is_some_and(|c| c.is_lowercase()));
        if starts_word {
            out.push('_');
        }
        out.extend(letter.to_uppercase());
    }
    out
}

fn snake_case(name: &str) -> String {
    constant(name).to_lowercase()
}

fn option_is_set(options: &prost_reflect::DynamicMessage, name: &str) -> bool {
    options
        .extensions()
        .any(|(extension, value)| extension.full_name() == name && value.as_bool() == Some(true))
}

fn kind(field: &FieldDescriptor) -> String {
    match field.kind() {
        _ if field.is_map() => "Kind::String".to_owned(),
        Kind::Bool => "Kind::Bool".to_owned(),
        Kind::Int32 => "Kind::Int32".to_owned(),
        Kind::Int64 => "Kind::Int64".to_owned(),
        Kind::String => "Kind::String".to_owned(),
        Kind::Enum(of) => format!("Kind::Enum(&{})", constant(of.full_name())),
        Kind::Message(of) => match of.full_name() {
            "google.protobuf.Timestamp" => "Kind::Timestamp".to_owned(),
            "google.protobuf.BoolValue" => "Kind::BoolValue".to_owned(),
            "google.protobuf.Int64Value" => "Kind::Int64Value".to_owned(),
            name => format!("Kind::Message(&{})", constant(name)),
        },
        other => panic!(
            "{} has the kind {other:?}, which the tables cannot say",
            field.full_name()
        ),
    }
}

/// The version of the specification, from the first sentence of `csi.proto`.
fn version(file: &str) -> &str {
    let (_, rest) = file
        .split_once("version ")
        .expect("a version in the header");
    let (version, _) = rest.split_once(':').expect("a colon behind the version");
    let numbers = version.split('.').map(str::parse::<u32>);
    assert!(
        numbers.clone().count() == 3 && numbers.clone().all(|number| number.is_ok()),
        "{version:?} is no version"
    );
    version
}

fn tables(pool: &DescriptorPool, comments: &Comments, version: &str) -> String {
    let mut out = String::from(
        "use crate::schema::{Cardinality, Enum, EnumValue, Field, Kind, Message, Method};\n\n",
    );
    writeln!(
        out,
        "/// The version of the specification that `csi.proto` describes.\npub const SPEC_VERSION: &str = {version:?};\n"
    )
    .unwrap();
    let enums = every_enum(pool);
    for of in &enums {
        let (name, doc) = (of.full_name(), comments.of(of.full_name()));
        writeln!(
            out,
            "/// `{name}`.\npub static {}: Enum = Enum {{ name: {name:?}, doc: {doc:?}, values: &[",
            constant(name)
        )
        .unwrap();
        for value in of.values() {
            let alpha = option_is_set(&value.options(), "csi.v1.alpha_enum_value");
            let doc = comments.of(&format!("{name}.{}", value.name()));
            writeln!(
                out,
                "EnumValue {{ name: {:?}, number: {}, alpha: {alpha}, doc: {doc:?} }},",
                value.name(),
                value.number()
            )
            .unwrap();
        }
        out.push_str("]};\n\n");
    }
    let messages = every_message(pool);
    for message in &messages {
        let name = message.full_name();
        let alpha = option_is_set(&message.options(), "csi.v1.alpha_message");
        // Descriptors list fields by number; people read them in the order of the file.
        let file_order = message.descriptor_proto().field.iter();
        let fields = file_order.map(|field| message.get_field_by_name(field.name()).unwrap());
        let required = fields.clone().filter(|field| {
            let doc = comments.of(field.full_name());
            let can_be_missing = !matches!(field.kind(), Kind::Bool | Kind::Int32 | Kind::Int64);
            can_be_missing && doc.contains("Required") && !doc.contains("Required with")
        });
        let required: Vec<String> = required.map(|field| field.name().to_owned()).collect();
        writeln!(out, "/// `{name}`.\npub static {}: Message = Message {{ name: {name:?}, alpha: {alpha}, doc: {:?}, required: &{required:?}, fields: &[", constant(name), comments.of(name)).unwrap();
        for field in fields {
            let cardinality = match field.cardinality() {
                _ if field.is_map() => "Map",
                Cardinality::Repeated => "Repeated",
                _ => "Singular",
            };
            let oneof = field.containing_oneof().map(|of| of.name().to_owned());
            writeln!(
                out,
                "Field {{ name: {:?}, json_name: {:?}, number: {}, kind: {}, cardinality: Cardinality::{cardinality}, oneof: {oneof:?}, secret: {}, alpha: {}, doc: {:?} }},",
                field.name(), field.json_name(), field.number(), kind(&field),
                option_is_set(&field.options(), "csi.v1.csi_secret"),
                option_is_set(&field.options(), "csi.v1.alpha_field"),
                comments.of(field.full_name()),
            ).unwrap();
        }
        out.push_str("]};\n\n");
    }
    let mut all = Vec::new();
    for method in methods(pool) {
        let (name, service) = (method_constant(&method), method.parent_service());
        let alpha = option_is_set(&service.options(), "csi.v1.alpha_service")
            || option_is_set(&method.options(), "csi.v1.alpha_method");
        writeln!(
            out,
            "/// `{0}`.\npub static {name}: Method = Method {{ name: {1:?}, kebab_name: {7:?}, service: {2:?}, path: \"/csi.v1.{2}/{1}\", request: &{3}, response: &{4}, server_streaming: {5}, alpha: {alpha}, doc: {6:?} }};\n",
            method.full_name(), method.name(), service.name(),
            constant(method.input().full_name()), constant(method.output().full_name()),
            method.is_server_streaming(), comments.of(method.full_name()),
            snake_case(method.name()).replace('_', "-"),
        ).unwrap();
        all.push(name);
    }
    let list = |names: Vec<String>| {
        names
            .iter()
            .map(|n| format!("&{n}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    writeln!(
        out,
        "/// Every method, service by service.\npub static METHODS: &[&Method] = &[{}];\n",
        list(all)
    )
    .unwrap();
    let names = messages.iter().map(MessageDescriptor::full_name);
    writeln!(
        out,
        "/// Every message.\npub static MESSAGES: &[&Message] = &[{}];\n",
        list(names.map(constant).collect())
    )
    .unwrap();
    let names = enums.iter().map(EnumDescriptor::full_name);
    writeln!(
        out,
        "/// Every enum.\npub static ENUMS: &[&Enum] = &[{}];",
        list(names.map(constant).collect())
    )
    .unwrap();
    out
}

/// The name of a method's table.
fn method_constant(method: &MethodDescriptor) -> String {
    constant(&format!(
        "{}.{}",
        method.parent_service().name(),
        method.name()
    ))
}

fn requests(pool: &DescriptorPool) -> String {
    let mut out = String::from("use crate::{tables, v1};\n\n");
    for method in methods(pool) {
        writeln!(
            out,
            "impl Request for v1::{} {{ type Reply = v1::{}; const METHOD: &'static Method = &tables::{}; }}\n",
            method.input().name(),
            method.output().name(),
            method_constant(&method),
        )
        .unwrap();
    }
    out
}

fn formatted(code: &str) -> String {
    let file = syn::parse_file(code).unwrap_or_else(|error| panic!("{error}: {code}"));
    format!(
        "// Generated from csi.proto by tests/generated.rs; not to be edited.\n\n{}",
        prettyplease::unparse(&file)
    )
}
