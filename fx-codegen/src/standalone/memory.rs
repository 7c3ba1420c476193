//! Memory: which buffers share a place, by when they are used.

use fx_core::{DType, Dim};

use super::step::{Buffer, Length, Loop, Piece, Source, Step};
use super::value::{Home, Value, count, row_major};

/// A place that buffers of one dtype share, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dtype: DType,
    /// The lengths of the buffers, each once.
    pub(super) lens: Vec<Length>,
}

/// The places of buffers.
pub(super) struct Memory {
    pub(super) places: Vec<Place>,
    /// The place of each buffer that is used.
    pub(super) place_of: Vec<Option<usize>>,
}

/// Returns the buffers that a step uses itself.
fn uses(step: &Step) -> Vec<usize> {
    let buffer = |home| match home {
        Home::Buffer(id) => Some(id),
        Home::Input(_) | Home::Weight(_) => None,
    };
    homes(step).into_iter().filter_map(buffer).collect()
}

/// Returns the memory that a step uses itself.
fn homes(step: &Step) -> Vec<Home> {
    let element = |source: &Source| match source {
        Source::Size(_) => None,
        Source::Element(view) => Some(view.home),
    };
    match step {
        Step::Comment(_) | Step::Require(_) => Vec::new(),
        Step::Grow(id) => vec![Home::Buffer(*id)],
        Step::Bind(values) => values.iter().filter_map(|(_, source)| element(source)).collect(),
        Step::For { rounds, .. } => element(rounds).into_iter().collect(),
        Step::Call(call) => {
            let pieces = call.args.iter().flatten();
            let homes = pieces.filter_map(|piece| match piece {
                Piece::Read(view) | Piece::Element(view) | Piece::WriteView(view) => Some(view.home),
                Piece::Write(id) => Some(Home::Buffer(*id)),
                Piece::Weight(i) => Some(Home::Weight(*i)),
                Piece::Text(_) | Piece::Size(_) | Piece::Integer(_) => None,
            });
            homes.collect()
        }
        Step::Loop(made) => {
            let writes = made.writes.iter().map(|(id, _)| Home::Buffer(*id));
            made.reads.iter().map(|view| view.home).chain(writes).collect()
        }
        Step::Branch { test, .. } | Step::While { test, .. } => vec![test.home],
    }
}

/// Notes the weights that steps read.
pub(super) fn note_weights(steps: &[Step], is_read: &mut [bool]) {
    for step in steps {
        for home in homes(step) {
            if let Home::Weight(i) = home {
                is_read[i] = true;
            }
        }
        match step {
            Step::While { before, body, .. } => {
                note_weights(before, is_read);
                note_weights(body, is_read);
            }
            Step::For { body, .. } => note_weights(body, is_read),
            Step::Branch { then, otherwise, .. } => {
                note_weights(then, is_read);
                note_weights(otherwise, is_read);
            }
            _ => {}
        }
    }
}

/// When buffers are used.
struct Lives {
    first: Vec<usize>,
    last: Vec<usize>,
    now: usize,
}

impl Lives {
    fn note(&mut self, id: usize) {
        self.first[id] = self.first[id].min(self.now);
        self.last[id] = self.last[id].max(self.now);
    }

    fn note_all(&mut self, step: &Step) {
        uses(step).into_iter().for_each(|id| self.note(id));
    }

    /// Notes that what comes from before `start` is read in the next round of a loop that ends now, too.
    fn repeat(&mut self, start: usize) {
        for id in 0..self.first.len() {
            if self.first[id] < start && self.last[id] >= start {
                self.last[id] = self.now;
            }
        }
    }

    fn walk(&mut self, steps: &[Step]) {
        for step in steps {
            self.now += 1;
            match step {
                Step::While { before, body, .. } => {
                    let start = self.now;
                    self.walk(before);
                    self.now += 1;
                    self.note_all(step);
                    self.walk(body);
                    self.now += 1;
                    self.repeat(start);
                }
                Step::For { body, .. } => {
                    self.note_all(step);
                    // What tells the number of rounds is read once.
                    self.now += 1;
                    let start = self.now;
                    self.walk(body);
                    self.now += 1;
                    self.repeat(start);
                }
                Step::Branch { then, otherwise, .. } => {
                    self.note_all(step);
                    self.walk(then);
                    self.walk(otherwise);
                    self.now += 1;
                }
                _ => self.note_all(step),
            }
        }
    }
}

struct Planner<'a> {
    buffers: &'a [Buffer],
    lives: Lives,
    now: usize,
    memory: Memory,
    free: Vec<usize>,
    /// The buffers that end at each moment.
    ends: Vec<Vec<usize>>,
}

/// Gives buffers their places; loops write over what they read where they can. Values in `kept` stay.
pub(super) fn plan(buffers: &[Buffer], steps: &mut [Step], kept: &[&Value]) -> Memory {
    let n = buffers.len();
    let mut lives = Lives { first: vec![usize::MAX; n], last: vec![0; n], now: 0 };
    lives.walk(steps);
    let end = lives.now + 1;
    for view in kept.iter().flat_map(|value| value.leaves()) {
        if let Home::Buffer(id) = view.home {
            lives.last[id] = end;
            lives.first[id] = lives.first[id].min(end);
        }
    }
    let mut ends: Vec<Vec<usize>> = vec![Vec::new(); end + 1];
    for id in 0..n {
        if lives.first[id] != usize::MAX {
            ends[lives.last[id]].push(id);
        }
    }
    let memory = Memory { places: Vec::new(), place_of: vec![None; n] };
    let mut planner = Planner { buffers, lives, now: 0, memory, free: Vec::new(), ends };
    planner.steps(steps);
    planner.memory
}

impl Planner<'_> {
    fn steps(&mut self, steps: &mut [Step]) {
        for step in steps {
            self.advance();
            match step {
                Step::While { before, body, test } => {
                    self.steps(before);
                    self.advance();
                    let test = Step::While { before: Vec::new(), body: Vec::new(), test: test.clone() };
                    self.place_all(&test);
                    self.steps(body);
                    self.advance();
                }
                Step::For { index, rounds, body } => {
                    let (index, rounds) = (index.clone(), rounds.clone());
                    self.place_all(&Step::For { index, rounds, body: Vec::new() });
                    self.advance();
                    self.steps(body);
                    self.advance();
                }
                Step::Branch { then, otherwise, test } => {
                    let test = Step::Branch { then: Vec::new(), otherwise: Vec::new(), test: test.clone() };
                    self.place_all(&test);
                    self.steps(then);
                    self.steps(otherwise);
                    self.advance();
                }
                Step::Loop(made) => {
                    self.reuse(made);
                    let made = Step::Loop(made.clone());
                    self.place_all(&made);
                }
                step => self.place_all(step),
            }
        }
    }

    /// Ends what was last used at the moment before.
    fn advance(&mut self) {
        for id in std::mem::take(&mut self.ends[self.now]) {
            if let Some(place) = self.memory.place_of[id]
                && !self.free.contains(&place)
            {
                self.free.push(place);
            }
        }
        self.now += 1;
    }

    fn place_all(&mut self, step: &Step) {
        for id in uses(step) {
            if self.memory.place_of[id].is_none() {
                let place = self.find(id);
                self.memory.place_of[id] = Some(place);
            }
        }
    }

    /// Finds a place: a free one whose length is nearest, or a new one.
    fn find(&mut self, id: usize) -> usize {
        let buffer = &self.buffers[id];
        let size = |len: &Length| known(len).unwrap_or(0);
        let wanted = size(&buffer.len);
        let cost = |place: usize| {
            let has = self.memory.places[place].lens.iter().map(size).max().unwrap_or(0);
            if has >= wanted { (0, has - wanted) } else { (1, wanted - has) }
        };
        let fits = self.free.iter().copied().filter(|&place| self.memory.places[place].dtype == buffer.dtype);
        match fits.min_by_key(|&place| (cost(place), place)) {
            Some(place) => {
                self.free.retain(|free| *free != place);
                let lens = &mut self.memory.places[place].lens;
                if !lens.contains(&buffer.len) {
                    lens.push(buffer.len.clone());
                }
                place
            }
            None => {
                self.memory.places.push(Place { dtype: buffer.dtype, lens: vec![buffer.len.clone()] });
                self.memory.places.len() - 1
            }
        }
    }

    /// Lets results of a loop take the places of operands that nobody reads later.
    fn reuse(&mut self, made: &mut Loop) {
        let dense = row_major(&made.shape);
        let len = Length::Of(count(&made.shape));
        for write in 0..made.writes.len() {
            let (to, _) = made.writes[write];
            if self.memory.place_of[to].is_some() {
                continue;
            }
            let found = made.reads.iter().enumerate().find_map(|(read, view)| {
                let Home::Buffer(from) = view.home else { return None };
                let alone = made.reads.iter().filter(|other| other.home == view.home).count() == 1;
                let taken = made.in_place.iter().any(|(other, _)| *other == read);
                let fits = self.lives.last[from] == self.now
                    && self.buffers[from].dtype == self.buffers[to].dtype
                    && self.buffers[from].len == len
                    && view.strides == dense
                    && view.offset == Dim::new(0);
                (alone && !taken && fits).then_some((read, from))
            });
            if let Some((read, from)) = found
                && let Some(place) = self.memory.place_of[from]
            {
                self.memory.place_of[to] = Some(place);
                self.ends[self.now].retain(|id| *id != from);
                made.in_place.push((read, write));
            }
        }
    }
}

/// Returns a length that is known.
pub(super) fn known(len: &Length) -> Option<usize> {
    match len {
        Length::Of(dim) => usize::try_from(dim.known()?).ok(),
        Length::Work(room, sizes) => {
            let sizes: Option<Vec<usize>> =
                sizes.iter().map(|dim| usize::try_from(dim.known()?).ok()).collect();
            Some((room.of)(&sizes?))
        }
    }
}
