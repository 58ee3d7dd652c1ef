//! Names of mount options: which text can be one, and which name stands for all spellings of an option.

/// Whether `text` can be the name of a mount option.
pub fn is_option_name(text: &str) -> bool {
    let name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=255).contains(&text.len()) && text.chars().all(name_char)
}

/// The name that stands for all spellings of one option, so that a list which has one of them means them all.
pub fn canonical_name(name: &str) -> &str {
    match name {
        "nfsvers" | "minorversion" | "v2" | "v3" | "v4" | "v4.0" | "v4.1" | "v4.2" => "vers",
        "tcp" | "tcp6" | "udp" | "udp6" | "rdma" => "proto",
        other => other,
    }
}
