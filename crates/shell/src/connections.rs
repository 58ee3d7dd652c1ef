//! The connections of a session, kept open from line to line, and whether the driver answers.

use csi_call::{Connection, call_error};
use csi_error::{Error, Style, say};
use csi_invocation::{Globals, connect};
use csi_output::colour;
use csi_output::terminal::cut;
use csi_proto::{escaped, lock, v1};
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
        let endpoint = match connect::named(globals) {
            Some(_) => connect::endpoint(globals)?,
            None => return Err(Error::usage("no driver is named").hint(
                "connect ENDPOINT names one, such as connect unix:///csi/csi.sock, connect embedded: or a context",
            )),
        };
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
pub(crate) struct DriverStatus {
    key: String,
    name: Option<String>,
    answers: Option<bool>,
    asked: Option<Instant>,
    asking: Option<JoinHandle<Result<String, String>>>,
    /// Whether it was said why the driver does not answer.
    is_said: bool,
}

impl DriverStatus {
    /// The driver's name, as far as it is known.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Notes what a call has shown; its failure was reported. It overtakes what a prompt asks.
    pub fn note(&mut self, answers: bool) {
        self.asking = None;
        self.is_said = !answers;
        if self.answers != Some(answers) || !answers {
            self.asked = None;
        }
        self.answers = Some(answers);
    }

    /// The prompt, after asking the driver for its name where that is not known well enough. Why it does not answer is said
    /// once, on stderr.
    pub fn prompt(
        &mut self,
        globals: &Globals,
        connections: &Connections,
        runtime: &Runtime,
    ) -> String {
        if globals.endpoint.is_none() {
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
            let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, asking).await });
            if let Ok(answer) = asked {
                self.asking = None;
                let answer = answer.unwrap_or_else(|lost| Err(format!("error: {lost}\n")));
                self.answers = Some(answer.is_ok());
                match answer {
                    Ok(name) => self.name = Some(name),
                    Err(why) if !self.is_said => say!("{}", why.trim_end()),
                    Err(_) => {}
                }
                self.is_said = self.answers == Some(false);
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

/// The driver's name, or why it does not answer.
async fn name(connections: &Connections, globals: &Globals) -> Result<String, String> {
    let asked = tokio::time::timeout(LIMIT, async {
        let connection = connections.get(globals).await?;
        let session = connect::with_deadline_and_metadata(connection.session, globals)?;
        let session = session.with_timeout(Some(LIMIT));
        match session.ask(&v1::GetPluginInfoRequest {}).await {
            Ok(info) => Ok(info.name),
            // A driver that refuses still answers; only a lost connection does not.
            Err(_) if connection.endpoint.last_error().is_none() => Ok(String::new()),
            Err(error) => Err(call_error(&error, &connection.endpoint)),
        }
    });
    let silent = |_| Err(Error::local(format!("no answer within {LIMIT:?}")));
    let name = asked.await.unwrap_or_else(silent);
    match name {
        Ok(name) if name.is_empty() => Ok("csi".to_owned()),
        Ok(name) => Ok(name),
        Err(error) => Err(colour::of_error(&error, Style::Text)),
    }
}

/// A driver's name that leaves room for a line, and cannot act on the terminal.
fn shortened(name: &str) -> String {
    cut(&escaped(name), NAME_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_output::terminal::columns_of;

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
