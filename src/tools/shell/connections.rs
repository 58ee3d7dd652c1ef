//! The connections of a session, kept open from line to line, and whether the driver answers.

use crate::call::session::Connection;
use crate::error::Error;
use crate::invocation::connect;
use crate::invocation::globals::Globals;
use crate::output::terminal::cut;
use csi_proto::lock::lock;
use csi_proto::text::escaped;
use csi_proto::v1;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// How long a prompt waits to know whether the driver answers.
const PATIENCE: Duration = Duration::from_millis(150);

/// The time for which that knowledge is kept.
const FRESH: Duration = Duration::from_secs(2);

/// How long a driver may take to say its name.
const LIMIT: Duration = Duration::from_secs(5);

/// The widest name in a prompt, in columns.
const NAME_WIDTH: usize = 24;

/// Open connections, by what was asked for.
#[derive(Clone, Default)]
pub struct Connections(Arc<Mutex<HashMap<String, Connection>>>);

impl Connections {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Connection>> {
        lock(&self.0)
    }

    /// The connection that a line asks for: an open one, or a new one. A lost one mends itself at its next call.
    ///
    /// # Errors
    /// When no driver is named, or there is no connection to it.
    pub async fn get(&self, globals: &Globals) -> Result<Connection, Error> {
        let key = key(globals);
        let known = self.all().get(&key).cloned();
        if let Some(known) = known
            && globals.wait.is_none()
        {
            return Ok(known);
        }
        let endpoint = connect::endpoint(globals)?;
        if globals.wait.is_some() {
            connect::session(&endpoint, globals).await?;
        }
        let session = connect::open(&endpoint, globals).await?;
        let connection = Connection { endpoint, session };
        self.all().insert(key, connection.clone());
        Ok(connection)
    }

    /// Waits until embedded drivers have done what outlives their calls.
    pub async fn settled(&self) {
        let all: Vec<Connection> = self.all().values().cloned().collect();
        for connection in all {
            connection.endpoint.settled().await;
        }
    }
}

/// The key of a connection: all flags that make it a different one.
pub fn key(globals: &Globals) -> String {
    let tls = globals.connect_options().tls;
    format!("{} {tls:?}", globals.endpoint.as_deref().unwrap_or(""))
}

/// The status of the driver in the prompt.
#[derive(Default)]
pub struct DriverStatus {
    key: String,
    name: Option<String>,
    answers: Option<bool>,
    asked: Option<Instant>,
    asking: Option<JoinHandle<Option<String>>>,
}

impl DriverStatus {
    /// The driver's name, as far as it is known.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Notes what a call has shown.
    pub fn note(&mut self, answers: bool) {
        if self.answers != Some(answers) || !answers {
            self.asked = None;
        }
        self.answers = Some(answers);
    }

    /// The prompt, after asking the driver for its name where that is not known well enough.
    pub fn prompt(
        &mut self,
        globals: &Globals,
        connections: &Connections,
        runtime: &Runtime,
    ) -> String {
        if globals.endpoint.as_deref().unwrap_or("").is_empty() {
            return "csi> ".to_owned();
        }
        let key = key(globals);
        if key != self.key {
            *self = Self {
                key,
                ..Self::default()
            };
        }
        let is_fresh = self.asked.is_some_and(|asked| asked.elapsed() < FRESH);
        if self.asking.is_none() && (!is_fresh || self.answers != Some(true)) {
            let (connections, globals) = (connections.clone(), globals.clone());
            self.asking = Some(runtime.spawn(async move { name(&connections, &globals).await }));
            self.asked = Some(Instant::now());
        }
        if let Some(asking) = &mut self.asking {
            let told = runtime.block_on(async { tokio::time::timeout(PATIENCE, asking).await });
            if let Ok(told) = told {
                self.asking = None;
                let name = told.unwrap_or_default();
                self.answers = Some(name.is_some());
                self.name = name.or(self.name.take());
            }
        }
        let name = shortened(self.name.as_deref().unwrap_or("csi"));
        match self.answers {
            Some(true) => format!("{name}> "),
            Some(false) => format!("{name} (no answer)> "),
            None => format!("{name} (connecting)> "),
        }
    }
}

async fn name(connections: &Connections, globals: &Globals) -> Option<String> {
    let asked = tokio::time::timeout(LIMIT, async {
        let connection = connections.get(globals).await.ok()?;
        let session = connect::with_deadline_and_metadata(connection.session, globals).ok()?;
        let session = session.with_timeout(Some(LIMIT));
        match session.ask(&v1::GetPluginInfoRequest {}).await {
            Ok(info) => Some(info.name),
            // A driver that refuses still answers; only a lost connection does not.
            Err(_) if connection.endpoint.last_error().is_none() => Some(String::new()),
            Err(_) => None,
        }
    });
    let name = asked.await.ok().flatten()?;
    Some(match name.is_empty() {
        true => "csi".to_owned(),
        false => name,
    })
}

/// A driver's name that leaves room for a line, and cannot act on the terminal.
fn shortened(name: &str) -> String {
    cut(&escaped(name), NAME_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::terminal::columns_of;

    #[test]
    fn a_name_leaves_room_for_a_line() {
        assert_eq!(shortened("nfs.csi.internal"), "nfs.csi.internal");
        let long = shortened("a-very-long-driver-name.example.com");
        assert!(long.starts_with("a-very-long-driver-") && long.ends_with('…'));
        assert!(columns_of(&long) <= NAME_WIDTH);
        assert!(columns_of(&shortened(&"日".repeat(40))) <= NAME_WIDTH);
        assert_eq!(shortened("a\u{1b}[2J"), "a\\u{1b}[2J");
    }
}
