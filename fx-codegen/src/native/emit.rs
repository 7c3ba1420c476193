//! Writes a loop body as a Rust function: chains of pointwise steps as single loops whose values stay in
//! registers, and calls of the engine between them.
//!
//! Steps are put into *segments*: a loop over the elements of a chunk, one over its rows, or a step of the
//! engine. A value that is used in another segment than its own has memory, a result's or a slot. No name of
//! a graph reaches the text: it is made of the bodies of rows, dtypes and numbers.

use std::fmt::Write;

use fx_core::DType;
use fx_core::loops::{Operand, Step, Work};
use fx_core::native::{self, Access, Given, LoopBody, Slot};

use super::body;
use crate::expression::{expression, is_half};

/// A function as text, and what it wants to be given.
#[derive(Debug)]
pub(super) struct Emitted {
    /// The items of a module; `run` is the function.
    pub(super) text: String,
    pub(super) loads: Vec<Given>,
    pub(super) slots: Vec<Slot>,
    pub(super) numbers: Vec<u64>,
    pub(super) calls_engine: bool,
}

/// The weight of a loop beyond which it is cut: a processor does not see from one element to the next over a
/// longer chain, so that it waits for each step, and optimisers take long.
const HEAVIEST: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// In a loop over rows.
    PerRow,
    /// In a loop over elements.
    Full,
    /// The engine's.
    Host,
    /// Nobody needs it.
    Dead,
}

/// An operand as a step reads it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Read {
    /// An element of the same extent.
    Step(usize),
    /// The element of the row.
    Repeated(usize),
    Load(usize),
    Number(u64),
}

/// The memory of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Home {
    Store(u16),
    Slot(usize),
}

struct Segment {
    kind: Kind,
    steps: Vec<usize>,
}

/// Writes a loop body; `None` if nothing of it is computed in loops, or if it has a step that it should not have.
pub(super) fn emit(code: &LoopBody) -> Option<Emitted> {
    let kinds = kinds(code)?;
    let computes = |work: Work| matches!(work, Work::Map(_) | Work::Convert | Work::Select);
    let is_loop = |kind: Kind| matches!(kind, Kind::Full | Kind::PerRow);
    if !code.steps.iter().zip(&kinds).any(|(step, &kind)| is_loop(kind) && computes(step.step.work)) {
        return None;
    }
    let segments = segments(code, &kinds);
    let mut emitter = Emitter::new(code, &kinds, &segments);
    let mut calls = String::new();
    let mut items = String::new();
    for (number, segment) in segments.iter().enumerate() {
        match segment.kind {
            Kind::Host => emitter.host(segment.steps[0], &mut calls),
            _ => emitter.segment(number, segment, &mut items, &mut calls),
        }
    }
    let text = format!(
        "{items}pub unsafe extern \"C\" fn run(c: &Call) {{\n    unsafe {{\n        let (len, rows) = (c.len, c.rows);\n        \
         let width = len / rows;\n{calls}    }}\n}}\n"
    );
    let calls_engine = segments.iter().any(|segment| segment.kind == Kind::Host);
    let Emitter { given, slots, numbers, .. } = emitter;
    Some(Emitted { text, loads: given, slots, numbers, calls_engine })
}

/// Returns the type of the elements of a dtype; halves are only copied.
fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 | DType::BF16 => "u16",
        dtype => dtype.name(),
    }
}

/// Returns whether a step can be a part of a loop.
fn has_text(step: &Step<u64>) -> bool {
    match step.work {
        Work::Map(def) => {
            let is_plain = || def.source(step.from).is_some_and(|text| body::stands_alone(def, text).is_ok());
            !is_half(step.from) && !def.is_whole(step.from) && is_plain()
        }
        Work::Convert | Work::Select => !is_half(step.from) && !is_half(step.dtype),
        Work::Repeat | Work::Copy => true,
        Work::Row(_) | Work::Host => false,
    }
}

/// Returns how a step reads an operand; `None` if it cannot.
fn read(code: &LoopBody, operand: Operand<u64>, per_row: bool, by_engine: bool) -> Option<Read> {
    Some(match operand {
        Operand::Load(i) => Read::Load(i as usize),
        Operand::Number(bits) => Read::Number(bits),
        // Sizes are numbers when a tape is made.
        Operand::Size(_) => return None,
        Operand::Step(i) if by_engine => Read::Step(i as usize),
        Operand::Step(i) => {
            let from = code.steps.get(i as usize)?;
            match (from.step.work, from.step.operands.first()) {
                // It is read where it lies.
                (Work::Repeat, Some(Operand::Step(from))) if !per_row => Read::Repeated(*from as usize),
                (Work::Repeat, _) => return None,
                _ if from.per_row && !per_row => Read::Repeated(i as usize),
                _ => Read::Step(i as usize),
            }
        }
    })
}

fn reads(code: &LoopBody, i: usize, kind: Kind) -> impl Iterator<Item = Read> {
    let native::Step { step, per_row, .. } = &code.steps[i];
    step.operands.iter().filter_map(move |&operand| read(code, operand, *per_row, kind == Kind::Host))
}

/// Says in what kind of segment each step is; `None` if a step needs what it cannot read.
fn kinds(code: &LoopBody) -> Option<Vec<Kind>> {
    let mut kinds = vec![Kind::Dead; code.steps.len()];
    let mut needed: Vec<bool> = code.steps.iter().map(|step| step.store.is_some()).collect();
    for (i, step) in code.steps.iter().enumerate().rev() {
        if !needed[i] {
            continue;
        }
        kinds[i] = match () {
            () if !has_text(&step.step) => Kind::Host,
            () if step.per_row => Kind::PerRow,
            () => Kind::Full,
        };
        for &operand in &step.step.operands {
            match read(code, operand, step.per_row, kinds[i] == Kind::Host)? {
                Read::Step(from) | Read::Repeated(from) if from >= i => return None,
                Read::Step(from) | Read::Repeated(from) => needed[from] = true,
                Read::Load(at) => _ = code.loads.get(at)?,
                Read::Number(_) => {}
            }
        }
    }
    Some(kinds)
}

/// Returns whether a value can pass from a step to another one in a register.
fn is_fused(kinds: &[Kind], from: usize, to: usize, read: Read) -> bool {
    kinds[from] == kinds[to] && kinds[to] != Kind::Host && matches!(read, Read::Step(_))
}

/// Puts steps into segments: each as early as its operands allow, but then as late as its users allow.
fn segments(code: &LoopBody, kinds: &[Kind]) -> Vec<Segment> {
    let alive = || (0..kinds.len()).filter(|&i| kinds[i] != Kind::Dead);
    let source = |read: Read| match read {
        Read::Step(from) | Read::Repeated(from) => Some(from),
        _ => None,
    };
    let mut levels = vec![0usize; kinds.len()];
    for i in alive() {
        for read in reads(code, i, kinds[i]) {
            if let Some(from) = source(read) {
                levels[i] = levels[i].max(levels[from] + usize::from(!is_fused(kinds, from, i, read)));
            }
        }
    }
    let mut latest = vec![usize::MAX; kinds.len()];
    for i in alive().rev() {
        if code.steps[i].store.is_none() {
            levels[i] = latest[i];
        }
        for read in reads(code, i, kinds[i]) {
            if let Some(from) = source(read) {
                let level = levels[i] - usize::from(!is_fused(kinds, from, i, read));
                latest[from] = latest[from].min(level);
            }
        }
    }
    let n_levels = alive().map(|i| levels[i] + 1).max().unwrap_or(0);
    let mut by_level: Vec<[Vec<usize>; 3]> = vec![Default::default(); n_levels];
    alive().for_each(|i| by_level[levels[i]][kinds[i] as usize].push(i));
    let mut segments = Vec::new();
    for [per_row, full, host] in by_level {
        for (kind, steps) in [(Kind::PerRow, per_row), (Kind::Full, full)] {
            let (mut part, mut weight) = (Vec::new(), 0);
            for i in steps {
                let own = weight_of(&code.steps[i].step);
                if weight + own > HEAVIEST && !part.is_empty() {
                    segments.push(Segment { kind, steps: std::mem::take(&mut part) });
                    weight = 0;
                }
                weight += own;
                part.push(i);
            }
            if !part.is_empty() {
                segments.push(Segment { kind, steps: part });
            }
        }
        segments.extend(host.into_iter().map(|i| Segment { kind: Kind::Host, steps: vec![i] }));
    }
    segments
}

/// Returns about how much code a step is, in additions.
fn weight_of(step: &Step<u64>) -> usize {
    match step.work {
        Work::Map(def) => {
            let text = def.source(step.from).unwrap_or_default();
            1 + text.len() / 40 + 8 * body::calls(text)
        }
        _ => 1,
    }
}

struct Emitter<'a> {
    code: &'a LoopBody,
    given: Vec<Given>,
    /// The loads that are read where the result that overwrites them is.
    overwritten: Vec<bool>,
    homes: Vec<Option<Home>>,
    slots: Vec<Slot>,
    numbers: Vec<u64>,
}

impl<'a> Emitter<'a> {
    fn new(code: &'a LoopBody, kinds: &[Kind], segments: &[Segment]) -> Emitter<'a> {
        let mut segment_of = vec![0; code.steps.len()];
        for (number, segment) in segments.iter().enumerate() {
            segment.steps.iter().for_each(|&i| segment_of[i] = number);
        }
        let mut by_engine = vec![false; code.loads.len()];
        let mut dtypes: Vec<Vec<DType>> = vec![Vec::new(); code.loads.len()];
        // The last segment that reads each load, and each value from memory.
        let mut load_until: Vec<Option<usize>> = vec![None; code.loads.len()];
        let mut until: Vec<Option<usize>> = vec![None; code.steps.len()];
        for (number, segment) in segments.iter().enumerate() {
            for &i in &segment.steps {
                for (read, dtype) in reads(code, i, segment.kind).zip(operand_types(&code.steps[i].step)) {
                    match read {
                        Read::Load(at) => {
                            dtypes[at].push(dtype);
                            by_engine[at] |= segment.kind == Kind::Host;
                            load_until[at] = Some(number);
                        }
                        Read::Step(from) | Read::Repeated(from) if segment_of[from] != number => {
                            until[from] = Some(number);
                        }
                        _ => {}
                    }
                }
            }
        }
        let is_in_place = |at: usize| -> bool {
            let load = &code.loads[at];
            let Some(store) = load.overwritten else { return false };
            let writer = code.steps.iter().position(|step| step.store == Some(store));
            let is_twin = |other: usize| other != at && code.loads[other].overwritten == Some(store);
            load.access == Access::Dense
                && !by_engine[at]
                && !(0..code.loads.len()).any(is_twin)
                && writer.is_some_and(|writer| {
                    kinds[writer] == Kind::Full
                        && dtypes[at].iter().all(|&dtype| dtype == code.steps[writer].step.dtype)
                        && load_until[at].is_some_and(|until| until <= segment_of[writer])
                })
        };
        let overwritten: Vec<bool> = (0..code.loads.len()).map(is_in_place).collect();
        let given = (0..code.loads.len())
            .map(|at| {
                let load = &code.loads[at];
                match load.access {
                    _ if load_until[at].is_none() => Given::Unused,
                    _ if overwritten[at] => Given::InPlace,
                    _ if by_engine[at] || load.is_copied || load.overwritten.is_some() => Given::Gathered,
                    Access::Dense | Access::Rows | Access::Splat => Given::InPlace,
                    Access::Scattered | Access::PerRow | Access::Once => Given::Gathered,
                }
            })
            .collect();
        let mut slots: Vec<Slot> = Vec::new();
        let mut busy_until: Vec<usize> = Vec::new();
        let mut homes: Vec<Option<Home>> = vec![None; code.steps.len()];
        for (number, segment) in segments.iter().enumerate() {
            for &i in &segment.steps {
                let step = &code.steps[i];
                homes[i] = match (step.store, until[i]) {
                    (Some(store), _) => Some(Home::Store(store)),
                    (None, None) => None,
                    (None, Some(last)) => {
                        let slot = Slot { per_row: step.per_row, size: step.step.dtype.size() };
                        let free = (0..slots.len()).find(|&at| slots[at] == slot && busy_until[at] < number);
                        let at = free.unwrap_or_else(|| {
                            slots.push(slot);
                            busy_until.push(0);
                            slots.len() - 1
                        });
                        busy_until[at] = last;
                        Some(Home::Slot(at))
                    }
                };
            }
        }
        Emitter { code, given, overwritten, homes, slots, numbers: Vec::new() }
    }

    /// Returns whether a load has one element for a row.
    fn is_splat(&self, at: usize) -> bool {
        self.code.loads[at].access == Access::Splat && self.given[at] == Given::InPlace
    }

    /// Returns how a number is asked for that is no literal.
    fn number(&mut self, bits: u64, dtype: DType) -> String {
        let at = self.numbers.iter().position(|&known| known == bits).unwrap_or_else(|| {
            self.numbers.push(bits);
            self.numbers.len() - 1
        });
        match dtype {
            DType::F32 => format!("f32::from_bits(c.number({at}) as u32)"),
            DType::F64 => format!("f64::from_bits(c.number({at}))"),
            dtype => format!("c.number({at}) as {}", element(dtype)),
        }
    }

    /// Writes a step that the engine does.
    fn host(&mut self, i: usize, calls: &mut String) {
        let at = |home: Option<Home>| match home {
            Some(Home::Store(at)) => format!("c.store({at}).cast_const()"),
            Some(Home::Slot(at)) => format!("c.slot({at}).cast_const()"),
            None => "null()".to_owned(),
        };
        let operands: Vec<String> = reads(self.code, i, Kind::Host)
            .map(|read| match read {
                Read::Load(load) => format!("c.load({load})"),
                Read::Number(_) => "null()".to_owned(),
                Read::Step(from) | Read::Repeated(from) => at(self.homes[from]),
            })
            .collect();
        let operands = operands.join(", ");
        let out = at(self.homes[i]);
        let _ = writeln!(calls, "        c.host({i}, &[{operands}], {out}.cast_mut());");
    }

    /// Writes a loop as a function, and its calls.
    fn segment(&mut self, number: usize, segment: &Segment, items: &mut String, calls: &mut String) {
        let code = self.code;
        let is_nested = segment.kind == Kind::Full
            && segment.steps.iter().any(|&i| {
                reads(code, i, segment.kind).any(|read| match read {
                    Read::Repeated(_) => true,
                    Read::Load(at) => self.is_splat(at) || code.loads[at].access == Access::Rows,
                    _ => false,
                })
            });
        let (n, row) = match (segment.kind, is_nested) {
            (Kind::PerRow, _) => ("rows", "0"),
            (_, false) => ("len", "0"),
            (_, true) => ("width", "r"),
        };
        let mut parameters: Vec<(String, String)> = Vec::new();
        let mut known: Vec<(Read, DType)> = Vec::new();
        // What the loop writes; loads that it writes over are read there.
        let outputs: Vec<usize> =
            segment.steps.iter().copied().filter(|&i| self.homes[i].is_some()).collect();
        let mut lines = String::new();
        for &i in &segment.steps {
            let step = &code.steps[i].step;
            let mut operands = Vec::new();
            let from = operand_types(step);
            for (read, dtype) in reads(code, i, segment.kind).zip(from) {
                let in_memory = match read {
                    Read::Step(from) if segment.steps.contains(&from) => {
                        operands.push(format!("v{from}"));
                        continue;
                    }
                    Read::Number(bits) => {
                        if let Some(text) = literal(bits, dtype) {
                            operands.push(text);
                            continue;
                        }
                        self.number(bits, dtype)
                    }
                    Read::Load(at) => {
                        let writer = outputs.iter().position(|&out| {
                            self.overwritten[at] && code.steps[out].store == code.loads[at].overwritten
                        });
                        if let Some(out) = writer {
                            operands.push(format!("o{out}[i]"));
                            continue;
                        }
                        match self.is_splat(at) {
                            true => format!("c.splat({at}, {row})"),
                            false => format!("c.load_slice({at}, {row}, {n})"),
                        }
                    }
                    Read::Repeated(from) => match self.homes[from] {
                        Some(Home::Store(at)) => format!("*element(c.store({at}), {row})"),
                        Some(Home::Slot(at)) => format!("*element(c.slot({at}), {row})"),
                        None => "unreachable!()".to_owned(),
                    },
                    Read::Step(from) => match self.homes[from] {
                        Some(Home::Store(at)) => format!("slice(c.store({at}), {row}, {n})"),
                        Some(Home::Slot(at)) => format!("slice(c.slot({at}), {row}, {n})"),
                        None => "unreachable!()".to_owned(),
                    },
                };
                let is_one = match read {
                    Read::Load(at) => self.is_splat(at),
                    Read::Step(_) => false,
                    _ => true,
                };
                let at = known.iter().position(|&other| other == (read, dtype)).unwrap_or_else(|| {
                    let ty = element(dtype);
                    let ty = if is_one { ty.to_owned() } else { format!("&[{ty}]") };
                    parameters.push((ty, in_memory));
                    known.push((read, dtype));
                    known.len() - 1
                });
                operands.push(if is_one { format!("a{at}") } else { format!("a{at}[i]") });
            }
            let params: Vec<String> = step
                .params
                .iter()
                .map(|&bits| {
                    if let Some(text) = literal(bits, step.from) {
                        return text;
                    }
                    parameters.push((element(step.from).to_owned(), self.number(bits, step.from)));
                    known.push((Read::Number(bits), step.from));
                    format!("a{}", known.len() - 1)
                })
                .collect();
            let value = expression(step, &operands, &params);
            let _ = writeln!(lines, "        let v{i}: {} = {value};", element(step.dtype));
        }
        let mut signature = String::new();
        let mut bounds = String::new();
        let mut arguments = String::new();
        for (at, (ty, argument)) in parameters.iter().enumerate() {
            let _ = write!(signature, ", a{at}: {ty}");
            let _ = write!(arguments, ", {argument}");
            if ty.starts_with('&') {
                let _ = writeln!(bounds, "    let a{at} = &a{at}[..n];");
            }
        }
        for (at, &i) in outputs.iter().enumerate() {
            let ty = element(code.steps[i].step.dtype);
            let _ = write!(signature, ", o{at}: &mut [{ty}]");
            let _ = match self.homes[i] {
                Some(Home::Store(store)) => write!(arguments, ", slice_mut(c.store({store}), {row}, {n})"),
                Some(Home::Slot(slot)) => write!(arguments, ", slice_mut(c.slot({slot}), {row}, {n})"),
                None => Ok(()),
            };
            let _ = writeln!(bounds, "    let o{at} = &mut o{at}[..n];");
            let _ = writeln!(lines, "        o{at}[i] = v{i};");
        }
        let _ = write!(
            items,
            "#[inline(never)]\nfn s{number}(n: usize{signature}) {{\n{bounds}    for i in 0..n {{\n{lines}    }}\n}}\n"
        );
        let _ = match is_nested {
            true => writeln!(
                calls,
                "        for r in 0..rows {{\n            s{number}({n}{arguments});\n        }}"
            ),
            false => writeln!(calls, "        s{number}({n}{arguments});"),
        };
    }
}

/// Returns the dtype of each operand.
fn operand_types(step: &Step<u64>) -> impl Iterator<Item = DType> {
    (0..step.operands.len()).map(|i| step.operand_dtype(i))
}

/// Writes a number as text if it changes what is left of a body: others are arguments, for they may depend on
/// sizes.
fn literal(bits: u64, dtype: DType) -> Option<String> {
    const USUAL: [f64; 7] = [0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -2.0];
    match dtype {
        DType::Bool => Some((bits & 0xff != 0).to_string()),
        DType::F32 => {
            let x = f32::from_bits(bits as u32);
            let is_usual = USUAL.iter().any(|&usual| (usual as f32).to_bits() == x.to_bits());
            is_usual.then(|| format!("({x:?}f32)"))
        }
        DType::F64 => {
            let x = f64::from_bits(bits);
            USUAL.iter().any(|&usual| usual.to_bits() == bits).then(|| format!("({x:?}f64)"))
        }
        DType::F16 | DType::BF16 => None,
        dtype => (bits <= 3).then(|| format!("{bits}{}", element(dtype))),
    }
}

#[cfg(test)]
mod tests {
    use fx_core::native::{Access, Load, LoopBody};
    use fx_core::{Class, Op};

    use super::*;

    fx_core::pointwise! {
        /// Operations of the tests.
        pub trait Tested; pub static TESTED;

        /// A sum.
        plus(x, other) -> Same { real: x + other }
        /// Names something that generated code does not know.
        foreign(x) -> Same { real: std::convert::identity(x) }
    }

    type Operand = fx_core::loops::Operand<u64>;

    const TWO: u64 = 0x4000_0000;
    const THIRD: u64 = 0x3e99_999a;

    fn map(op: Op, operands: &[Operand]) -> native::Step {
        let Class::Pointwise(def) = op.class else { panic!("{} is pointwise", op.name) };
        step(Work::Map(def), operands, false)
    }

    fn step(work: Work, operands: &[Operand], per_row: bool) -> native::Step {
        let step = Step::new(work, operands.iter().copied(), [DType::F32; 2]);
        native::Step { step, per_row, store: None }
    }

    fn load(access: Access) -> Load {
        Load { access, overwritten: None, is_copied: false }
    }

    fn loops(emitted: &Emitted) -> usize {
        emitted.text.matches("#[inline(never)]").count()
    }

    use fx_core::loops::Operand::{Load as L, Number as N, Step as S};

    #[test]
    fn a_chain_is_one_loop_without_memory_between_its_steps() {
        let mut steps = vec![
            map(plus::OP, &[L(0), L(1)]),
            map(plus::OP, &[S(0), N(TWO)]),
            map(plus::OP, &[S(1), N(THIRD)]),
            map(plus::OP, &[L(0), L(0)]),
        ];
        steps[2].store = Some(0);
        let loads = vec![Load { overwritten: Some(0), ..load(Access::Dense) }, load(Access::Splat)];
        let emitted = emit(&LoopBody { loads, steps }).unwrap();
        assert_eq!((loops(&emitted), emitted.slots.len()), (1, 0));
        assert!(!emitted.text.contains("v3"), "nobody needs the last step");
        assert!(emitted.text.contains("(2.0f32)"), "a usual number is a literal");
        assert_eq!(emitted.numbers, [THIRD], "others are arguments");
        // The operand is read where the result goes.
        assert!(emitted.text.contains("(o0[i], a0)"), "{}", emitted.text);
        assert_eq!(emitted.loads, [Given::InPlace, Given::InPlace]);
    }

    #[test]
    fn values_on_both_sides_of_a_step_of_the_engine_have_memory() {
        let mut steps = vec![
            map(plus::OP, &[L(0), N(0)]),
            step(Work::Host, &[S(0)], true),
            step(Work::Repeat, &[S(1)], false),
            map(plus::OP, &[S(0), S(2)]),
        ];
        steps[3].store = Some(0);
        let code = LoopBody { loads: vec![load(Access::Rows)], steps };
        let emitted = emit(&code).unwrap();
        assert_eq!(loops(&emitted), 2);
        assert_eq!(emitted.slots, [Slot { per_row: false, size: 4 }, Slot { per_row: true, size: 4 }]);
        assert!(emitted.text.contains("c.host(1, &[c.slot(0).cast_const()], c.slot(1)"), "{}", emitted.text);
        assert!(emitted.text.contains("*element(c.slot(1), r)"), "an element of the row is read in place");
    }

    #[test]
    fn an_operand_is_gathered_first_if_it_is_written_over_before_it_is_read() {
        let mut steps = vec![
            map(plus::OP, &[L(0), N(0)]),
            step(Work::Host, &[S(0)], false),
            map(plus::OP, &[S(1), L(0)]),
        ];
        (steps[0].store, steps[2].store) = (Some(0), Some(1));
        let loads = vec![Load { overwritten: Some(0), ..load(Access::Dense) }];
        let emitted = emit(&LoopBody { loads, steps }).unwrap();
        assert_eq!(emitted.loads, [Given::Gathered]);
    }

    #[test]
    fn an_operand_of_another_dtype_is_not_read_as_the_result_that_overwrites_it() {
        let mut steps = vec![step(Work::Convert, &[L(0)], false)];
        (steps[0].step.from, steps[0].store) = (DType::I32, Some(0));
        let loads = vec![Load { overwritten: Some(0), ..load(Access::Dense) }];
        let emitted = emit(&LoopBody { loads, steps }).unwrap();
        assert_eq!(emitted.loads, [Given::Gathered]);
        assert!(
            emitted.text.contains("a0: &[i32]") && emitted.text.contains("a0[i] as f32"),
            "{}",
            emitted.text
        );
    }

    #[test]
    fn a_body_that_does_not_stand_alone_is_left_to_the_engine() {
        let mut steps = vec![map(foreign::OP, &[L(0)]), map(plus::OP, &[S(0), S(0)])];
        steps[1].store = Some(0);
        let emitted = emit(&LoopBody { loads: vec![load(Access::Splat)], steps }).unwrap();
        assert!(emitted.text.contains("c.host(0") && !emitted.text.contains("identity"), "{}", emitted.text);
        assert_eq!(emitted.loads, [Given::Gathered]);
        let mut steps = vec![map(foreign::OP, &[L(0)])];
        steps[0].store = Some(0);
        assert!(emit(&LoopBody { loads: vec![load(Access::Dense)], steps }).is_none());
    }

    #[test]
    fn a_long_chain_is_cut() {
        let n = 1000;
        let chain = |i: usize| match i {
            0 => map(plus::OP, &[L(0), L(0)]),
            _ => map(plus::OP, &[S(i as u32 - 1), L(0)]),
        };
        let mut steps: Vec<native::Step> = (0..n).map(chain).collect();
        steps[n - 1].store = Some(0);
        let emitted = emit(&LoopBody { loads: vec![load(Access::Dense)], steps }).unwrap();
        assert!((40..100).contains(&loops(&emitted)), "{} loops", loops(&emitted));
        assert!(emitted.slots.len() <= 2, "memory is used again: {:?}", emitted.slots);
    }
}
