//! [`Tape`]: pointwise operations and operations on rows, one after the other on a block of elements that
//! stays in the first cache.
//!
//! A tape walks over a *domain* of elements in row-major order, in chunks: blocks of elements, or whole rows
//! if it reduces them. For each chunk it runs its instructions, each of which reads and writes registers of as
//! many elements. The instructions are the block kernels of the rows, so that a fused group has the bits that
//! its operations have one by one.

mod build;
pub(crate) mod draft;
mod load;
pub(crate) mod loops;
pub(crate) mod native;

use std::cell::RefCell;

use fx_core::array::Cast;
use fx_core::pointwise::{Block, PointwiseDef};
use fx_core::rowwise::{self, RowCall};
use fx_core::{DType, Element, Result};
use fx_simd::{UninitSlice, parallel};
use half::{bf16, f16};
use smallvec::SmallVec;

pub(crate) use self::load::Load;
pub(crate) use self::load::copy_run;
use self::loops::Loop;
use super::kernel::Kernel;
use super::operand::{Bases, Operand, ValueId};
use super::run::Line;

/// Where an instruction finds or puts elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Location {
    /// A register: its first byte in the scratch memory.
    Register(u32),
    /// An operand from outside.
    Load(u16),
    /// A number, repeated.
    Number(u16),
    /// A result.
    Store(u16),
}

/// Which elements of an operand a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Extent {
    /// One for each element of the chunk.
    Full,
    /// One for each row.
    PerRow,
    /// A row, the same for all.
    Once,
}

/// A result, in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) value: ValueId,
    pub(crate) size: usize,
    pub(crate) per_row: bool,
    /// Where in the scratch memory the elements of a chunk are, if they are reduced and not stored.
    pub(crate) buffer: Option<usize>,
    /// The store of the same elements, if it is that which is reduced.
    pub(crate) same: Option<usize>,
}

/// A block kernel with its parameters.
#[derive(Clone)]
pub(crate) enum Map {
    Bool(Block<bool>, SmallVec<[bool; 2]>),
    U8(Block<u8>, SmallVec<[u8; 2]>),
    I8(Block<i8>, SmallVec<[i8; 2]>),
    I32(Block<i32>, SmallVec<[i32; 2]>),
    I64(Block<i64>, SmallVec<[i64; 2]>),
    F32(Block<f32>, SmallVec<[f32; 2]>),
    F64(Block<f64>, SmallVec<[f64; 2]>),
}

/// Converts elements from one address to another.
pub(crate) type Convert = unsafe fn(*const u8, *mut u8, usize);

#[derive(Clone)]
pub(crate) enum Action {
    Map(Map),
    Convert(Convert),
    /// Repeats the one element of a row.
    Repeat(usize),
    /// Copies elements of a size in bytes.
    Copy(usize),
    /// Takes elements of a size in bytes from the second operand where the first, of bools, is true, else
    /// from the third.
    Select(usize),
    Row(RowCall, DType),
}

/// One step of a tape.
#[derive(Clone)]
pub(crate) struct Instruction {
    pub(crate) action: Action,
    pub(crate) inputs: SmallVec<[Location; 4]>,
    pub(crate) output: Location,
    /// Whether it works on the one element that there is for each row.
    pub(crate) per_row: bool,
    /// The dtypes of its operands, apart from a mask, and of its result.
    pub(crate) dtypes: [DType; 2],
    /// The row of a block kernel.
    pub(crate) def: Option<&'static PointwiseDef>,
}

/// A program over blocks of elements.
pub(crate) struct Tape {
    /// The elements of the domain.
    pub(crate) numel: usize,
    /// The elements of a row: what is reduced, or after which operands are read elsewhere; `numel` if there
    /// are no rows.
    pub(crate) row: usize,
    /// The most elements of a chunk: part of a row, or several rows.
    pub(crate) chunk: usize,
    pub(crate) loads: Vec<Load>,
    pub(crate) stores: Vec<Store>,
    /// The numbers, each repeated for a whole chunk.
    pub(crate) numbers: Vec<Vec<u64>>,
    pub(crate) instructions: Vec<Instruction>,
    /// The instructions in the order in which they run, some of them as one.
    passes: Vec<Loop>,
    /// The bytes of all registers.
    pub(crate) scratch: usize,
    /// The rows that are read together of operands that are transposed; none if there are no such operands.
    panel_rows: usize,
    /// Runs a chunk instead of the instructions, if it was compiled.
    pub(crate) native: Option<native::Linked>,
}

/// The work, in elements times instructions, from which a second thread pays.
pub(super) const GRAIN: usize = 1 << 15;

/// The elements of the longest chunk that has no registers,
const LONGEST_UNIT: usize = 1 << 17;
/// and how many of those each thread has at least.
const UNITS_EACH: usize = 8;

/// The bytes of rows of a transposed operand that are read together, so that they stay in the second cache.
const PANEL: usize = 1 << 19;

/// The elements of a chunk: `len` from a column of a row on, or whole rows.
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    row: usize,
    column: usize,
    len: usize,
    rows: usize,
    /// The first row of the panels, if they are filled.
    panel: Option<usize>,
}

impl Chunk {
    /// `len` elements from a column of a row on, or of so many whole rows.
    pub(super) fn new(row: usize, column: usize, len: usize, rows: usize) -> Chunk {
        Chunk { row, column, len, rows, panel: None }
    }
}

impl Tape {
    /// Makes a tape whose loads and instructions have their places in `scratch` bytes.
    pub(crate) fn new(
        (numel, row, chunk): (usize, usize, usize),
        (loads, stores): (Vec<Load>, Vec<Store>),
        numbers: Vec<Vec<u64>>,
        (instructions, passes): (Vec<Instruction>, Vec<Loop>),
        scratch: usize,
    ) -> Tape {
        Tape {
            numel,
            row,
            chunk,
            loads,
            stores,
            numbers,
            instructions,
            passes,
            scratch,
            panel_rows: 0,
            native: None,
        }
    }

    /// Makes a tape that copies a window into a value, in row-major order.
    pub(crate) fn copy(x: &Operand, value: ValueId) -> Result<Tape> {
        let (walk, size) = (x.walk(&x.shape)?, x.dtype.size());
        let numel = x.numel().max(1);
        let mut load = Load::new(x, walk);
        let turns = x.numel() > 0 && load.walk.is_turned();
        let is_in_rows = turns || (load.walk.shape.len() > 1 && load.walk.run() >= 64);
        let row = if is_in_rows { load.walk.run() } else { numel };
        let chunk = if turns { (4096 / row).max(1) * row } else { row.min(4096) };
        load.find_grid(row);
        let copy = Instruction {
            action: Action::Copy(size),
            inputs: smallvec::smallvec![Location::Load(0)],
            output: Location::Store(0),
            per_row: false,
            dtypes: [x.dtype; 2],
            def: None,
        };
        let stores = vec![Store { value, size, per_row: false, buffer: None, same: None }];
        let scratch = chunk * size;
        let mut tape = Tape::new(
            (x.numel(), row, chunk),
            (vec![load], stores),
            Vec::new(),
            (vec![copy], vec![Loop::One(0)]),
            scratch,
        );
        tape.read_panels();
        Ok(tape)
    }

    /// Lets some rows of each operand that is transposed be read together, if it is walked in whole rows.
    pub(crate) fn read_panels(&mut self) {
        let row = self.row;
        let is_turned = |load: &&mut Load| {
            load.extent == Extent::Full
                && load.walk.is_turned()
                && load.walk.run() == row
                && load.overwritten.is_none()
        };
        let together = self.chunk / row;
        for load in self.loads.iter_mut().filter(is_turned) {
            let bytes = row * load.size;
            // A line of the cache has elements of so many rows.
            let rows = if together > 1 { together } else { size_of::<Line>() / load.size };
            if rows * bytes > PANEL || (self.panel_rows > 0 && self.panel_rows != rows) {
                continue;
            }
            self.panel_rows = rows;
            load.panel = Some(self.scratch.next_multiple_of(size_of::<Line>()));
            self.scratch = load.panel.unwrap_or(0) + rows * bytes;
        }
    }

    /// Returns about how much work an element is, in additions.
    fn weight(&self) -> usize {
        self.instructions.len().max(1) * 2
    }

    /// Returns whether nothing of a chunk is kept for later, in registers or in the cache, so that it may have
    /// any number of rows.
    fn is_direct(&self) -> bool {
        let is_outside = |spot: &Location| matches!(spot, Location::Load(_) | Location::Store(_));
        let has_slots = self.native.as_ref().is_some_and(native::Linked::has_slots);
        match &self.instructions[..] {
            [Instruction { inputs, output, .. }] => {
                inputs.iter().chain([output]).all(is_outside)
                    && self.loads.iter().all(|load| load.is_direct(self.row))
                    && !has_slots
            }
            _ => false,
        }
    }

    /// Returns the operand that the tape does nothing but copy, if its elements follow each other.
    pub(super) fn copied(&self) -> Option<&Load> {
        match (&self.instructions[..], &self.loads[..]) {
            ([Instruction { action: Action::Copy(_), .. }], [load])
                if load.is_direct(self.row) && self.stores.iter().all(|store| store.buffer.is_some()) =>
            {
                Some(load)
            }
            _ => None,
        }
    }

    /// Returns where a chunk is that was stored.
    pub(super) fn stored(&self, i: usize, bases: Bases<'_>, scratch: *mut u8, chunk: Chunk) -> *const u8 {
        let store = &self.stores[i];
        store.same.map_or(store, |same| &self.stores[same]).place(bases, scratch, chunk, self.row)
    }

    /// Computes the whole domain.
    ///
    /// # Safety
    ///
    /// The loads can be read and the stores written in full, by nobody else; a store shares memory with a
    /// load only if that is marked [`overwritten`](Load::overwritten) and of the same elements.
    unsafe fn run_all(&self, bases: Bases<'_>) {
        if self.numel == 0 {
            return;
        }
        let n_rows = self.numel / self.row;
        let (per_row, mut rows) = (self.row.div_ceil(self.chunk), (self.chunk / self.row).max(1));
        if rows > 1 && n_rows / rows > UNITS_EACH && self.is_direct() {
            rows = rows.max((n_rows / (UNITS_EACH * parallel::threads())).min(LONGEST_UNIT / self.row));
        }
        let n_units = if rows > 1 { n_rows.div_ceil(rows) } else { n_rows * per_row };
        let len = self.numel.div_ceil(n_units);
        let mut at_once = (GRAIN / 2 / (len * self.weight()).max(1)).max(1);
        if self.panel_rows > 0 && rows == 1 {
            // No panel is filled by two tasks.
            at_once = at_once.next_multiple_of(self.panel_rows * per_row);
        }
        let chunk = |i: usize| {
            if rows > 1 {
                let first = i * rows;
                let rows = rows.min(n_rows - first);
                return Chunk { row: first, column: 0, len: rows * self.row, rows, panel: None };
            }
            let column = i % per_row * self.chunk;
            let len = self.chunk.min(self.row - column);
            Chunk { row: i / per_row, column, len, rows: 1, panel: None }
        };
        let run = |chunks: std::ops::Range<usize>| {
            with_scratch(self.scratch, |scratch| {
                let mut panel = None;
                for i in chunks {
                    let mut chunk = chunk(i);
                    if let Some(group) = chunk.row.checked_div(self.panel_rows) {
                        let first = group * self.panel_rows;
                        if panel != Some(first) {
                            panel = Some(first);
                            let rows = first..(first + self.panel_rows).min(n_rows);
                            // SAFETY: the caller's promise.
                            unsafe { self.fill_panels(bases, scratch, rows) };
                        }
                        chunk.panel = panel;
                    }
                    // SAFETY: the caller's promise.
                    unsafe { self.chunk(bases, scratch, chunk) };
                }
            });
        };
        if self.numel * self.weight() < GRAIN || n_units <= at_once {
            return run(0..n_units);
        }
        parallel::each(n_units.div_ceil(at_once), |task| {
            run(task * at_once..((task + 1) * at_once).min(n_units));
        });
    }

    /// Computes the elements `columns` of some rows of a domain that is not cut otherwise, on this thread.
    ///
    /// # Safety
    ///
    /// As for [`run_all`](Self::run_all), for these elements.
    pub(crate) unsafe fn run_part(
        &self,
        bases: Bases<'_>,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
    ) {
        with_scratch(self.scratch, |scratch| {
            let at_once = self.chunk / self.row;
            if at_once > 1 && columns == (0..self.row) {
                for row in rows.clone().step_by(at_once) {
                    let rows = at_once.min(rows.end - row);
                    // SAFETY: the caller's promise.
                    unsafe {
                        self.chunk(
                            bases,
                            scratch,
                            Chunk { row, column: 0, len: rows * self.row, rows, panel: None },
                        )
                    };
                }
                return;
            }
            for row in rows {
                let mut column = columns.start;
                while column < columns.end {
                    let len = self.chunk.min(columns.end - column);
                    // SAFETY: the caller's promise.
                    unsafe { self.chunk(bases, scratch, Chunk { row, column, len, rows: 1, panel: None }) };
                    column += len;
                }
            }
        });
    }

    /// Copies some rows of the operands that are transposed beside each other.
    ///
    /// # Safety
    ///
    /// As for [`run_all`](Self::run_all), and for [`chunk`](Self::chunk).
    unsafe fn fill_panels(&self, bases: Bases<'_>, scratch: *mut u8, rows: std::ops::Range<usize>) {
        for load in &self.loads {
            let Some(panel) = load.panel else { continue };
            let to = scratch.wrapping_add(panel);
            // SAFETY: the caller's promise; the panel has room for so many rows.
            unsafe {
                match load.size {
                    1 => load.turn::<u8>(bases, rows.clone(), to),
                    2 => load.turn::<u16>(bases, rows.clone(), to),
                    4 => load.turn::<u32>(bases, rows.clone(), to),
                    _ => load.turn::<u64>(bases, rows.clone(), to),
                }
            }
        }
    }

    /// Runs the instructions on a chunk.
    ///
    /// # Safety
    ///
    /// As for [`run_all`](Self::run_all), for these elements; `scratch` has the bytes that the tape asks for,
    /// and is aligned to 64.
    pub(super) unsafe fn chunk(&self, bases: Bases<'_>, scratch: *mut u8, chunk: Chunk) {
        if let Some(native) = &self.native {
            // SAFETY: the caller's promise.
            return unsafe { native.chunk(self, bases, scratch, chunk) };
        }
        let mut loads: SmallVec<[*const u8; 8]> = SmallVec::new();
        for load in &self.loads {
            // SAFETY: the caller's promise.
            loads.push(unsafe { load.find(bases, scratch, chunk, self.row) });
        }
        let mut stores: SmallVec<[*mut u8; 4]> = SmallVec::new();
        for store in &self.stores {
            stores.push(store.place(bases, scratch, chunk, self.row));
        }
        let place = |spot: Location| -> *const u8 {
            match spot {
                Location::Register(at) => scratch.wrapping_add(at as usize),
                Location::Load(i) => loads[i as usize],
                Location::Number(i) => self.numbers[i as usize].as_ptr().cast(),
                Location::Store(i) => stores[i as usize],
            }
        };
        for pass in &self.passes {
            let instruction = match pass {
                Loop::One(i) => &self.instructions[*i],
                Loop::Fused(fused) => {
                    // SAFETY: as below.
                    unsafe { fused.run(place, chunk.len) };
                    continue;
                }
            };
            let len = if instruction.per_row { chunk.rows } else { chunk.len };
            let mut inputs = [std::ptr::null(); 4];
            for (input, &spot) in inputs.iter_mut().zip(&instruction.inputs) {
                *input = place(spot);
            }
            let inputs = &inputs[..instruction.inputs.len().min(4)];
            let out = place(instruction.output).cast_mut();
            // SAFETY: inputs and output hold `len` elements of the types of the instruction, or as many as an
            // action on rows reads and writes, and an output is no input: registers are given anew for each
            // result that is alive, and a load that shares memory with a store was copied into a register.
            unsafe { instruction.action.run(inputs, out, len, chunk.rows) };
        }
    }
}

/// What is done to the result of a product or convolution, part by part, while it is in the cache.
#[derive(Default)]
pub(crate) struct EpilogueTape(pub(crate) Option<Tape>);

impl EpilogueTape {
    /// Changes the elements `columns` of some rows, which are complete.
    ///
    /// # Safety
    ///
    /// As for [`Tape::run_part`].
    pub(crate) unsafe fn run(
        &self,
        bases: Bases<'_>,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
    ) {
        if let Some(tape) = &self.0 {
            // SAFETY: the caller's promise.
            unsafe { tape.run_part(bases, rows, columns) };
        }
    }

    /// Returns the values that are read, with those that the kernel itself reads.
    pub(crate) fn reads(&self, own: impl IntoIterator<Item = ValueId>) -> Vec<ValueId> {
        own.into_iter().chain(self.0.iter().flat_map(Tape::reads)).collect()
    }
}

impl std::fmt::Display for EpilogueTape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(tape) => write!(f, ", then {} steps", tape.instructions.len()),
            None => Ok(()),
        }
    }
}

impl Kernel for Tape {
    unsafe fn run(&self, bases: Bases<'_>) {
        // SAFETY: the caller's promise.
        unsafe { self.run_all(bases) }
    }

    fn reads(&self) -> Vec<ValueId> {
        self.loads.iter().map(|load| load.value).collect()
    }

    fn reuses(&self) -> Vec<(ValueId, ValueId)> {
        let is_once = |value: ValueId| self.loads.iter().filter(|load| load.value == value).count() == 1;
        let whole = |load: &&Load| {
            load.extent == Extent::Full && load.offset == 0 && load.walk.is_dense() && is_once(load.value)
        };
        let mut pairs = Vec::new();
        for store in self.stores.iter().filter(|store| !store.per_row && store.buffer.is_none()) {
            let fits = |load: &&Load| load.size == store.size;
            pairs.extend(self.loads.iter().filter(whole).filter(fits).map(|load| (load.value, store.value)));
        }
        pairs
    }

    fn reuse(&mut self, from: ValueId, by: ValueId) {
        for load in self.loads.iter_mut().filter(|load| load.value == from) {
            load.overwritten = Some(by);
        }
    }

    fn tape(&mut self) -> Option<&mut Tape> {
        Some(self)
    }

    fn describe(&self) -> String {
        let rows = if self.row == self.numel { String::new() } else { format!(" in rows of {}", self.row) };
        let passes = match self.passes.len() {
            n if n == self.instructions.len() => String::new(),
            1 => " in one pass".to_owned(),
            n => format!(" in {n} passes"),
        };
        format!(
            "{} steps{passes} over {} elements{rows}, {} at a time",
            self.instructions.len(),
            self.numel,
            self.chunk
        )
    }
}

impl Store {
    /// Returns where the elements of a chunk go.
    fn place(&self, bases: Bases<'_>, scratch: *mut u8, chunk: Chunk, row: usize) -> *mut u8 {
        if let Some(buffer) = self.buffer {
            return scratch.wrapping_add(buffer);
        }
        let at = if self.per_row { chunk.row } else { chunk.row * row + chunk.column };
        bases.at(self.value, at * self.size)
    }
}

impl Action {
    /// # Safety
    ///
    /// Each input holds `len` elements of its type, or as many as the action reads, and `out` has room for as
    /// many as it writes; they do not overlap.
    unsafe fn run(&self, inputs: &[*const u8], out: *mut u8, len: usize, rows: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Action::Map(map) => map.run(inputs, out, len),
                Action::Convert(convert) => convert(inputs[0], out, len),
                Action::Repeat(size) => {
                    for i in 0..rows {
                        let (from, to) = (inputs[0].add(i * size), out.add(i * (len / rows) * size));
                        copy_run(from, to, 0, len / rows, *size);
                    }
                }
                Action::Copy(size) => std::ptr::copy_nonoverlapping(inputs[0], out, len * size),
                Action::Select(size) => match size {
                    1 => select::<u8>(inputs, out, len),
                    2 => select::<u16>(inputs, out, len),
                    4 => select::<u32>(inputs, out, len),
                    _ => select::<u64>(inputs, out, len),
                },
                Action::Row(call, DType::F64) => each_row::<f64>(call, inputs, out, len, rows),
                Action::Row(call, _) => each_row::<f32>(call, inputs, out, len, rows),
            }
        }
    }
}

impl Map {
    unsafe fn run(&self, inputs: &[*const u8], out: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Map::Bool(block, params) => map(*block, params, inputs, out, len),
                Map::U8(block, params) => map(*block, params, inputs, out, len),
                Map::I8(block, params) => map(*block, params, inputs, out, len),
                Map::I32(block, params) => map(*block, params, inputs, out, len),
                Map::I64(block, params) => map(*block, params, inputs, out, len),
                Map::F32(block, params) => map(*block, params, inputs, out, len),
                Map::F64(block, params) => map(*block, params, inputs, out, len),
            }
        }
    }
}

unsafe fn map<T: Copy>(block: Block<T>, params: &[T], inputs: &[*const u8], out: *mut u8, len: usize) {
    // SAFETY: the caller promises `len` elements of `T` at each input, and room for as many results.
    unsafe {
        let input = |from: &*const u8| std::slice::from_raw_parts(from.cast::<T>(), len);
        let inputs: SmallVec<[&[T]; 4]> = inputs.iter().map(input).collect();
        match block {
            Block::Same(kernel) => {
                kernel(&inputs, params, UninitSlice::over(std::slice::from_raw_parts_mut(out.cast(), len)));
            }
            Block::Bool(kernel) => {
                kernel(&inputs, params, UninitSlice::over(std::slice::from_raw_parts_mut(out.cast(), len)));
            }
        }
    }
}

unsafe fn select<T: Copy>(inputs: &[*const u8], out: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let mask = std::slice::from_raw_parts(inputs[0].cast::<bool>(), len);
        let [yes, no] = [1, 2].map(|i| std::slice::from_raw_parts(inputs[i].cast::<T>(), len));
        fx_simd::call::<crate::ops::view::choose_each, _>((
            mask,
            yes,
            no,
            std::slice::from_raw_parts_mut(out.cast(), len),
        ));
    }
}

/// Runs an action on each row; operands after the first are the same for all.
unsafe fn each_row<T: rowwise::Compute>(
    call: &RowCall,
    inputs: &[*const u8],
    out: *mut u8,
    len: usize,
    n_rows: usize,
) {
    let width = len / n_rows;
    let n_out = if call.reduces() { n_rows } else { len };
    // SAFETY: the caller's promise.
    unsafe {
        let elements = |from: *const u8, n: usize| std::slice::from_raw_parts(from.cast::<T>(), n);
        let others: SmallVec<[&[T]; 4]> = inputs[1..].iter().map(|from| elements(*from, width)).collect();
        let out = std::slice::from_raw_parts_mut(out.cast::<T>(), n_out);
        call.run(elements(inputs[0], len), width, &others, out);
    }
}

/// Returns the function that converts between two dtypes.
pub(crate) fn converter(from: DType, to: DType) -> Convert {
    unsafe fn convert<S: Cast<D>, D: Element>(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller promises `len` elements at both.
        unsafe {
            let from = std::slice::from_raw_parts(from.cast::<S>(), len);
            fx_core::array::convert(
                from,
                UninitSlice::over(std::slice::from_raw_parts_mut(to.cast::<D>(), len)),
            );
        }
    }
    macro_rules! to {
        ($from:ty) => {
            match to {
                DType::Bool => convert::<$from, bool>,
                DType::U8 => convert::<$from, u8>,
                DType::I8 => convert::<$from, i8>,
                DType::I32 => convert::<$from, i32>,
                DType::I64 => convert::<$from, i64>,
                DType::F32 => convert::<$from, f32>,
                DType::F64 => convert::<$from, f64>,
                DType::F16 => convert::<$from, f16>,
                DType::BF16 => convert::<$from, bf16>,
            }
        };
    }
    match from {
        DType::Bool => to!(bool),
        DType::U8 => to!(u8),
        DType::I8 => to!(i8),
        DType::I32 => to!(i32),
        DType::I64 => to!(i64),
        DType::F32 => to!(f32),
        DType::F64 => to!(f64),
        DType::F16 => to!(f16),
        DType::BF16 => to!(bf16),
    }
}

/// Lends scratch memory of some bytes, which the thread keeps for the next time; a use inside of a use gets
/// memory of its own.
pub(super) fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    thread_local! {
        static KEPT: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    }
    let mut lines = KEPT.take();
    let n = bytes.div_ceil(size_of::<Line>());
    if lines.len() < n {
        lines.resize(n, Line([0; 64]));
    }
    let result = f(lines.as_mut_ptr().cast());
    KEPT.replace(lines);
    result
}
