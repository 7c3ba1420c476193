//! [`Cache`]: the segments of a compiled function, and what all its calls share.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use fx_simd::PerThread;

use super::backend::Backend;
use super::build::Constants;
use super::dynamic::{expected, generalise, is_relative};
use super::event::{Bound, Event, Identity, Known};
use super::journal::{Journal, add, keep};
use super::miss::{Missed, missed};
use super::replay::Replay;
use super::report::{Code, Counters, Explanation, Place, SegmentReport};
use super::segment::{Expected, Made, Prepared, Segment, Size, Slot};
use super::session::{Spare, match_log};
use super::tell::{self, Told};
use super::{Dynamic, Limit};
use crate::trace::InputSpecs;
use crate::{Error, Result, SourceLoc, Symbol};

/// How a compiled function behaves.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) is_whole: bool,
    pub(super) dynamic: Dynamic,
    pub(super) most_segments: usize,
    pub(super) most_bytes: usize,
    /// The folder that keeps what is recorded.
    pub(super) folder: Option<PathBuf>,
    pub(super) limit: Limit,
    /// Of so many calls that a path serves, one is followed; `None` if all are.
    pub(super) pure: Option<u64>,
    /// Whether results that nobody uses are computed nevertheless.
    pub(super) is_steady: bool,
    /// The types of arguments, which say what varies.
    pub(super) specs: Option<InputSpecs>,
}

/// The segments of a compiled function, and what all its calls share.
pub(super) struct Cache {
    pub(super) name: String,
    pub(super) place: SourceLoc,
    pub(super) options: Options,
    constants: ArcSwap<Constants>,
    pub(super) argument_names: Arc<[Arc<str>]>,
    /// For each argument, whether a path is for all values of its integers.
    pub(super) open_arguments: Arc<[bool]>,
    segments: ArcSwap<Vec<Arc<Segment>>>,
    /// The segment with which calls begin.
    first: AtomicU64,
    next_id: AtomicU64,
    /// The file of the folder that keeps what is recorded.
    file: Option<PathBuf>,
    /// How many segments were made when they were written to the file last.
    kept: AtomicU64,
    /// Held while the file is written.
    keeping: Mutex<()>,
    /// What calls leave to the next one on their thread.
    pub(super) spares: PerThread<Mutex<Option<Spare>>>,
    /// Held while a segment is made, so that calls at the same time make it once.
    entering: Mutex<Thrash>,
    pub(super) journal: Journal,
    pub(super) replay: Option<Replay>,
}

/// The calls that compiled lately. A function that compiles in most calls runs operation by operation for a
/// while.
#[derive(Default)]
struct Thrash {
    calls: VecDeque<u64>,
    paused_until: u64,
    pause: u64,
}

impl Thrash {
    /// Of this many calls.
    const WINDOW: u64 = 32;
    /// So many may compile.
    const MOST: usize = 16;
    const FIRST_PAUSE: u64 = 64;

    /// Notes that a call compiles. Returns `false` if it shall not.
    fn allow(&mut self, call: u64) -> bool {
        if call < self.paused_until {
            return false;
        }
        while self.calls.front().is_some_and(|first| first + Thrash::WINDOW <= call) {
            self.calls.pop_front();
        }
        if self.calls.back() != Some(&call) {
            self.calls.push_back(call);
        }
        if self.calls.len() <= Thrash::MOST {
            return true;
        }
        self.pause = (2 * self.pause).max(Thrash::FIRST_PAUSE);
        self.paused_until = call.saturating_add(self.pause);
        self.calls.clear();
        false
    }
}

/// The segment for a log.
pub(super) enum Entered {
    /// It is kept.
    Kept(Arc<Segment>, Bound),
    /// It is used once: operations run one by one.
    Once(Arc<Segment>, Bound),
    /// The function may have no more.
    Refused(Error),
}

/// What is new in a call.
pub(super) struct New<'a> {
    pub(super) log: Vec<Event>,
    pub(super) outside: &'a [Known],
    pub(super) miss: Option<Missed>,
    pub(super) place: Place,
    pub(super) call: u64,
    /// Whether the miss is told elsewhere.
    pub(super) is_quiet: bool,
    pub(super) name: &'a dyn Fn(Identity) -> Option<Arc<str>>,
    /// The symbol that the user gave to a size, if some have one.
    pub(super) mark: Option<&'a dyn Fn(Identity, usize) -> Option<Symbol>>,
}

impl Cache {
    /// A segment ends after this many events, so that the time to compile it is bounded.
    pub(super) const MOST_EVENTS: usize = 20_000;

    pub(super) fn new(
        name: String,
        place: SourceLoc,
        options: Options,
        constants: Constants,
        (argument_names, open_arguments): (Arc<[Arc<str>]>, Arc<[bool]>),
    ) -> Cache {
        let file = options.folder.as_ref().map(|folder| {
            let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            let plain: String = name.chars().filter(is_plain).take(64).collect();
            folder.join(format!("{plain}-{}.fxc", super::store::checksum(&place.to_string())))
        });
        Cache {
            journal: Journal::new(&name, &place),
            name,
            place,
            constants: ArcSwap::from_pointee(constants),
            argument_names,
            open_arguments,
            segments: ArcSwap::default(),
            replay: options.pure.map(Replay::new),
            options,
            first: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
            file,
            kept: AtomicU64::new(1),
            keeping: Mutex::default(),
            spares: PerThread::default(),
            entering: Mutex::default(),
        }
    }

    pub(super) fn segments(&self) -> Guard<Arc<Vec<Arc<Segment>>>> {
        self.segments.load()
    }

    pub(super) fn first(&self) -> u64 {
        self.first.load(Ordering::Relaxed)
    }

    pub(super) fn set_first(&self, id: u64) {
        keep(&self.first, id);
    }

    pub(super) fn backend(&self) -> &Arc<dyn Backend> {
        &self.options.backend
    }

    pub(super) fn constants(&self) -> Guard<Arc<Constants>> {
        self.constants.load()
    }

    /// Takes the constants of a module that may have changed. Code that has others stays, and does not fit a call.
    pub(super) fn renew(&self, constants: Constants) {
        self.constants.store(Arc::new(constants));
        if let Some(replay) = &self.replay {
            replay.clear();
        }
    }

    /// Writes the segments to a file.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        super::store::save(path, &self.name, &self.segments(), &self.constants())
    }

    /// Takes the segments of a file, behind those that are here.
    pub(super) fn load(&self, path: &Path) -> Result<()> {
        let _entering = self.entering.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = super::store::load(path, &self.constants(), self.next_id.load(Ordering::Relaxed))?;
        self.next_id.fetch_add(loaded.len() as u64, Ordering::Relaxed);
        let all = self.segments().iter().cloned().chain(loaded).take(self.options.most_segments).collect();
        self.segments.store(Arc::new(all));
        Ok(())
    }

    /// Takes the segments of the folder. A file that cannot be read costs time only, and is replaced later.
    pub(super) fn load_kept(&self) {
        if let Some(file) = &self.file
            && self.load(file).is_ok()
        {
            self.kept.store(self.next_id.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Writes the segments to the folder, if there are new ones. What cannot be written is recorded anew by the
    /// next process.
    pub(super) fn keep(&self) {
        let Some(file) = &self.file else { return };
        let made = self.next_id.load(Ordering::Relaxed);
        if self.kept.load(Ordering::Relaxed) == made {
            return;
        }
        let Ok(_keeping) = self.keeping.try_lock() else { return };
        // A folder that cannot be written is tried again with the next new graph, not on each call.
        let _ = self.save(file);
        self.kept.store(made, Ordering::Relaxed);
    }

    /// Lets go of all compiled code.
    pub(super) fn clear(&self) {
        let mut thrash = self.entering.lock().unwrap_or_else(PoisonError::into_inner);
        *thrash = Thrash::default();
        self.segments.store(Arc::default());
        if let Some(replay) = &self.replay {
            replay.clear();
        }
        for spare in self.spares.all() {
            *spare.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.journal.clear();
    }

    /// Makes the segment of a log, for all sizes and numbers that varied so far.
    pub(super) fn enter(&self, new: New<'_>) -> Entered {
        let mut thrash = self.entering.lock().unwrap_or_else(PoisonError::into_inner);
        let constants = self.constants();
        let is_constant = |known: &Known| known.identity.0 == 0 && constants.has(&known.array);
        let bound = || Bound::new(new.outside);
        let known = self.segments();
        // Another thread may have made it meanwhile.
        let same_length = known.iter().filter(|segment| segment.events.len() == new.log.len());
        for segment in same_length {
            if let Some(bound) = match_log(segment, &new.log, new.outside) {
                return Entered::Kept(segment.clone(), bound);
            }
        }
        let name = |_: usize, known: &Known| (new.name)(known.identity).unwrap_or_else(|| Arc::from("input"));
        let outside = expected(new.outside, &is_constant, &name);
        let observation = Segment::observe(&new.log, new.outside, &is_constant);
        let make_static = |id: u64| {
            let parts = (new.log.clone(), outside.clone());
            Segment::new(id, parts, Default::default(), vec![observation.clone()], new.place.clone())
        };
        if !thrash.allow(new.call) {
            let reason = new.miss.as_ref().map_or("first call", |miss| &*miss.reason);
            self.journal.note(Code::C09, reason, new.miss.as_ref().and_then(|miss| miss.at.clone()));
            return Entered::Once(Arc::new(make_static(0)), bound());
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mark = |input: usize, axis: usize| {
            new.mark.and_then(|mark| mark(new.outside.get(input)?.identity, axis))
        };
        let mut refusals = Vec::new();
        let mut replaced = None;
        let mut made = None;
        if self.options.dynamic != Dynamic::Never {
            for relative in known.iter().rev().filter(|other| is_relative(other, &new.log, &outside)) {
                match generalise(&relative.observations, &new.log, &outside, &observation, &mark) {
                    Ok(general) => {
                        let parts = (general.events, general.outside);
                        let rest = (general.symbols, general.slots);
                        let segment = Segment::new(id, parts, rest, general.observations, new.place.clone());
                        if let Some(bound) = match_log(&segment, &new.log, new.outside) {
                            (replaced, made) = (Some(relative.clone()), Some((segment, bound)));
                            break;
                        }
                    }
                    Err((reason, at)) => refusals.push((reason, new.log[at].source.clone())),
                }
            }
        }
        if made.is_none() && new.mark.is_some() {
            match generalise(&[], &new.log, &outside, &observation, &mark) {
                Ok(general) => {
                    let parts = (general.events, general.outside);
                    let rest = (general.symbols, general.slots);
                    let segment = Segment::new(id, parts, rest, general.observations, new.place.clone());
                    made = match_log(&segment, &new.log, new.outside).map(|bound| (segment, bound));
                }
                // The first call does not tell which numbers of operations are sizes.
                Err(_) if refusals.is_empty() => {}
                Err((reason, at)) => {
                    let text = format!("C03: a size that an input spec names cannot vary: {reason}");
                    let error = Error::new(crate::ErrorKind::Shape, text)
                        .help("write the number into the spec, or leave the spec out")
                        .at(new.log[at].source.clone());
                    return Entered::Refused(error);
                }
            }
        }
        let (segment, bound) = match made {
            Some(made) => made,
            None => {
                let segment = make_static(id);
                let matched = match_log(&segment, &new.log, new.outside);
                (segment, matched.unwrap_or_else(bound))
            }
        };
        let outcome = match &replaced {
            Some(replaced) => {
                format!("{} replaces {}{}", name_of(id), name_of(replaced.id), described(&segment))
            }
            None => format!("recorded {}", name_of(id)),
        };
        let segment = Arc::new(segment);
        let mut segments: Vec<Arc<Segment>> = known.iter().cloned().collect();
        segments.retain(|other| replaced.as_ref().is_none_or(|replaced| replaced.id != other.id));
        let bytes: usize = segments.iter().map(|segment| segment.bytes()).sum();
        if segments.len() >= self.options.most_segments || bytes >= self.options.most_bytes {
            let reason = new.miss.as_ref().map_or("first call", |miss| &*miss.reason);
            self.journal.note(Code::C08, reason, new.miss.as_ref().and_then(|miss| miss.at.clone()));
            match self.options.limit {
                Limit::Evict => self.evict(&mut segments, self.options.most_segments - 1, None),
                Limit::Eager => return Entered::Once(segment, bound),
                Limit::Error => {
                    let what = match segments.len() >= self.options.most_segments {
                        true => format!("has {} graphs", segments.len()),
                        false => format!("has graphs of {bytes} bytes"),
                    };
                    let text = format!(
                        "C08: {} {what}, which is its limit, and none of them fits this call: {reason}",
                        self.name
                    );
                    return Entered::Refused(
                        Error::new(crate::ErrorKind::Trace, text)
                            .help(Code::C08.advice())
                            .at(self.place.clone()),
                    );
                }
            }
        }
        let relations = segment.slots.iter().filter(|(_, slot)| matches!(slot, Slot::Number { .. })).count();
        for (reason, at) in refusals {
            self.journal.note(Code::C03, &reason, Some(at));
        }
        if relations > 0 && replaced.is_some() {
            self.journal.note(
                Code::C02,
                "a number is an input now",
                new.miss.as_ref().and_then(|miss| miss.at.clone()),
            );
        }
        if !new.is_quiet {
            self.journal.miss(missed(new.call, new.miss, outcome));
        }
        segments.push(segment.clone());
        self.segments.store(Arc::new(segments));
        Entered::Kept(segment, bound)
    }

    /// Drops the segments that were not used for longest, until there are at most so many, within the limit of
    /// bytes.
    fn evict(&self, segments: &mut Vec<Arc<Segment>>, most: usize, kept: Option<u64>) {
        let is_full = |segments: &[Arc<Segment>]| {
            segments.len() > most
                || segments.iter().map(|segment| segment.bytes()).sum::<usize>() >= self.options.most_bytes
        };
        while is_full(segments) {
            let used = |segment: &Arc<Segment>| segment.used();
            let others = segments.iter().enumerate().filter(|(_, segment)| Some(segment.id) != kept);
            let Some((at, _)) = others.min_by_key(|(_, segment)| used(segment)) else { break };
            segments.remove(at);
        }
        if let Some(replay) = &self.replay {
            replay.forget(&|id| segments.iter().any(|segment| segment.id == id));
        }
    }

    /// Keeps the limit of bytes after a segment was compiled and has run.
    pub(super) fn keep_limit(&self, segment: &Segment) {
        if self.options.most_bytes == usize::MAX
            || self.options.limit != Limit::Evict
            || self.bytes() < self.options.most_bytes
        {
            return;
        }
        let _entering = self.entering.lock().unwrap_or_else(PoisonError::into_inner);
        let mut segments: Vec<Arc<Segment>> = self.segments().iter().cloned().collect();
        let n = segments.len();
        self.evict(&mut segments, n, Some(segment.id));
        if segments.len() < n {
            self.journal.note(Code::C08, "bytes of compiled code", segment.end.at.clone());
            self.segments.store(Arc::new(segments));
        }
    }

    /// Returns about how many bytes the segments hold.
    pub(super) fn bytes(&self) -> usize {
        self.segments().iter().map(|segment| segment.bytes()).sum()
    }

    /// Returns a segment that is not kept.
    pub(super) fn once(new: New<'_>) -> Entered {
        let outside = expected(new.outside, &|_| false, &|_, _| Arc::from("input"));
        let bound = Bound::new(new.outside);
        let segment = Segment::new(0, (new.log, outside), Default::default(), Vec::new(), new.place);
        Entered::Once(Arc::new(segment), bound)
    }

    /// Returns the error of a call that no compiled code fits, where none may be made.
    pub(super) fn no_code(&self, new: &New<'_>) -> Error {
        let reason = new.miss.as_ref().map_or("nothing is compiled yet", |miss| &*miss.reason);
        let text = format!(
            "C19: {} has no compiled code for this call, and the stance forbids to compile: {reason}",
            self.name
        );
        let at = new.miss.as_ref().and_then(|miss| miss.at.clone()).unwrap_or_else(|| self.place.clone());
        Error::new(crate::ErrorKind::Trace, text).help(Code::C19.advice()).at(at)
    }

    /// Counts a compilation.
    pub(super) fn note_compiled(
        &self,
        segment: &Segment,
        prepared: &Prepared,
        made: Made,
        at: Option<&SourceLoc>,
    ) {
        let counts = self.journal.counts();
        let count = match made {
            Made::Narrower => &counts.narrowed,
            _ if segment.is_loaded() => &counts.loaded,
            _ => &counts.compiled,
        };
        add(count, 1);
        if made == Made::Wider {
            self.journal.note(Code::C17, &name_of(segment.id), at.cloned());
        }
        if let Err(error) = &prepared.program {
            self.journal.note(Code::C13, error.message(), at.cloned());
        }
    }

    /// Tells of a segment that was made ready and has run.
    pub(super) fn tell_compiled(&self, segment: &Segment) {
        if tell::is_told() {
            self.journal.tell(Told::Compiled(&report(segment)));
        }
    }

    /// Notes that a program failed where the operations do not, and lets operations run one by one from now on.
    pub(super) fn note_failed(&self, segment: &Segment, error: &Error) {
        let code = if error.message().starts_with("C18") { Code::C18 } else { Code::C13 };
        self.journal.note(code, error.message(), error.source_loc().cloned());
        segment.demote(error);
    }

    pub(super) fn counters(&self) -> Counters {
        self.journal.counters()
    }

    pub(super) fn explain(&self) -> Explanation {
        let segments = self.segments();
        Explanation {
            name: self.name.clone(),
            at: Some(self.place.clone()),
            backend: self.options.backend.name().to_owned(),
            segments: segments.iter().map(|segment| report(segment)).collect(),
            misses: self.journal.misses(),
            breaks: self.journal.breaks(),
            is_pure: self.replay.is_some(),
            paths: self.replay.as_ref().map_or_else(Vec::new, Replay::report),
            counters: self.journal.counters(),
        }
    }
}

pub(super) fn name_of(id: u64) -> String {
    format!("s{}", id.saturating_sub(1))
}

/// Writes the symbols and inputs of numbers.
fn described(segment: &Segment) -> String {
    let symbols: Vec<&str> = segment.symbols.iter().map(Symbol::name).collect();
    let numbers = segment.slots.iter().filter(|(_, slot)| matches!(slot, Slot::Number { .. })).count();
    let mut parts = Vec::new();
    if !symbols.is_empty() {
        parts.push(format!("for every {}", symbols.join(", ")));
    }
    if numbers > 0 {
        parts.push(format!("with {numbers} number{} as input", if numbers == 1 { "" } else { "s" }));
    }
    if parts.is_empty() { String::new() } else { format!(" {}", parts.join(" and ")) }
}

fn report(segment: &Segment) -> SegmentReport {
    let prepared = segment.prepared();
    let sizes = |sizes: &[Size]| {
        let each = sizes.iter().map(|size| match *size {
            Size::Is(n) => n.to_string(),
            Size::Symbol(symbol) => segment.symbols[symbol as usize].name().to_owned(),
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let inputs = segment.outside.iter().filter_map(|expected| match expected {
        Expected::Input { name, dtype, sizes: axes } => Some(format!("{name}: {dtype}[{}]", sizes(axes))),
        Expected::Constant(_) => None,
    });
    let integers = segment.integers.iter().map(|at| format!("{}: int", segment.symbols[*at as usize].name()));
    let numbers = segment.slots.iter().filter_map(|(_, slot)| match slot {
        Slot::Number { dtype, .. } => Some(format!("number: {dtype}[]")),
        Slot::Size(_) => None,
    });
    let outputs = prepared.as_ref().map_or_else(Vec::new, |prepared| {
        let named = |local: &u32| {
            let event = segment.events.iter().rev().find(|event| event.first_local <= *local)?;
            let at = (*local - event.first_local) as usize;
            Some(format!("{}: {}", event.op.name, event.result.leaves().get(at)?))
        };
        prepared.outputs.iter().filter_map(named).collect()
    });
    SegmentReport {
        name: name_of(segment.id),
        operations: segment.events.len(),
        inputs: inputs.chain(integers).chain(numbers).collect(),
        outputs,
        end: segment.end.to_string(),
        code: segment.end.end.code(),
        runs: segment.runs(),
        run_time: segment.run_time(),
        graph_time: prepared.as_ref().map_or(Default::default(), |prepared| prepared.times.graph),
        backend_time: prepared.as_ref().map_or(Default::default(), |prepared| prepared.times.backend),
        program: prepared
            .as_ref()
            .and_then(|prepared| prepared.program.as_ref().ok())
            .map_or_else(String::new, |program| program.describe()),
        failed: prepared
            .as_ref()
            .and_then(|prepared| prepared.program.as_ref().err())
            .map(|error| error.message().to_owned()),
        graph: prepared.as_ref().map_or_else(String::new, |prepared| prepared.module.graph().to_string()),
        module: prepared.as_ref().map(|prepared| prepared.module.clone()),
    }
}
