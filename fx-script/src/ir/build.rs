//! [`Builder`]: writes a function, region by region.

use std::sync::Arc;

use fx_core::SourceLoc;

use super::{Constant, Function, Instruction, Operation, Region, ValueId, ValueInfo};
use crate::types::Type;

/// A function that is being written. Operations go to the region that was opened last.
#[derive(Debug)]
pub struct Builder {
    name: Arc<str>,
    values: Vec<ValueInfo>,
    open: Vec<Region>,
    source: Option<SourceLoc>,
}

impl Builder {
    /// Begins a function.
    pub fn new(name: impl Into<Arc<str>>) -> Builder {
        Builder { name: name.into(), values: Vec::new(), open: vec![Region::default()], source: None }
    }

    /// Returns the name of the function.
    pub fn function_name(&self) -> &str {
        &self.name
    }

    /// Sets the place of the operations that follow.
    pub fn at(&mut self, source: Option<SourceLoc>) {
        self.source = source;
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.values[value.index()].ty
    }

    /// Names the variable of a value, if it has no name yet.
    pub fn name(&mut self, value: ValueId, name: &str) {
        self.values[value.index()].name.get_or_insert_with(|| name.into());
    }

    /// Makes a value that nothing defines yet.
    fn value(&mut self, ty: Type, name: Option<&str>) -> ValueId {
        let id =
            ValueId(u32::try_from(self.values.len()).expect("memory ends before a function has 2^32 values"));
        self.values.push(ValueInfo { ty, name: name.map(Into::into) });
        id
    }

    fn region(&mut self) -> &mut Region {
        self.open.last_mut().expect("a region is open until the function is finished")
    }

    /// Adds a parameter to the open region.
    pub fn param(&mut self, ty: Type, name: Option<&str>) -> ValueId {
        let id = self.value(ty, name);
        self.region().params.push(id);
        id
    }

    /// Opens a region within the open one.
    pub fn open(&mut self) {
        self.open.push(Region::default());
    }

    /// Opens a closed region again, so that operations and results can be added.
    pub fn reopen(&mut self, region: Region) {
        self.open.push(region);
    }

    /// Returns a mark of the values that exist, for [`Builder::forget`].
    pub fn mark(&self) -> usize {
        self.values.len()
    }

    /// Forgets the values made since a mark. The regions that define them are the caller's to drop.
    pub fn forget(&mut self, mark: usize) {
        self.values.truncate(mark);
    }

    /// Changes the type of a value, such as that of a list whose items are known only now.
    pub fn set_type(&mut self, value: ValueId, ty: Type) {
        self.values[value.index()].ty = ty;
    }

    /// Closes the open region with its results and returns it, to be given to [`Builder::with_regions`].
    pub fn close(&mut self, results: Vec<ValueId>) -> Region {
        assert!(self.open.len() > 1, "the body of a function is closed by `finish`");
        let mut region = self.open.pop().expect("more than one region is open");
        region.results = results;
        region
    }

    /// Adds an operation with regions and returns its results, which have these types.
    pub fn with_regions(
        &mut self,
        instruction: Instruction,
        operands: Vec<ValueId>,
        types: impl IntoIterator<Item = Type>,
        regions: Vec<Region>,
    ) -> Vec<ValueId> {
        let results: Vec<ValueId> = types.into_iter().map(|ty| self.value(ty, None)).collect();
        let source = self.source.clone();
        let operation = Operation { instruction, operands, results: results.clone(), regions, source };
        self.region().operations.push(operation);
        results
    }

    /// Adds an operation without results.
    pub fn effect(&mut self, instruction: Instruction, operands: Vec<ValueId>) {
        self.with_regions(instruction, operands, [], Vec::new());
    }

    /// Adds an operation with one result.
    pub fn add(&mut self, instruction: Instruction, operands: Vec<ValueId>, ty: Type) -> ValueId {
        self.with_regions(instruction, operands, [ty], Vec::new())[0]
    }

    /// Adds a constant.
    pub fn constant(&mut self, constant: Constant, ty: Type) -> ValueId {
        self.add(Instruction::Constant(constant), Vec::new(), ty)
    }

    /// Ends the function with its result.
    pub fn finish(mut self, result: ValueId) -> Function {
        assert!(self.open.len() == 1, "all regions but the body are closed before a function is finished");
        let mut body = self.open.pop().expect("the body is open");
        body.results = vec![result];
        let returns = self.values[result.index()].ty.clone();
        Function { name: self.name, values: self.values, body, returns }
    }
}
