//! Makes a tape of a draft, for the sizes of a plan: registers and loads, places for them, and the length of
//! a chunk.

use fx_core::array::Sizes;
use fx_core::loops::Work;
use fx_core::{DType, Result, Scalar};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::draft::{self, Draft, Node, bits_of};
use super::loops::{FusedRange, Loop, join};
use super::{Action, Extent, Instruction, Load, Location, Store, Tape, converter};
use crate::engine::operand::{Layout, Operand, ValueId};
use crate::engine::record::Instance;
use crate::fusible::LONGEST_ROW;

/// The bytes of registers that a chunk may have in the first cache.
const CACHE: usize = 32 << 10;

/// The most and the fewest elements of a chunk that is no row.
const CHUNK: std::ops::RangeInclusive<usize> = 256..=4096;

/// The elements that short rows have together in a chunk,
const ROWS: usize = 1024;
/// if they are only read,
const ROWS_READ: usize = 1 << 13;
/// and if there is only one instruction.
const ROWS_ALONE: usize = 1 << 15;

/// Runs of operands shorter than this are gathered.
const SHORTEST_RUN: usize = 64;

/// What a value of the group is: its elements are those of the domain, or one for each row.
#[derive(Clone)]
struct Found<'a> {
    /// A virtual register, or a load.
    what: VirtualOperand,
    dtype: DType,
    shape: &'a [usize],
    per_row: bool,
    /// Whether it is reduced by somebody else; what the tape gives has the shape of the domain.
    is_reduced: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum VirtualOperand {
    Virtual(u32),
    Outside(u32),
}

/// A register before it has a place.
struct Register {
    per_row: bool,
    size: usize,
}

struct Builder<'a> {
    operands: SmallVec<[&'a Operand; 4]>,
    domain: &'a [usize],
    /// The order in which the axes of the domain are walked.
    layout: Layout,
    numel: usize,
    row: usize,
    has_rows: bool,
    /// How many of the last axes make a row.
    n_axes: usize,
    /// The elements of the axes behind those that results are reduced over.
    inner: Option<usize>,
    registers: Vec<Register>,
    /// Instructions on virtual registers (`Location::Register` is their number).
    instructions: Vec<Instruction>,
    loads: Vec<Load>,
    /// Which operand each load is of, and of what shape if it is not that of the domain.
    load_keys: SmallVec<[(u32, Extent, Sizes); 4]>,
    numbers: Vec<(u64, usize)>,
    converted: SmallVec<[(VirtualOperand, DType, bool, u32); 4]>,
    repeated: SmallVec<[(u32, u32); 4]>,
}

fn product(sizes: &[usize]) -> usize {
    sizes.iter().product()
}

impl Draft {
    /// Makes the tape for the sizes of a plan; `None` if there is none for these.
    pub(crate) fn build(&self, instance: &Instance) -> Result<Option<Tape>> {
        let shapes = self.nodes.iter().map(|node| instance.sizes(&node.shape));
        let shapes = shapes.collect::<Result<SmallVec<[Sizes; 8]>>>()?;
        let mut operands: SmallVec<[&Operand; 4]> = SmallVec::new();
        let mut found: SmallVec<[Found<'_>; 8]> = SmallVec::new();
        for (i, id) in self.outside.iter().enumerate() {
            let operand = instance.operand(*id)?;
            let what = VirtualOperand::Outside(i as u32);
            found.push(Found {
                what,
                dtype: operand.dtype,
                shape: &operand.shape,
                per_row: false,
                is_reduced: false,
            });
            operands.push(operand);
        }
        // The domain is that of the largest result, or of what is reduced.
        let mut domain: Option<&[usize]> = None;
        let shape_of = |operand: draft::Operand| match operand {
            draft::Operand::Load(i) => found.get(i as usize).map(|found| found.shape),
            draft::Operand::Step(i) => shapes.get(i as usize).map(|shape| &shape[..]),
            _ => None,
        };
        let size = |sizes: &[usize]| (product(sizes), sizes.len());
        for (node, shape) in self.nodes.iter().zip(&shapes) {
            let is_reduced =
                matches!(node.kernel, draft::Kernel::Columns(_)) || matches!(node.step.work, Work::Row(_));
            let rows = node.step.operands.first().filter(|_| is_reduced).and_then(|x| shape_of(*x));
            for shape in rows.into_iter().chain([&shape[..]]) {
                if domain.is_none_or(|old| size(shape) > size(old)) {
                    domain = Some(shape);
                }
            }
        }
        let Some(domain) = domain else { return Ok(None) };
        if self.anchor.is_some_and(|(anchor, _)| shape_of(anchor) != Some(domain))
            || domain.len() < self.n_axes
        {
            return Ok(None);
        }
        let (numel, has_rows) = (product(domain), self.n_axes > 0);
        let row = product(&domain[domain.len() - self.n_axes..]);
        if has_rows && (row == 0 || row > LONGEST_ROW || self.layout != Layout::RowMajor) {
            return Ok(None);
        }
        let inner = match &self.reduced {
            None => None,
            Some((axes, shape)) if instance.sizes(shape)?[..] == *domain && numel > 0 => {
                Some(product(&domain[axes.end..]))
            }
            Some(_) => return Ok(None),
        };
        let mut builder = Builder {
            inner,
            operands,
            numel,
            row: if has_rows { row } else { numel },
            has_rows,
            n_axes: self.n_axes,
            domain,
            layout: self.layout,
            registers: Vec::new(),
            instructions: Vec::with_capacity(self.nodes.len()),
            loads: Vec::new(),
            load_keys: SmallVec::new(),
            numbers: Vec::new(),
            converted: SmallVec::new(),
            repeated: SmallVec::new(),
        };
        for (node, shape) in self.nodes.iter().zip(&shapes) {
            let Some(value) = builder.node(self, node, shape, &found, instance)? else { return Ok(None) };
            found.push(value);
        }
        let result = |operand: &draft::Operand| found.get(self.index(*operand)?);
        let results = self.returned.iter().map(result).collect::<Option<SmallVec<[&Found<'_>; 2]>>>();
        let Some(results) = results else { return Ok(None) };
        if self.layout != Layout::RowMajor && results.iter().any(|value| value.shape != builder.domain) {
            return Ok(None);
        }
        let is_whole = |(value, store): (&&Found<'_>, &ValueId)| {
            product(value.shape) == instance.values[*store as usize].numel
        };
        if !results.iter().zip(&self.stores).all(is_whole) {
            return Ok(None);
        }
        builder.finish(&results, &self.stores, self.anchor.map(|(_, axes)| axes))
    }
}

impl<'a> Builder<'a> {
    fn register(&mut self, per_row: bool, size: usize) -> u32 {
        self.registers.push(Register { per_row, size });
        self.registers.len() as u32 - 1
    }

    fn number(&mut self, bits: u64, size: usize) -> Location {
        let at = self.numbers.iter().position(|number| *number == (bits, size)).unwrap_or_else(|| {
            self.numbers.push((bits, size));
            self.numbers.len() - 1
        });
        Location::Number(at as u16)
    }

    /// Returns the shape of a value that has one element for each row, if `shape` is that.
    fn is_per_row(&self, shape: &[usize]) -> bool {
        self.has_rows && self.row != 1 && product(shape) * self.row == self.numel
    }

    fn node(
        &mut self,
        draft: &Draft,
        node: &Node,
        shape: &'a [usize],
        found: &[Found<'a>],
        instance: &Instance,
    ) -> Result<Option<Found<'a>>> {
        let step = &node.step;
        let (mut inputs, dtype) = (SmallVec::new(), step.dtype);
        let value = |operand: &draft::Operand| found.get(draft.index(*operand)?);
        if let Work::Row(call) = step.work {
            for (i, operand) in step.operands.iter().enumerate() {
                let Some(operand) = value(operand) else { return Ok(None) };
                if i == 0 && operand.shape != self.domain {
                    return Ok(None);
                }
                let spot = match (i, operand.what) {
                    (0, _) => self.full(operand)?,
                    // Weight and bias are the same for all rows.
                    (_, VirtualOperand::Outside(at)) => {
                        let shape = &self.domain[self.domain.len() - self.n_axes..];
                        Some(self.load(at, Extent::Once, shape)?)
                    }
                    _ => None,
                };
                let Some(spot) = spot else { return Ok(None) };
                inputs.push(spot);
            }
            let per_row = call.reduces();
            let out = self.register(per_row, dtype.size());
            self.push(Action::Row(call, dtype), inputs, out, false, [dtype; 2]);
            let what = VirtualOperand::Virtual(out);
            return Ok(Some(Found { what, dtype, shape, per_row, is_reduced: false }));
        }
        if let (draft::Kernel::Columns(_), [operand]) = (&node.kernel, &step.operands[..]) {
            let Some(operand) = value(operand) else { return Ok(None) };
            let is_whole = operand.shape == self.domain && !operand.is_reduced;
            return Ok(is_whole.then(|| Found { shape, is_reduced: true, ..operand.clone() }));
        }
        let per_row = match () {
            () if shape == self.domain => false,
            () if self.is_per_row(shape) => true,
            () => return Ok(None),
        };
        for (i, operand) in step.operands.iter().enumerate() {
            let wanted = step.operand_dtype(i);
            let spot = match *operand {
                draft::Operand::Number(bits) => Some(self.number(bits, wanted.size())),
                draft::Operand::Size(i) => {
                    let size = Scalar::Int(instance.number(draft.sizes[i as usize]));
                    Some(self.number(bits_of(size, wanted), wanted.size()))
                }
                _ => match value(operand) {
                    Some(operand) => self.operand(operand, wanted, per_row, shape)?,
                    None => None,
                },
            };
            let Some(spot) = spot else { return Ok(None) };
            inputs.push(spot);
        }
        let dtypes = [step.from, dtype];
        let (action, def) = match (&node.kernel, step.work) {
            (draft::Kernel::Map(map), Work::Map(def)) => (Action::Map(map.clone()), Some(def)),
            (_, Work::Convert) if step.from == dtype => (Action::Copy(dtype.size()), None),
            (_, Work::Convert) => (Action::Convert(converter(step.from, dtype)), None),
            (_, Work::Select) => (Action::Select(dtype.size()), None),
            _ => return Ok(None),
        };
        let out = self.register(per_row, dtypes[1].size());
        self.push(action, inputs, out, per_row, dtypes);
        if let Some(instruction) = self.instructions.last_mut() {
            instruction.def = def;
        }
        Ok(Some(Found { what: VirtualOperand::Virtual(out), dtype, shape, per_row, is_reduced: false }))
    }

    fn push(
        &mut self,
        action: Action,
        inputs: SmallVec<[Location; 4]>,
        out: u32,
        per_row: bool,
        dtypes: [DType; 2],
    ) {
        let output = Location::Register(out);
        self.instructions.push(Instruction { action, inputs, output, per_row, dtypes, def: None });
    }

    /// Returns where an operand is, converted to `dtype` and broadcast to the result's shape.
    fn operand(
        &mut self,
        value: &Found<'_>,
        dtype: DType,
        per_row: bool,
        shape: &[usize],
    ) -> Result<Option<Location>> {
        let spot = match (value.what, per_row) {
            (VirtualOperand::Outside(i), true) => self.load(i, Extent::PerRow, shape)?,
            (VirtualOperand::Outside(i), false) => self.load(i, Extent::Full, shape)?,
            (VirtualOperand::Virtual(register), true) if value.per_row => Location::Register(register),
            (VirtualOperand::Virtual(_), true) => return Ok(None),
            (VirtualOperand::Virtual(_), false) => match self.full(value)? {
                Some(spot) => spot,
                None => return Ok(None),
            },
        };
        if value.dtype == dtype {
            return Ok(Some(spot));
        }
        let key = match spot {
            Location::Register(i) => VirtualOperand::Virtual(i),
            Location::Load(i) => VirtualOperand::Outside(u32::from(i)),
            _ => return Ok(None),
        };
        let is_that = |(what, to, rows, _): &&(VirtualOperand, DType, bool, u32)| {
            (*what, *to, *rows) == (key, dtype, per_row)
        };
        if let Some((_, _, _, register)) = self.converted.iter().find(is_that) {
            return Ok(Some(Location::Register(*register)));
        }
        let out = self.register(per_row, dtype.size());
        let dtypes = [value.dtype, dtype];
        self.push(
            Action::Convert(converter(value.dtype, dtype)),
            SmallVec::from_iter([spot]),
            out,
            per_row,
            dtypes,
        );
        self.converted.push((key, dtype, per_row, out));
        Ok(Some(Location::Register(out)))
    }

    /// Returns where an operand of the whole domain is; one with an element for each row is repeated.
    fn full(&mut self, value: &Found<'_>) -> Result<Option<Location>> {
        let register = match value.what {
            VirtualOperand::Outside(i) => return self.load(i, Extent::Full, self.domain).map(Some),
            VirtualOperand::Virtual(register) if !value.per_row => {
                return Ok(Some(Location::Register(register)));
            }
            VirtualOperand::Virtual(register) => register,
        };
        // Its axes must be those of the domain, with the reduced ones of size one.
        let shape = value.shape;
        let kept = self.domain.len() - self.n_axes;
        if shape.len() != self.domain.len() || shape[..kept] != self.domain[..kept] {
            return Ok(None);
        }
        if let Some((_, full)) = self.repeated.iter().find(|(of, _)| *of == register) {
            return Ok(Some(Location::Register(*full)));
        }
        let size = self.registers[register as usize].size;
        let out = self.register(false, size);
        let inputs = SmallVec::from_iter([Location::Register(register)]);
        self.push(Action::Repeat(size), inputs, out, false, [value.dtype; 2]);
        self.repeated.push((register, out));
        Ok(Some(Location::Register(out)))
    }

    fn load(&mut self, i: u32, extent: Extent, shape: &[usize]) -> Result<Location> {
        let key = (i, extent, if extent == Extent::PerRow { shape.into() } else { Sizes::new() });
        if let Some(at) = self.load_keys.iter().position(|other| *other == key) {
            return Ok(Location::Load(at as u16));
        }
        let operand = self.operands[i as usize];
        let layout = if extent == Extent::Full { self.layout } else { Layout::RowMajor };
        let mut load = Load::new(operand, operand.walk_in(shape, layout)?);
        load.extent = extent;
        // The register is a virtual one until places are given out.
        load.register = self.register(extent == Extent::PerRow, load.size);
        self.loads.push(load);
        self.load_keys.push(key);
        Ok(Location::Load(self.loads.len() as u16 - 1))
    }

    /// Gives out places: results are written where they belong, other registers are shared by values that are
    /// not alive together.
    fn finish(
        mut self,
        results: &[&Found<'_>],
        stores: &[ValueId],
        part: Option<usize>,
    ) -> Result<Option<Tape>> {
        let mut places: FxHashMap<u32, Location> = FxHashMap::default();
        let store = |(result, &value): (&&Found<'_>, &ValueId)| {
            let (size, per_row) = (result.dtype.size(), result.per_row);
            Store { value, size, per_row, buffer: None, same: None }
        };
        let mut list: Vec<Store> = results.iter().zip(stores).map(store).collect();
        // What is reduced can be read where it is stored as well.
        let is_reduced = |i: &usize| results[*i].is_reduced;
        let order =
            (0..results.len()).filter(|i| !is_reduced(i)).chain((0..results.len()).filter(is_reduced));
        for i in order {
            let (result, value, spot) = (results[i], stores[i], Location::Store(i as u16));
            list[i].buffer = result.is_reduced.then_some(0);
            let input = match result.what {
                VirtualOperand::Virtual(register) => match places.get(&register) {
                    None => {
                        places.insert(register, spot);
                        continue;
                    }
                    Some(&Location::Store(same)) if result.is_reduced => {
                        (list[i].buffer, list[i].same) = (None, Some(same as usize));
                        continue;
                    }
                    Some(_) => Location::Register(register),
                },
                VirtualOperand::Outside(i) if self.operands[i as usize].value == value => continue,
                VirtualOperand::Outside(_) if result.shape != self.domain && !result.is_reduced => {
                    return Ok(None);
                }
                VirtualOperand::Outside(i) => self.load(i, Extent::Full, self.domain)?,
            };
            // A value that is returned twice, or not computed here, is copied.
            self.instructions.push(Instruction {
                action: Action::Copy(result.dtype.size()),
                inputs: SmallVec::from_iter([input]),
                output: spot,
                per_row: result.per_row,
                dtypes: [result.dtype; 2],
                def: None,
            });
        }
        // The length of a chunk: a row, or as much as the registers allow, in step with the runs of the operands.
        let widest = self.registers.iter().map(|register| register.size).max().unwrap_or(8);
        let (mut row, mut turns) = (self.row, false);
        if !self.has_rows {
            let run = |load: &Load| if load.walk.shape.len() <= 1 { self.numel } else { load.walk.run() };
            let shortest = self.loads.iter().map(run).min().unwrap_or(self.numel);
            let is_turned = |load: &Load| load.extent == Extent::Full && load.walk.is_turned();
            turns = part.is_none()
                && self.inner.is_none()
                && self.loads.iter().any(|load| is_turned(load) && run(load) == shortest);
            if let Some(inner) = self.inner {
                row = inner;
            } else if let Some(axes) = part {
                row = self.layout.arrange(self.domain)[self.domain.len() - axes..].iter().product();
            } else if turns || shortest >= SHORTEST_RUN {
                row = shortest;
            }
        }
        let row = row.max(1);
        let parts = join(&mut self.instructions, |register| places.contains_key(&register));
        let (registers, n_full) = self.assign(&parts, &mut places);
        // Several rows, if they are short.
        let is_short = |instruction: &Instruction| match instruction.action {
            Action::Row(kind, _) => kind.reduces(),
            _ => instruction.per_row,
        };
        let most = match &self.instructions[..] {
            [_] => ROWS_ALONE,
            all if all.iter().all(is_short) => ROWS_READ,
            _ => ROWS,
        };
        let mut chunk = (most / row).max(1) * row;
        if !self.has_rows {
            let most = (CACHE / widest / (n_full + 1)).clamp(*CHUNK.start(), *CHUNK.end());
            chunk = row.div_ceil(row.div_ceil(most)).next_multiple_of(16).min(row);
            if (part.is_some() || turns || self.inner.is_some()) && chunk == row {
                chunk *= (most / row).max(1);
            }
        }
        let bytes = |n: usize, size: usize| (n * size).next_multiple_of(64);
        let mut offsets = Vec::with_capacity(registers.len());
        let mut scratch = 0;
        for (per_row, size) in &registers {
            offsets.push(scratch as u32);
            scratch += bytes(if *per_row { chunk.div_ceil(row) } else { chunk }, *size);
        }
        for store in &mut list {
            if let Some(buffer) = &mut store.buffer {
                *buffer = scratch;
                scratch += bytes(chunk, store.size);
            }
        }
        let place = |spot: Location| match spot {
            Location::Register(i) => match places.get(&i) {
                Some(&Location::Register(slot)) => Location::Register(offsets[slot as usize]),
                Some(other) => *other,
                None => Location::Register(0),
            },
            other => other,
        };
        for load in &mut self.loads {
            if let Location::Register(at) = place(Location::Register(load.register)) {
                load.register = at;
            }
        }
        for instruction in &mut self.instructions {
            instruction.inputs.iter_mut().for_each(|spot| *spot = place(*spot));
            instruction.output = place(instruction.output);
        }
        let repeat = |&(bits, size): &(u64, usize)| -> Vec<u64> {
            let word = match size {
                1 => (bits & 0xff) * 0x0101_0101_0101_0101,
                2 => (bits & 0xffff) * 0x0001_0001_0001_0001,
                4 => (bits & 0xffff_ffff) * 0x0000_0001_0000_0001,
                _ => bits,
            };
            vec![word; (chunk * size).div_ceil(8).max(1)]
        };
        for load in &mut self.loads {
            load.find_grid(row);
            // The product before an epilogue is where its result goes.
            load.overwritten = list.iter().any(|store| store.value == load.value).then_some(load.value);
        }
        let numbers = self.numbers.iter().map(repeat).collect();
        let domain = (self.numel, row, chunk);
        let passes = parts.iter().map(|part| Loop::new(part, &self.instructions)).collect();
        let mut tape = Tape::new(domain, (self.loads, list), numbers, (self.instructions, passes), scratch);
        if turns {
            tape.read_panels();
        }
        Ok(Some(tape))
    }

    /// Gives a slot to every register that has no place yet; returns the slots and how many are for whole
    /// chunks and written.
    fn assign(
        &self,
        parts: &[FusedRange],
        places: &mut FxHashMap<u32, Location>,
    ) -> (Vec<(bool, usize)>, usize) {
        let n = self.instructions.len();
        let is_load = |i: usize| self.loads.iter().any(|load| load.register as usize == i);
        let mut last = vec![0usize; self.registers.len()];
        let mut first = vec![usize::MAX; self.registers.len()];
        // What runs as one happens at one time.
        let timed = parts.iter().enumerate().flat_map(|(time, part)| {
            self.instructions[part.instructions.clone()].iter().map(move |instruction| (time, instruction))
        });
        for (i, instruction) in timed {
            for spot in &instruction.inputs {
                match spot {
                    Location::Register(register) => last[*register as usize] = i,
                    // Operands from outside are gathered before the first instruction.
                    Location::Load(at) => {
                        let register = self.loads[*at as usize].register as usize;
                        first[register] = 0;
                        last[register] = i;
                    }
                    _ => {}
                }
            }
            if let Location::Register(register) = instruction.output {
                first[register as usize] = first[register as usize].min(i);
            }
        }
        // What is written and read by one pass has a slot for those alone who run the instructions otherwise.
        let is_inner = |i: usize| first[i] == last[i] && !is_load(i);
        let mut slots: Vec<(bool, usize)> = Vec::new();
        let mut are_inner: Vec<bool> = Vec::new();
        // When each slot is free again.
        let mut busy: Vec<usize> = Vec::new();
        let mut order: Vec<usize> = (0..self.registers.len()).filter(|&i| first[i] <= n).collect();
        order.sort_by_key(|&i| (first[i], !is_load(i)));
        for i in order {
            if places.contains_key(&(i as u32)) {
                continue;
            }
            let register = &self.registers[i];
            // Loads are all there at once, before the first instruction.
            let begins = if is_load(i) { 0 } else { first[i] + 1 };
            let free = (0..slots.len()).find(|&slot| {
                slots[slot] == (register.per_row, register.size)
                    && are_inner[slot] == is_inner(i)
                    && busy[slot] < begins
                    && begins > 0
            });
            let slot = free.unwrap_or_else(|| {
                slots.push((register.per_row, register.size));
                are_inner.push(is_inner(i));
                busy.push(0);
                slots.len() - 1
            });
            busy[slot] = last[i].max(first[i]) + 1;
            places.insert(i as u32, Location::Register(slot as u32));
        }
        let n_full = slots.iter().zip(&are_inner).filter(|((per_row, _), inner)| !per_row && !*inner).count();
        (slots, n_full)
    }
}
