//! Operations on blocks in a plan: the bodies of gufuncs, and what follows done to blocks while they are in the
//! cache.

use fx_core::DType;
use fx_core::array::{Sizes, span};
use fx_core::gufunc::{BlockElement, Data, DataMut, GufuncCall, Loops, MOST, Task};
use fx_simd::parallel;
use smallvec::SmallVec;

use super::kernel::Kernel;
use super::operand::{Bases, Operand, ValueId};
use super::tape::{EpilogueTape, Tape};

/// A gufunc whose operands have their core axes in row-major order.
pub(crate) struct GufuncKernel {
    call: GufuncCall,
    loops: Loops,
    tasks: Vec<Task>,
    /// What `T` is.
    float: DType,
    operands: Vec<Operand>,
    results: Vec<(ValueId, DType)>,
    /// What is done to the only result.
    epilogue_tape: EpilogueTape,
    /// Whether the epilogue takes the rows of the result block by block.
    are_rows: bool,
}

/// Returns whether the core axes of the operand of this number lie in row-major order.
pub(crate) fn has_dense_core(call: &GufuncCall, i: usize, x: &Operand) -> bool {
    let mut present = call.def.operands.iter().zip(call.present).filter(|(_, present)| *present);
    let Some(at) = present.nth(i).and_then(|(operand, _)| x.shape.len().checked_sub(operand.axes.len()))
    else {
        return false;
    };
    fx_core::array::is_row_major(&x.shape[at..], &x.strides[at..])
}

impl GufuncKernel {
    /// Makes the kernel; `None` if operands and results do not fit together.
    pub(crate) fn new(
        call: GufuncCall,
        operands: Vec<Operand>,
        results: &[(ValueId, DType, Sizes)],
        epilogue_tape: EpilogueTape,
    ) -> Option<GufuncKernel> {
        let are_dense = (0..).zip(&operands).all(|(i, x)| has_dense_core(&call, i, x));
        let lie =
            operands.iter().map(|x| (x.shape.clone(), x.strides.clone())).collect::<SmallVec<[_; MOST]>>();
        let shapes: SmallVec<[Sizes; MOST]> = results.iter().map(|(_, _, shape)| shape.clone()).collect();
        let loops = Loops::new(&call, &lie, &shapes).filter(|_| are_dense)?;
        let present = call.def.operands.iter().zip(call.present).filter(|(_, present)| *present);
        let float = present.zip(&operands).find(|((operand, _), _)| operand.dtype.is_none());
        let float = float.map_or(DType::F32, |(_, x)| x.dtype);
        let are_rows = call.def.results.first().is_some_and(|result| result.rank() > 0);
        let results = results.iter().map(|(value, dtype, _)| (*value, *dtype)).collect();
        let tasks = loops.tasks();
        Some(GufuncKernel { call, loops, tasks, float, operands, results, epilogue_tape, are_rows })
    }

    /// Returns the elements of an operand.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn read<'a>(&self, bases: Bases<'a>, x: &Operand) -> Data<'a> {
        let len = span(&x.shape, &x.strides).unwrap_or(0);
        /// # Safety
        ///
        /// So many elements of this type lie there.
        unsafe fn of<'a, T: BlockElement>(bases: Bases<'a>, x: &Operand, len: usize) -> Data<'a> {
            let first = bases.at::<T>(x.value, x.offset).cast_const();
            // SAFETY: the caller's promise.
            T::data(unsafe { std::slice::from_raw_parts(first, len) })
        }
        // SAFETY: the plan gives this kernel its operands, which have these dtypes and extents.
        unsafe {
            match x.dtype {
                DType::Bool => of::<bool>(bases, x, len),
                DType::U8 => of::<u8>(bases, x, len),
                DType::I8 => of::<i8>(bases, x, len),
                DType::I32 => of::<i32>(bases, x, len),
                DType::I64 => of::<i64>(bases, x, len),
                DType::F64 => of::<f64>(bases, x, len),
                DType::F32 | DType::F16 | DType::BF16 => of::<f32>(bases, x, len),
            }
        }
    }

    /// Returns elements of a result.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`], and nobody else has these elements.
    unsafe fn write<'a>(
        &self,
        bases: Bases<'a>,
        (value, dtype): (ValueId, DType),
        at: usize,
        len: usize,
    ) -> DataMut<'a> {
        /// # Safety
        ///
        /// So many elements of this type lie there, which nobody else has.
        unsafe fn of<'a, T: BlockElement>(
            bases: Bases<'a>,
            value: ValueId,
            at: usize,
            len: usize,
        ) -> DataMut<'a> {
            // SAFETY: the caller's promise.
            T::data_mut(unsafe { std::slice::from_raw_parts_mut(bases.at::<T>(value, at), len) })
        }
        // SAFETY: the plan gives this kernel its results, of these dtypes, alone.
        unsafe {
            match dtype {
                DType::Bool => {
                    // Memory of other values may hold bytes that are no bools, of which no slice may be made.
                    bases.at::<u8>(value, at).write_bytes(0, len);
                    of::<bool>(bases, value, at, len)
                }
                DType::U8 => of::<u8>(bases, value, at, len),
                DType::I8 => of::<i8>(bases, value, at, len),
                DType::I32 => of::<i32>(bases, value, at, len),
                DType::I64 => of::<i64>(bases, value, at, len),
                DType::F64 => of::<f64>(bases, value, at, len),
                DType::F32 | DType::F16 | DType::BF16 => of::<f32>(bases, value, at, len),
            }
        }
    }
}

impl Kernel for GufuncKernel {
    unsafe fn run(&self, bases: Bases<'_>) {
        // SAFETY: the caller's promise.
        let operands = self.operands.iter().map(|x| unsafe { self.read(bases, x) });
        let operands: SmallVec<[Data<'_>; MOST]> = operands.collect();
        let run = |i: usize| {
            let task = &self.tasks[i];
            let results = self.results.iter().enumerate().map(|(i, result)| {
                let range = self.loops.range(task, i);
                // SAFETY: different tasks have different elements.
                unsafe { self.write(bases, *result, range.start, range.len()) }
            });
            let mut results: SmallVec<[DataMut<'_>; MOST]> = results.collect();
            self.call.run(&self.loops, self.float, &operands, task, &mut results);
            drop(results);
            if self.are_rows {
                let (row, range) = (self.loops.lens()[0], self.loops.range(task, 0));
                let first = task.blocks.start * row;
                let columns =
                    if task.part.is_some() { range.start - first..range.end - first } else { 0..row };
                // SAFETY: these parts of rows are complete, and other tasks have others.
                unsafe { self.epilogue_tape.run(bases, task.blocks.clone(), columns) };
            }
        };
        match self.tasks.len() {
            0 | 1 => (0..self.tasks.len()).for_each(run),
            n => parallel::each(n, run),
        }
        if let (false, Some(tape)) = (self.are_rows, &self.epilogue_tape.0) {
            // SAFETY: the caller's promise; the result is complete.
            unsafe { tape.run(bases) };
        }
    }

    fn reads(&self) -> Vec<ValueId> {
        self.epilogue_tape.reads(self.operands.iter().map(|x| x.value))
    }

    fn tape(&mut self) -> Option<&mut Tape> {
        self.epilogue_tape.0.as_mut()
    }

    fn describe(&self) -> String {
        format!("{} of {} blocks{}", self.call.def.name, self.loops.blocks(), self.epilogue_tape)
    }
}
