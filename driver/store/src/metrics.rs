//! Every metric of the driver, declared once. What happens is counted where it happens; what there is now is looked up when somebody
//! asks. No metric has a label for a volume, a share or a path, whose number has no bound. Must
//! not know how metrics are fetched, nor anything of the driver.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::sync::LazyLock;
use std::time::Duration;

/// The metrics of this process.
pub static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::default);

/// The upper bounds of the latency histogram, in seconds. From 0.1 on they are among those of the community's sidecars, which time the
/// same calls, so that both can be laid side by side; below, where most calls of this driver end, there are its own.
const SECONDS: [f64; 13] = [
    0.001, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 10.0, 25.0, 50.0, 120.0, 600.0,
];

/// The upper bounds of the time that a limit takes, in seconds: this process sets it at once, an agent is waited for.
const LIMIT_SECONDS: [f64; 11] = [
    0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0,
];

/// What this driver is.
const BUILD: [(&str, &str); 2] = [
    ("version", env!("CARGO_PKG_VERSION")),
    ("csi", csi_proto::SPEC_VERSION),
];

/// A method's path and the code of its answer.
type CallLabels = [(&'static str, String); 2];

/// Declares metrics: each is a field of [`Metrics`], and its name behind `csi_nfs_`. Those of counters get `_total` besides.
macro_rules! metrics {
    ($($name:ident: $kind:ty, $help:literal;)*) => {
        /// All of them.
        #[derive(Debug)]
        pub struct Metrics {
            calls: Family<CallLabels, Histogram, fn() -> Histogram>,
            limits: Histogram,
            $(#[doc = concat!($help, ".")] pub $name: $kind,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                Self {
                    calls: Family::new_with_constructor(|| Histogram::new(SECONDS)),
                    limits: Histogram::new(LIMIT_SECONDS),
                    $($name: Default::default(),)*
                }
            }
        }

        impl Metrics {
            fn register(&self, registry: &mut Registry) {
                $(registry.register(stringify!($name), $help, self.$name.clone());)*
            }
        }
    };
}

metrics! {
    calls_in_progress: Gauge, "Calls that are not answered yet";
    helpers_started: Counter, "Helper processes started";
    helpers_killed: Counter, "Helper processes killed because they gave no answer in time";
    helpers_stuck: Gauge, "Helper processes that hang in the kernel although they were killed";
    shares: Gauge, "Shares that the controller knows, but for those that it failed to open and needs no more";
    shares_reachable: Gauge, "Those of them that could be opened when they were last needed, and answer those who wait for them";
    shares_attended: Gauge, "Those of them on whose server an agent lived when their trash was last looked through";
    shares_limited: Gauge, "Those of them whose volumes that agent, or this process, holds to their sizes";
    volumes_not_held: Gauge, "Volumes whose sizes are to be enforced and are not, as the comparisons of their shares found that were seen last";
    copied_bytes: Counter, "Sizes of the files copied, in bytes";
    copied_files: Counter, "Files and folders copied";
    copies_in_progress: Gauge, "Copies that run or wait for their turn";
    purges_in_progress: Gauge, "Shares whose trash is being purged";
    purged_files: Counter, "Files and folders purged";
    trash_entries: Gauge, "Entries of the trash that the last purge of each share had to leave";
    volumes_measured: Gauge, "Volumes of which it is known what they take on the disk, because somebody has measured that";
    measured_bytes: Gauge, "What they take together, in bytes";
    oldest_measure_seconds: Gauge, "Age of the oldest of these measures, in seconds";
    volumes_beyond_size: Gauge, "Those of them that take more than their sizes";
    published_targets: Gauge, "Targets at which volumes are published on this node and mounted";
    staged_volumes: Gauge, "Volumes staged on this node and mounted";
    log_lines_dropped: Counter, "Lines of the log that were dropped because nobody read it";
}

impl Metrics {
    /// Counts a call that was answered. `method` is the path of a known method, and `code` the code's name as gRPC writes it.
    pub fn call(&self, method: &'static str, code: String, took: Duration) {
        let labels = [
            ("method_name", method.to_owned()),
            ("grpc_status_code", code),
        ];
        let histogram = self.calls.get_or_create(&labels);
        histogram.observe(took.as_secs_f64());
    }

    /// Counts a volume whose size was enforced after so long.
    pub fn limit(&self, took: Duration) {
        self.limits.observe(took.as_secs_f64());
    }

    /// All metrics as text in the form of OpenMetrics. Whether a kubelet has `registered` the driver is told by those alone that a
    /// kubelet has to register.
    pub fn text(&self, driver_name: &str, registered: Option<bool>) -> String {
        let mut registry = Registry::default();
        let named = ("driver_name".into(), driver_name.to_owned().into());
        // The plugin's twin of the sidecars' csi_sidecar_operations_seconds.
        registry.sub_registry_with_label(named).register_with_unit(
            "csi_plugin_operations",
            "Duration of calls, by method and gRPC code",
            Unit::Seconds,
            self.calls.clone(),
        );
        let own = registry.sub_registry_with_prefix("csi_nfs");
        let build = Info::new(BUILD.to_vec());
        own.register("build", "The version of this driver", build);
        own.register_with_unit(
            "limit",
            "How long it took to enforce the size of a volume, the wait for an agent included",
            Unit::Seconds,
            self.limits.clone(),
        );
        self.register(own);
        if let Some(registered) = registered {
            let gauge: Gauge = Gauge::default();
            gauge.set(registered.into());
            own.register("registered", "Whether the kubelet uses this driver", gauge);
        }
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

/// Something that goes on, counted by a gauge for as long as this lives.
#[derive(Debug)]
pub struct InProgress(&'static Gauge);

impl InProgress {
    /// One more of what `gauge` counts.
    pub fn of(gauge: &'static Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A number of things as gauges take it.
pub fn count(things: usize) -> i64 {
    i64::try_from(things).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_stand_as_those_of_the_sidecars() {
        let metrics = Metrics::default();
        let method = "/csi.v1.Identity/Probe";
        metrics.call(method, "OK".to_owned(), Duration::from_millis(3));
        metrics.limit(Duration::from_millis(30));
        let text = metrics.text("nfs\"1", None);
        let name = r#"driver_name="nfs\"1""#;
        let call = r#"method_name="/csi.v1.Identity/Probe",grpc_status_code="OK""#;
        let series = |of: &str| format!("csi_plugin_operations_seconds_{of}{{{name},{call}}}");
        let bucket = |least: &str| {
            format!(r#"csi_plugin_operations_seconds_bucket{{{name},le="{least}",{call}}}"#)
        };
        for line in [
            "# TYPE csi_plugin_operations_seconds histogram".to_owned(),
            format!("{} 0.003", series("sum")),
            format!("{} 1", series("count")),
            format!("{} 0", bucket("0.001")),
            format!("{} 1", bucket("0.005")),
            format!("{} 1", bucket("+Inf")),
            format!(
                r#"csi_nfs_build_info{{version="{}",csi="{}"}} 1"#,
                BUILD[0].1, BUILD[1].1
            ),
            "csi_nfs_copied_bytes_total 0".to_owned(),
            r#"csi_nfs_limit_seconds_bucket{le="0.025"} 0"#.to_owned(),
            r#"csi_nfs_limit_seconds_bucket{le="0.05"} 1"#.to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_goes_on_is_counted_until_it_ends() {
        static GAUGE: LazyLock<Gauge> = LazyLock::new(Gauge::default);
        let one = InProgress::of(&GAUGE);
        let other = InProgress::of(&GAUGE);
        assert_eq!(GAUGE.get(), 2);
        drop(one);
        assert_eq!(GAUGE.get(), 1);
        drop(other);
        assert_eq!(GAUGE.get(), 0);
    }
}
