//! Tapes as data for a code generator, and the call of what it made of them.

use std::ffi::c_void;

use fx_core::loops::{self, Operand, Work};
use fx_core::native::{Access, Call, Function, Given, Load, LoopBody, Routine, Source, Step};
use fx_core::{Stored, native};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Action, Bases, Extent, Location, Map, Tape};
use crate::fusible::is_half;

/// The elements of a chunk that needs no memory.
const CHUNK: usize = 1 << 13;

/// A compiled function with its memory.
pub(crate) struct Linked {
    function: Function,
    loads: Vec<Given>,
    /// Where in the scratch memory each slot is.
    slots: Vec<usize>,
    numbers: Vec<u64>,
}

/// What is known of a chunk when the compiled code asks for a step.
struct Host<'a> {
    tape: &'a Tape,
    len: usize,
    rows: usize,
}

impl Map {
    /// Returns the bits of the parameters.
    fn params(&self) -> SmallVec<[u64; 4]> {
        fn bits<T: Stored + Copy>(params: &[T]) -> SmallVec<[u64; 4]> {
            params.iter().map(|x| x.bits() & (u64::MAX >> (64 - 8 * size_of::<T>()))).collect()
        }
        match self {
            Map::Bool(_, params) => bits(params),
            Map::U8(_, params) => bits(params),
            Map::I8(_, params) => bits(params),
            Map::I32(_, params) => bits(params),
            Map::I64(_, params) => bits(params),
            Map::F32(_, params) => bits(params),
            Map::F64(_, params) => bits(params),
        }
    }
}

impl super::Load {
    fn access(&self, row: usize) -> Access {
        match (self.extent, self.grid) {
            (Extent::PerRow, _) => Access::PerRow,
            (Extent::Once, _) => Access::Once,
            (Extent::Full, Some((row_step, 1))) if row_step == row => Access::Dense,
            (Extent::Full, Some((_, 1))) => Access::Rows,
            (Extent::Full, Some((_, 0))) => Access::Splat,
            (Extent::Full, _) => Access::Scattered,
        }
    }
}

impl Tape {
    /// Returns the tape as data.
    pub(crate) fn loop_body(&self) -> LoopBody {
        let mut writer: FxHashMap<u32, u32> = FxHashMap::default();
        let mut stored: FxHashMap<u16, u32> = FxHashMap::default();
        let mut steps = Vec::with_capacity(self.instructions.len());
        for (i, instruction) in self.instructions.iter().enumerate() {
            let i = i as u32;
            let operand = |spot: &Location| match spot {
                Location::Register(at) => Operand::Step(writer.get(at).copied().unwrap_or(u32::MAX)),
                Location::Store(at) => Operand::Step(stored.get(at).copied().unwrap_or(u32::MAX)),
                Location::Load(at) => Operand::Load(u32::from(*at)),
                Location::Number(at) => {
                    Operand::Number(self.numbers[*at as usize].first().copied().unwrap_or(0))
                }
            };
            let operands = instruction.inputs.iter().map(operand).collect();
            let (work, params) = match (&instruction.action, instruction.def) {
                (Action::Map(map), Some(def)) => (Work::Map(def), map.params()),
                // Numbers in half precision are none of compiled code.
                (Action::Convert(_), _) if instruction.dtypes.iter().any(|dtype| is_half(*dtype)) => {
                    (Work::Host, SmallVec::new())
                }
                (Action::Convert(_), _) => (Work::Convert, SmallVec::new()),
                (Action::Repeat(_), _) => (Work::Repeat, SmallVec::new()),
                (Action::Copy(_), _) => (Work::Copy, SmallVec::new()),
                (Action::Select(_), _) => (Work::Select, SmallVec::new()),
                (Action::Map(_) | Action::Row(..), _) => (Work::Host, SmallVec::new()),
            };
            let reduces = matches!(instruction.action, Action::Row(call, _) if call.reduces());
            let [from, dtype] = instruction.dtypes;
            let per_row = instruction.per_row || reduces;
            let store = match instruction.output {
                Location::Store(at) => Some(at),
                _ => None,
            };
            let step = loops::Step { work, operands, exact: 0, params, from, dtype };
            steps.push(Step { step, per_row, store });
            match instruction.output {
                Location::Register(at) => _ = writer.insert(at, i),
                Location::Store(at) => _ = stored.insert(at, i),
                _ => {}
            }
        }
        let load = |load: &super::Load| {
            let is_whole = load.extent == Extent::Full && load.offset == 0 && load.walk.is_dense();
            let result = |by| {
                let fits =
                    |store: &super::Store| store.value == by && !store.per_row && store.size == load.size;
                self.stores.iter().position(fits).map(|at| at as u16)
            };
            let overwritten = load.overwritten.filter(|_| is_whole).and_then(result);
            let is_copied = load.overwritten.is_some() && overwritten.is_none();
            Load { access: load.access(self.row), overwritten, is_copied }
        };
        LoopBody { loads: self.loads.iter().map(load).collect(), steps }
    }

    /// Runs a compiled function from now on.
    pub(crate) fn link(&mut self, routine: Routine) {
        let Routine { function, loads, slots, numbers, calls_engine } = routine;
        // Where nothing has registers, these bound a chunk no more.
        let has_buffers = self.stores.iter().any(|store| store.buffer.is_some());
        let is_direct =
            !calls_engine && slots.is_empty() && !has_buffers && !loads.contains(&Given::Gathered);
        if is_direct && self.chunk < self.row {
            self.chunk = CHUNK.min(self.row).max(self.chunk);
        }
        let rows = self.chunk.div_ceil(self.row).max(1);
        let mut places = Vec::with_capacity(slots.len());
        self.scratch = self.scratch.next_multiple_of(64);
        for native::Slot { per_row, size } in slots {
            places.push(self.scratch);
            self.scratch += (if per_row { rows } else { self.chunk } * size).next_multiple_of(64);
        }
        self.native = Some(Linked { function, loads, slots: places, numbers });
    }
}

impl Linked {
    /// Returns whether the function has memory of its own, which is as long as the tape's chunks.
    pub(super) fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Runs the function on a chunk.
    ///
    /// # Safety
    ///
    /// As for [`Tape::chunk`].
    pub(super) unsafe fn chunk(&self, tape: &Tape, bases: Bases<'_>, scratch: *mut u8, chunk: super::Chunk) {
        let width = chunk.len / chunk.rows;
        let mut loads: SmallVec<[Source; 8]> = SmallVec::new();
        for (load, given) in tape.loads.iter().zip(&self.loads) {
            loads.push(match given {
                Given::Unused => Source { at: std::ptr::null(), row: 0 },
                Given::InPlace => {
                    let (row_step, step) = load.grid.unwrap_or((0, 0));
                    let at = load.offset + chunk.row * row_step + chunk.column * step;
                    let at = bases.at::<u8>(load.value, at * load.size).cast_const();
                    Source { at, row: row_step * load.size }
                }
                Given::Gathered => {
                    // SAFETY: the caller's promise.
                    let at = unsafe { load.find(bases, scratch, chunk, tape.row) };
                    Source { at, row: width * load.size }
                }
            });
        }
        let mut stores: SmallVec<[*mut u8; 4]> = SmallVec::new();
        for store in &tape.stores {
            stores.push(store.place(bases, scratch, chunk, tape.row));
        }
        let slots: SmallVec<[*mut u8; 4]> = self.slots.iter().map(|&at| scratch.wrapping_add(at)).collect();
        let host = Host { tape, len: chunk.len, rows: chunk.rows };
        let call = Call {
            loads: loads.as_ptr(),
            stores: stores.as_ptr(),
            slots: slots.as_ptr(),
            numbers: self.numbers.as_ptr(),
            len: chunk.len,
            rows: chunk.rows,
            step,
            host: (&raw const host).cast(),
        };
        // SAFETY: the function was made of this tape: it reads each load, writes each store, and uses slots
        // and numbers as many as were given, for a chunk of one element at least. Memory of loads and stores
        // is the caller's promise; slots lie in the scratch memory after the registers.
        unsafe { (self.function)(&call) }
    }
}

/// Does a step that is no compiled code.
///
/// # Safety
///
/// `host` is the one of the call, and operands and result are those of the step.
unsafe extern "C" fn step(host: *const c_void, step: u32, operands: *const *const u8, out: *mut u8) {
    // SAFETY: the compiled code passes on what it was given.
    let host = unsafe { &*host.cast::<Host<'_>>() };
    let instruction = &host.tape.instructions[step as usize];
    let mut inputs: SmallVec<[*const u8; 4]> = SmallVec::new();
    for (i, spot) in instruction.inputs.iter().enumerate() {
        inputs.push(match spot {
            Location::Number(at) => host.tape.numbers[*at as usize].as_ptr().cast(),
            // SAFETY: there is an address for each operand.
            _ => unsafe { *operands.add(i) },
        });
    }
    let len = if instruction.per_row { host.rows } else { host.len };
    // SAFETY: the caller's promise; compiled code gives each value that is alive memory of its own.
    unsafe { instruction.action.run(&inputs, out, len, host.rows) };
}
