//! The servers and mount options that a request may name. Owns these lists and the questions to them; must not know how they are
//! written in flags.

use crate::mount::option_names::canonical_name;
use csi_nfs_store::export::Export;

/// Which servers and mount options a request may name.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Host names, addresses, or `*.domain`; empty allows every server.
    pub servers: Vec<String>,
    /// Names of mount options; empty allows all that are not denied.
    pub allowed_options: Vec<String>,
    /// Names of mount options that are refused.
    pub denied_options: Vec<String>,
    /// Folders that inline volumes may be, or lie in; empty refuses them all.
    pub inline_shares: Vec<Export>,
    /// Names of the mount options that inline volumes may have; empty refuses them all.
    pub inline_options: Vec<String>,
    /// Whether volumes are mounted as kubernetes-csi's driver mounts them, without flags that nobody asked for.
    pub upstream_mounts: bool,
}

impl Policy {
    /// Whether the administrator allows the mount option `name` by that very name.
    pub fn lists_option(&self, name: &str) -> bool {
        self.allowed_options.iter().any(|listed| listed == name)
    }

    /// Whether requests may name the mount option `name`, in whatever spelling.
    pub fn allows_option(&self, name: &str) -> bool {
        let name = canonical_name(name);
        let lists = |list: &[String]| list.iter().any(|listed| canonical_name(listed) == name);
        !lists(&self.denied_options)
            && (self.allowed_options.is_empty() || lists(&self.allowed_options))
    }

    /// Whether a request may choose a port. Where servers are listed, their NFS is what is meant, unless somebody says more.
    pub fn allows_any_port(&self) -> bool {
        self.servers.is_empty() || self.allowed_options.iter().any(|listed| listed == "port")
    }

    /// Whether requests may name `server`.
    pub fn allows_server(&self, server: &str) -> bool {
        self.servers.is_empty()
            || self
                .servers
                .iter()
                .any(|pattern| match pattern.strip_prefix("*.") {
                    Some(domain) => server
                        .to_ascii_lowercase()
                        .strip_suffix(&domain.to_ascii_lowercase())
                        .is_some_and(|host| host.len() > 1 && host.ends_with('.')),
                    None => pattern
                        .trim_matches(['[', ']'])
                        .eq_ignore_ascii_case(server),
                })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_allowed_by_name_and_by_domain() {
        let policy = Policy {
            servers: vec!["nas".into(), "*.example.org".into(), "[fe80::1]".into()],
            ..Policy::default()
        };
        for server in ["nas", "NAS", "a.example.org", "a.b.Example.org", "fe80::1"] {
            assert!(policy.allows_server(server), "{server}");
        }
        for server in ["nas2", "example.org", "badexample.org", ".example.org"] {
            assert!(!policy.allows_server(server), "{server}");
        }
        assert!(Policy::default().allows_server("anything"));
    }
}
