//! What a worker knows of its volumes and snapshots, and what it did with them.

use super::content::Content;
use std::time::Instant;

/// Volumes of one worker at a time, and snapshots.
const VOLUMES: usize = 5;
const SNAPSHOTS: usize = 4;
/// The place of the volume to which snapshots are restored in the end.
pub const RESTORED: usize = VOLUMES;

/// A volume or snapshot of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Volume(usize),
    Snapshot(usize),
}

/// What a volume or snapshot is made of.
#[derive(Clone, Debug)]
pub struct Origin {
    pub place: Place,
    pub id: String,
}

/// What was asked for: made of what, with which content.
#[derive(Clone, Debug)]
pub struct Wish {
    pub origin: Option<Origin>,
    pub content: Content,
}

/// What is known of a volume or snapshot.
#[derive(Clone, Debug, Default)]
pub enum State {
    #[default]
    Absent,
    /// It was asked for, and the answer was cut off.
    Asked(Wish),
    There {
        id: String,
        wish: Wish,
        content: Content,
    },
    /// Its deletion was asked for, and the answer was cut off.
    Leaving(String),
}

/// What is not as it must be.
#[derive(Debug)]
pub struct Violation {
    /// The volume or snapshot that it is about.
    pub name: String,
    pub what: String,
    /// All that was done with it, and the last that its worker did.
    pub history: String,
}

/// What a worker knows.
pub struct Model {
    worker: u64,
    begun: Instant,
    pub volumes: [State; VOLUMES + 1],
    pub snapshots: [State; SNAPSHOTS],
    /// What was deleted.
    pub gone: Vec<(Place, String)>,
    /// What was done, with the name that it is about.
    history: Vec<(String, String)>,
}

impl Model {
    pub fn of(worker: u64) -> Self {
        Self {
            worker,
            begun: Instant::now(),
            volumes: Default::default(),
            snapshots: Default::default(),
            gone: Vec::new(),
            history: Vec::new(),
        }
    }

    /// The names and ids of the volumes, or snapshots, that there must be.
    pub fn there(&self, snapshots: bool) -> Vec<(String, String)> {
        let places = self.places(|state| matches!(state, State::There { .. }));
        places
            .into_iter()
            .filter(|place| matches!(place, Place::Snapshot(_)) == snapshots)
            .map(|place| (self.name(place), self.id(place)))
            .collect()
    }

    pub fn name(&self, place: Place) -> String {
        match place {
            Place::Volume(number) => format!("w{}-v{number}", self.worker),
            Place::Snapshot(number) => format!("w{}-s{number}", self.worker),
        }
    }

    pub fn state(&self, place: Place) -> &State {
        match place {
            Place::Volume(number) => &self.volumes[number],
            Place::Snapshot(number) => &self.snapshots[number],
        }
    }

    pub fn state_mut(&mut self, place: Place) -> &mut State {
        match place {
            Place::Volume(number) => &mut self.volumes[number],
            Place::Snapshot(number) => &mut self.snapshots[number],
        }
    }

    pub fn places(&self, wanted: impl Fn(&State) -> bool) -> Vec<Place> {
        let volumes = (0..self.volumes.len()).map(Place::Volume);
        let snapshots = (0..self.snapshots.len()).map(Place::Snapshot);
        let all = volumes.chain(snapshots);
        all.filter(|place| wanted(self.state(*place))).collect()
    }

    pub fn id(&self, place: Place) -> String {
        match self.state(place) {
            State::There { id, .. } => id.clone(),
            _ => String::new(),
        }
    }

    pub fn is_there(&self, origin: &Origin) -> bool {
        self.id(origin.place) == origin.id
    }

    pub fn note(&mut self, place: Place, what: String) {
        let when = self.begun.elapsed().as_secs_f64();
        let name = self.name(place);
        self.history
            .push((name.clone(), format!("{when:9.3} {name}: {what}")));
    }

    pub fn violation(&self, place: Place, what: &str) -> Violation {
        self.violation_of(&self.name(place), what)
    }

    pub fn violation_of(&self, name: &str, what: &str) -> Violation {
        let about = |(of, line): &&(String, String)| of == name || line.contains(name);
        Violation {
            name: name.to_owned(),
            what: what.to_owned(),
            history: lines(self.history.iter().filter(about)) + &self.last(),
        }
    }

    /// The last that was done.
    pub fn last(&self) -> String {
        let from = self.history.len().saturating_sub(20);
        let last = lines(self.history[from..].iter());
        format!("--- the last of worker {}\n{last}", self.worker)
    }
}

fn lines<'a>(history: impl Iterator<Item = &'a (String, String)>) -> String {
    history.map(|(_, line)| format!("{line}\n")).collect()
}
