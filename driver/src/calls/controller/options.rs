//! Mount options for the controller's own access to a share: where they come from, which are used for which call, and which
//! are kept for later ones. Decides only; must not mount, nor read files.

/// What a call brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Options {
    /// Options of its parameters, which may be used for calls that bring none.
    Open(Vec<String>),
    /// Options of its secrets, which are no other call's.
    Secret(Vec<String>),
    /// None.
    None,
    /// None, for what kubernetes-csi's driver has made: where version 4 finds no such path, version 3 may, as mount.nfs does and
    /// so that driver did.
    Upstream,
    /// It is no call at all: the driver recovers, purges or lists the share as a whole.
    Own,
}

impl Options {
    /// Those of a call with `parameters` and `secret` ones, of which the latter count.
    pub(crate) fn of_call(parameters: Vec<String>, secret: Vec<String>) -> Self {
        match (parameters.as_slice(), secret.as_slice()) {
            ([], []) => Self::None,
            (_, []) => Self::Open(parameters),
            _ => Self::Secret(secret),
        }
    }

    /// The options themselves.
    pub(crate) fn words(&self) -> &[String] {
        match self {
            Self::Open(words) | Self::Secret(words) => words,
            Self::None | Self::Upstream | Self::Own => &[],
        }
    }
}

/// What is known of the options of one share.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownOptions {
    /// Those of `--share`.
    pub(super) configured: Vec<String>,
    /// Those that the share was last opened with, without those of secrets, by an earlier process or this one; nothing before that.
    pub(super) learned: Option<Vec<String>>,
    /// Those of the last secret.
    pub(super) secret: Vec<String>,
}

impl KnownOptions {
    /// The options to open the share with.
    ///
    /// What a call brings is used, but never with weaker security than `--share` asks for.
    pub(super) fn choose(&self, given: &Options) -> Vec<String> {
        let known = match &*self.configured {
            [] => self.learned.as_deref().unwrap_or_default(),
            configured => configured,
        };
        match given {
            Options::Open(words) | Options::Secret(words) => secured(words, &self.configured),
            Options::None | Options::Upstream => known.to_vec(),
            // Nobody brings the secret of a share for the driver's own work on it.
            Options::Own if known.is_empty() && self.learned.is_none() => self.secret.clone(),
            Options::Own => known.to_vec(),
        }
    }

    /// Learns that the share could be opened with `used`, which [`KnownOptions::choose`] has chosen for `given`.
    pub(super) fn learn(&mut self, given: &Options, used: Vec<String>) {
        match given {
            Options::Secret(_) => self.secret = used,
            Options::Own if used == self.secret && !used.is_empty() => {}
            _ => {
                let before = self.learned.as_deref().unwrap_or_default();
                self.learned = Some(secured(&used, before));
            }
        }
    }
}

/// Options that protect what is sent, and their values from the weakest to the strongest. Without one the server decides.
const SECURITY: [(&str, &[&str]); 2] = [
    ("sec", &["none", "sys", "krb5", "krb5i", "krb5p"]),
    ("xprtsec", &["none", "tls", "mtls"]),
];

/// `options` with the security of `before` where theirs is weaker: no later call may use less than an earlier one on the
/// word of a third.
fn secured(options: &[String], before: &[String]) -> Vec<String> {
    let mut out = options.to_vec();
    for (name, values) in SECURITY {
        let (old, new) = (last(before, name), last(&out, name));
        if strength(old, values) > strength(new, values) {
            out.retain(|option| value_of(option, name).is_none());
            out.extend(old.map(|old| format!("{name}={old}")));
        }
    }
    out
}

fn value_of<'a>(option: &'a str, name: &str) -> Option<&'a str> {
    option.strip_prefix(name)?.strip_prefix('=')
}

/// The value that counts.
fn last<'a>(options: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = options.iter().rev();
    found.find_map(|option| value_of(option, name))
}

/// How strong a value is; of several, that the server may choose from, the weakest one. What is not known is weak.
fn strength(value: Option<&str>, values: &[&str]) -> usize {
    let place = |one: &str| values.iter().position(|known| *known == one);
    let all = value.into_iter().flat_map(|all| all.split(':'));
    all.map(|one| place(one).unwrap_or(0)).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }

    fn known(configured: &str, learned: &[Options]) -> KnownOptions {
        let mut known = KnownOptions {
            configured: words(configured),
            ..KnownOptions::default()
        };
        for given in learned {
            let used = known.choose(given);
            known.learn(given, used);
        }
        known
    }

    #[test]
    fn each_call_gets_its_own_options_or_those_that_are_for_all() {
        let open = |text| Options::Open(words(text));
        let secret = |text| Options::Secret(words(text));
        for (configured, earlier, given, expected) in [
            ("", vec![], Options::None, ""),
            ("", vec![open("vers=3")], Options::None, "vers=3"),
            (
                "",
                vec![open("vers=3"), open("vers=4.2")],
                Options::None,
                "vers=4.2",
            ),
            ("", vec![open("vers=3")], open("vers=4.2"), "vers=4.2"),
            // What one call's secret says is not for others, and only the driver's own work goes on with it.
            ("", vec![secret("port=1")], Options::None, ""),
            (
                "",
                vec![open("vers=3"), secret("port=1")],
                Options::None,
                "vers=3",
            ),
            (
                "",
                vec![secret("port=1"), Options::Own],
                Options::Own,
                "port=1",
            ),
            ("", vec![secret("port=1"), Options::Own], Options::None, ""),
            (
                "",
                vec![open("vers=3"), secret("port=1")],
                Options::Own,
                "vers=3",
            ),
            // What the administrator says is not replaced by what a call says.
            ("vers=3", vec![open("port=1")], Options::None, "vers=3"),
            ("vers=3", vec![open("port=1")], Options::Own, "vers=3"),
            ("vers=3", vec![], open("port=1"), "port=1"),
        ] {
            let chosen = known(configured, &earlier).choose(&given);
            assert_eq!(
                chosen,
                words(expected),
                "{configured} {earlier:?} {given:?}"
            );
        }
        let again = KnownOptions {
            learned: Some(words("vers=3")),
            ..KnownOptions::default()
        };
        assert_eq!(again.choose(&Options::None), ["vers=3"]);
    }

    #[test]
    fn security_gets_stronger_only() {
        let open = |text| Options::Open(words(text));
        for (configured, earlier, given, expected) in [
            ("", "sec=krb5p", "sec=sys", "sec=krb5p"),
            ("", "sec=krb5p", "vers=3", "vers=3,sec=krb5p"),
            ("", "sec=krb5", "sec=krb5i", "sec=krb5i"),
            ("", "sec=krb5p", "sec=krb5p:sys", "sec=krb5p"),
            ("", "sec=krb5i", "hard,sec=krb5p,sec=sys", "hard,sec=krb5i"),
            ("", "xprtsec=mtls", "xprtsec=tls", "xprtsec=mtls"),
            ("sec=krb5i", "sec=sys", "sec=krb5p", "sec=krb5i"),
        ] {
            let after = known(configured, &[open(earlier), open(given)]);
            let chosen = after.choose(&Options::None);
            assert_eq!(chosen, words(expected), "{configured} {earlier} {given}");
        }
        // A call may ask for less than another one, and not for less than the administrator.
        let call = |configured| known(configured, &[open("sec=krb5p")]).choose(&open("sec=sys"));
        assert_eq!(call(""), ["sec=sys"]);
        assert_eq!(call("sec=krb5"), ["sec=krb5"]);
        // Nor does a restart make it weaker.
        let mut again = KnownOptions {
            learned: Some(words("sec=krb5")),
            ..KnownOptions::default()
        };
        again.learn(&open("sec=sys"), words("sec=sys"));
        assert_eq!(again.learned.unwrap(), ["sec=krb5"]);
    }
}
