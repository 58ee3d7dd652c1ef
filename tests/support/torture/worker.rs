//! One of those who work while the controllers die: it makes volumes and snapshots of its own, copies them, changes what is in
//! them, deletes them, and knows after each answer what must be true. What a cut-off call was about is in either of two states
//! until the call is repeated (`model.rs`).

use super::asking::{Asked, Asking};
use super::content::{self, Content};
use super::model::{Model, Origin, Place, RESTORED, State, Violation, Wish};
use crate::support::calls::{self, Calls, HOUR, Map};
use crate::support::dice::Dice;
use crate::support::placed::of_volume;
use csi_proto::v1::CreateVolumeRequest;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tonic::{Code, Status};

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub calls: usize,
    pub cut_off: usize,
    pub copies: usize,
    pub lists: usize,
}

/// Who works.
pub struct Worker<'a> {
    endpoints: &'a [String; 2],
    parameters: &'a Map,
    folder: &'a Path,
    dice: Dice,
    ending: bool,
    /// What it knows.
    pub model: Model,
    pub tally: Tally,
}

type Outcome<T = ()> = Result<T, Violation>;

impl<'a> Worker<'a> {
    pub fn new(
        number: u64,
        seed: u64,
        endpoints: &'a [String; 2],
        parameters: &'a Map,
        folder: &'a Path,
    ) -> Self {
        Self {
            endpoints,
            parameters,
            folder,
            dice: Dice::of(seed, number),
            ending: false,
            model: Model::of(number),
            tally: Tally::default(),
        }
    }

    /// Works until `over` says so, and tells of all that it has done.
    pub fn work(&mut self, over: impl Fn() -> bool, done: &Sender<()>) -> Outcome {
        calls::runtime().block_on(async {
            let controllers = self.connect();
            while !over() {
                self.act(&controllers).await?;
                // Nobody listens when the killing has ended.
                let _ = done.send(());
            }
            Ok(())
        })
    }

    /// Repeats what was cut off until it is settled, and compares all that there is.
    pub fn settle(&mut self) -> Outcome {
        self.ending = true;
        calls::runtime().block_on(async {
            let controllers = self.connect();
            for place in self
                .model
                .places(|state| matches!(state, State::Asked(_) | State::Leaving(_)))
            {
                self.go_on(&controllers, place).await?;
            }
            for place in self
                .model
                .places(|state| matches!(state, State::There { .. }))
            {
                if let Place::Volume(_) = place {
                    self.compare(place)?;
                    continue;
                }
                let restored = Place::Volume(RESTORED);
                self.make(&controllers, restored, Some(place)).await?;
                self.delete(&controllers, restored).await?;
            }
            self.list(&controllers).await
        })
    }

    /// Deletes all that there is.
    pub fn clear(&mut self) -> Outcome {
        calls::runtime().block_on(async {
            let controllers = self.connect();
            for place in self
                .model
                .places(|state| matches!(state, State::There { .. }))
            {
                self.delete(&controllers, place).await?;
            }
            Ok(())
        })
    }

    fn connect(&self) -> [Calls; 2] {
        self.endpoints.each_ref().map(|it| Calls::to(it))
    }

    async fn act(&mut self, to: &[Calls; 2]) -> Outcome {
        let what = self.dice.below(100);
        let of = |it: &Self, place: fn(&Place) -> bool, state: fn(&State) -> bool| {
            let places = it.model.places(state);
            places.into_iter().filter(place).collect::<Vec<_>>()
        };
        let is_volume = |place: &Place| matches!(place, Place::Volume(_));
        let is_snapshot = |place: &Place| matches!(place, Place::Snapshot(_));
        let absent = |state: &State| matches!(state, State::Absent);
        let there = |state: &State| matches!(state, State::There { .. });
        let mut absent_volumes = of(self, is_volume, absent);
        absent_volumes.retain(|place| *place != Place::Volume(RESTORED));
        let new_volume = self.dice.one_of(&absent_volumes);
        let new_snapshot = self.dice.one_of(&of(self, is_snapshot, absent));
        let volume = self.dice.one_of(&of(self, is_volume, there));
        let snapshot = self.dice.one_of(&of(self, is_snapshot, there));
        let open = |state: &State| matches!(state, State::Asked(_) | State::Leaving(_));
        let open = self.dice.one_of(&of(self, |_| true, open));
        match (what, new_volume, new_snapshot, volume, snapshot, open) {
            (0..15, Some(new), ..) => self.make(to, new, None).await,
            (15..30, Some(new), _, Some(volume), ..) => self.make(to, new, Some(volume)).await,
            (30..45, _, Some(new), Some(volume), ..) => self.make(to, new, Some(volume)).await,
            (45..57, Some(new), _, _, Some(snapshot), _) => {
                self.make(to, new, Some(snapshot)).await
            }
            (57..70, _, _, Some(volume), ..) => self.delete(to, volume).await,
            (70..77, .., Some(snapshot), _) => self.delete(to, snapshot).await,
            (77..83, _, _, Some(volume), ..) => self.change(volume),
            (83..88, .., Some(open)) => self.go_on(to, open).await,
            (88..91, _, _, Some(volume), ..) => self.make_again(to, volume).await,
            (91..93, .., Some(snapshot), _) => self.make_again(to, snapshot).await,
            (93..95, ..) => self.delete_again(to).await,
            (95..97, _, _, Some(volume), ..) => self.compare(volume),
            (97.., ..) => self.list(to).await,
            // There is nothing to do that with.
            _ => Ok(()),
        }
    }

    /// Makes a volume or snapshot of `origin`.
    async fn make(&mut self, to: &[Calls; 2], place: Place, origin: Option<Place>) -> Outcome {
        let content = match origin.map(|origin| self.model.state(origin)) {
            Some(State::There { content, .. }) => content.clone(),
            _ => Content::new(),
        };
        let origin = origin.map(|place| Origin {
            place,
            id: self.model.id(place),
        });
        let both = self.dice.once_in(4);
        self.ask_for(to, place, Wish { origin, content }, both)
            .await
    }

    async fn ask_for(&mut self, to: &[Calls; 2], place: Place, wish: Wish, both: bool) -> Outcome {
        let what = match &wish.origin {
            Some(origin) => format!("make of {} {}", self.model.name(origin.place), origin.id),
            None => "make".to_owned(),
        };
        let certain = wish
            .origin
            .as_ref()
            .is_none_or(|it| self.model.is_there(it));
        let answer = self
            .request(to, place, &what, &wish, both && certain)
            .await?;
        let id = match answer {
            None => {
                *self.model.state_mut(place) = State::Asked(wish);
                return Ok(());
            }
            Some(Ok(id)) => id,
            Some(Err(status)) if status.code() == Code::NotFound && !certain => {
                *self.model.state_mut(place) = State::Absent;
                return Ok(());
            }
            Some(Err(status)) => {
                return Err(self.model.violation(place, &format!("{what}: {status}")));
            }
        };
        let again = |(_, gone): &(Place, String)| *gone == id;
        if self.model.gone.iter().any(again) {
            return Err(self
                .model
                .violation(place, &format!("{id} was deleted and is made")));
        }
        let origin = wish.origin.clone();
        *self.model.state_mut(place) = State::There {
            id,
            content: wish.content.clone(),
            wish,
        };
        match (place, origin) {
            (Place::Volume(_), Some(_)) => self.compare(place),
            (Place::Volume(_), None) => {
                self.compare(place)?;
                self.change_by(place, 40)
            }
            // An application goes on writing as soon as its snapshot is made.
            (Place::Snapshot(_), Some(origin))
                if self.model.is_there(&origin) && self.dice.once_in(2) =>
            {
                self.change(origin.place)
            }
            _ => Ok(()),
        }
    }

    /// Sends the request that makes something; the id that was answered.
    async fn request(
        &mut self,
        to: &[Calls; 2],
        place: Place,
        what: &str,
        wish: &Wish,
        both: bool,
    ) -> Outcome<Option<Result<String, Status>>> {
        let name = self.model.name(place);
        let Place::Volume(number) = place else {
            let source = wish.origin.as_ref().map(|it| it.id.clone());
            let source = source.unwrap_or_default();
            let call = async |to: Calls| {
                let made = to.snapshot(&name, &source).await?;
                let unready = || Status::internal(format!("answered, and not ready: {made:?}"));
                made.ready_to_use
                    .then(|| made.snapshot_id.clone())
                    .ok_or_else(unready)
            };
            return self.ask(to, place, what, both, call).await;
        };
        let mut parameters = self.parameters.clone();
        // Some at paths that users have chosen, some where the driver wants them.
        if number % 2 == 1 {
            parameters.insert("subDir".to_owned(), name.clone());
        }
        let source = wish.origin.as_ref().and_then(|it| match it.place {
            Place::Volume(_) => calls::of_volume(&it.id),
            Place::Snapshot(_) => calls::of_snapshot(&it.id),
        });
        let request = CreateVolumeRequest {
            volume_content_source: source,
            ..calls::volume(&name, &parameters)
        };
        let call = async |to: Calls| Ok(to.create(request.clone()).await?.volume_id);
        self.ask(to, place, what, both, call).await
    }

    /// Asks once more for what is there.
    async fn make_again(&mut self, to: &[Calls; 2], place: Place) -> Outcome {
        let State::There { id, wish, .. } = self.model.state(place).clone() else {
            return Ok(());
        };
        match self.request(to, place, "make again", &wish, false).await? {
            None => Ok(()),
            Some(Ok(found)) if found == id => self.compare_if_volume(place),
            Some(other) => Err(self
                .model
                .violation(place, &format!("asked again for {id}: {other:?}"))),
        }
    }

    async fn delete(&mut self, to: &[Calls; 2], place: Place) -> Outcome {
        let id = self.model.id(place);
        let both = self.dice.once_in(4);
        match self.ask_to_delete(to, place, "delete", &id, both).await? {
            false => *self.model.state_mut(place) = State::Leaving(id),
            true => {
                *self.model.state_mut(place) = State::Absent;
                self.model.gone.push((place, id));
            }
        }
        Ok(())
    }

    /// Asks once more for the end of what has gone; its name may be another's by now.
    async fn delete_again(&mut self, to: &[Calls; 2]) -> Outcome {
        let numbers: Vec<usize> = (0..self.model.gone.len()).collect();
        let Some(number) = self.dice.one_of(&numbers) else {
            return Ok(());
        };
        let (place, id) = self.model.gone[number].clone();
        self.ask_to_delete(to, place, "delete again", &id, false)
            .await
            .map(drop)
    }

    /// Whether the deletion was answered.
    async fn ask_to_delete(
        &mut self,
        to: &[Calls; 2],
        place: Place,
        what: &str,
        id: &str,
        both: bool,
    ) -> Outcome<bool> {
        let call = async |to: Calls| match place {
            Place::Volume(_) => to.delete(id).await.map(|()| String::new()),
            Place::Snapshot(_) => to.delete_snapshot(id).await.map(|()| String::new()),
        };
        let what = format!("{what} {id}");
        match self.ask(to, place, &what, both, call).await? {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(status)) => Err(self.model.violation(place, &format!("{what}: {status}"))),
        }
    }

    /// Repeats what was cut off.
    async fn go_on(&mut self, to: &[Calls; 2], place: Place) -> Outcome {
        match self.model.state(place).clone() {
            State::Asked(wish) => self.ask_for(to, place, wish, false).await,
            State::Leaving(id) => {
                if self.ask_to_delete(to, place, "delete", &id, false).await? {
                    *self.model.state_mut(place) = State::Absent;
                    self.model.gone.push((place, id));
                }
                Ok(())
            }
            State::Absent | State::There { .. } => Ok(()),
        }
    }

    fn change(&mut self, place: Place) -> Outcome {
        let changes = 1 + self.dice.below(6);
        self.change_by(place, changes)
    }

    /// Changes what is in a volume, unless a copy of it may be under way.
    fn change_by(&mut self, place: Place, most: u64) -> Outcome {
        let id = self.model.id(place);
        let asked = |state: &State| match state {
            State::Asked(wish) => wish.origin.as_ref().is_some_and(|origin| origin.id == id),
            _ => false,
        };
        if self
            .model
            .volumes
            .iter()
            .chain(&self.model.snapshots)
            .any(asked)
        {
            return Ok(());
        }
        self.compare(place)?;
        let folder = of_volume(self.folder, self.model.name(place));
        let changes = 1 + self.dice.below(most);
        let changed = content::change(&folder, &mut self.dice, changes);
        match changed.and_then(|()| content::read(&folder)) {
            Ok(now) => {
                self.model.note(place, format!("{changes} changes in it"));
                if let State::There { content, .. } = self.model.state_mut(place) {
                    *content = now;
                }
                Ok(())
            }
            Err(error) => Err(self
                .model
                .violation(place, &format!("cannot be changed: {error}"))),
        }
    }

    fn compare_if_volume(&mut self, place: Place) -> Outcome {
        match place {
            Place::Volume(_) => self.compare(place),
            Place::Snapshot(_) => Ok(()),
        }
    }

    /// Compares a volume, byte by byte, with what must be in it.
    fn compare(&mut self, place: Place) -> Outcome {
        let State::There { content, wish, .. } = self.model.state(place) else {
            return Ok(());
        };
        let is_copy = wish.origin.is_some();
        let wrong = match content::read(&of_volume(self.folder, self.model.name(place))) {
            Ok(found) => content::difference(content, &found),
            Err(error) => Some(format!("cannot be read: {error}")),
        };
        self.tally.copies += usize::from(is_copy);
        wrong.map_or(Ok(()), |wrong| Err(self.model.violation(place, &wrong)))
    }

    /// What is there is listed, and what has gone is not.
    async fn list(&mut self, to: &[Calls; 2]) -> Outcome {
        for snapshots in [false, true] {
            let call = async |to: Calls| {
                let ids: Vec<String> = if snapshots {
                    let listed = to.snapshots().await?;
                    listed.into_iter().map(|it| it.snapshot_id).collect()
                } else {
                    let listed = to.volumes().await?;
                    listed.into_iter().map(|(it, _)| it.volume_id).collect()
                };
                Ok(ids.join("\n"))
            };
            // Any of their names will do for the history.
            let all = [Place::Volume(0), Place::Snapshot(0)][usize::from(snapshots)];
            let listed = match self.ask(to, all, "list", false, call).await? {
                None => continue,
                Some(Ok(listed)) => listed,
                Some(Err(status)) => {
                    return Err(self.model.violation(all, &format!("list: {status}")));
                }
            };
            self.tally.lists += 1;
            let listed: BTreeSet<&str> = listed.lines().collect();
            for (name, id) in self.model.there(snapshots) {
                if !listed.contains(id.as_str()) {
                    return Err(self
                        .model
                        .violation_of(&name, &format!("{id} is not listed")));
                }
            }
            let back = self
                .model
                .gone
                .iter()
                .find(|(_, id)| listed.contains(id.as_str()));
            if let Some((place, id)) = back.cloned() {
                return Err(self
                    .model
                    .violation(place, &format!("{id} is deleted and listed")));
            }
        }
        Ok(())
    }

    /// Makes a call, to one controller or to both at once. The final answer; nothing when it was left open.
    async fn ask(
        &mut self,
        to: &[Calls; 2],
        place: Place,
        what: &str,
        both: bool,
        call: impl AsyncFn(Calls) -> Result<String, Status>,
    ) -> Outcome<Option<Result<String, Status>>> {
        let hasty = self.dice.once_in(8) && what != "list";
        let deadline = Duration::from_millis(5 + self.dice.below(200));
        let asking = Asking {
            first: self.dice.below(2) as usize,
            may_move: !both,
            may_leave: self.dice.once_in(2) && !both && !self.ending,
            deadline: if hasty { deadline } else { HOUR },
        };
        let other = Asking {
            first: 1 - asking.first,
            ..asking
        };
        let asked = if both {
            let (one, other) = tokio::join!(asking.ask(to, &call), other.ask(to, &call));
            vec![one, other]
        } else {
            vec![asking.ask(to, &call).await]
        };
        let mut answers = Vec::new();
        for asked in asked {
            let Asked {
                answer,
                tries,
                cut_off,
            } = asked.map_err(|status| {
                self.model
                    .violation(place, &format!("{what}: never settled: {status}"))
            })?;
            self.tally.calls += tries.len();
            self.tally.cut_off += cut_off;
            self.model
                .note(place, format!("{what} -> {}", tries.join(", ")));
            answers.push(answer);
        }
        let answer = answers.pop().flatten();
        if let (Some(Some(Ok(one))), Some(Ok(other))) = (answers.first(), &answer)
            && one != other
        {
            return Err(self
                .model
                .violation(place, &format!("{what}: made twice: {one} and {other}")));
        }
        // Of two answers the bad one.
        let bad = answers.into_iter().flatten().find(Result::is_err);
        Ok(bad.or(answer))
    }
}
