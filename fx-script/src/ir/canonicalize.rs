//! [`canonicalize`]: what PyTorch's executor does to operations before it runs them.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Constant, Function, Instruction, Operation, Program, Region, ValueId, ValueInfo};
use crate::types::Type;
use crate::value::Value;

/// The overloads of a tensor whose second operand may be a constant of rank 0, and those that take a number.
const OVERLOADS: [(&str, &str); 4] = [
    ("aten::add.Tensor", "aten::add.Scalar"),
    ("aten::sub.Tensor", "aten::sub.Scalar"),
    ("aten::mul.Tensor", "aten::mul.Scalar"),
    ("aten::div.Tensor", "aten::div.Scalar"),
];

/// Replaces constants of rank 0 by numbers where they are the second operand of `add`, `sub`, `mul` and `div`, as
/// PyTorch's pass `CanonicalizeOps` does.
///
/// It decides about dtypes: a traced `ids * 0.5` has the constant as a tensor of f64, and gives f32. `stored` are
/// the constants that the archive holds, by name.
pub fn canonicalize(mut program: Program, stored: &HashMap<Arc<str>, Value>) -> Program {
    let numbers: HashMap<&str, (Constant, Type)> =
        stored.iter().filter_map(|(name, value)| Some((&**name, number(value)?))).collect();
    if !numbers.is_empty() {
        for function in &mut program.functions {
            let Function { values, body, .. } = function;
            Pass { numbers: &numbers, values, known: HashMap::new() }.region(body);
        }
    }
    program
}

/// Returns a tensor of rank 0 as a number.
fn number(value: &Value) -> Option<(Constant, Type)> {
    let Value::Tensor(tensor) = value else { return None };
    if tensor.is_complex() || !tensor.shape().is_empty() {
        return None;
    }
    match tensor.item().ok()? {
        Value::Bool(x) => Some((Constant::Bool(x), Type::Bool)),
        Value::Int(x) => Some((Constant::Int(x), Type::Int)),
        Value::Float(x) => Some((Constant::Float(x), Type::Float)),
        _ => None,
    }
}

struct Pass<'a> {
    numbers: &'a HashMap<&'a str, (Constant, Type)>,
    values: &'a mut Vec<ValueInfo>,
    /// The values that are such constants.
    known: HashMap<ValueId, &'a (Constant, Type)>,
}

impl Pass<'_> {
    fn region(&mut self, region: &mut Region) {
        let mut operations = Vec::with_capacity(region.operations.len());
        for mut operation in std::mem::take(&mut region.operations) {
            operation.regions.iter_mut().for_each(|region| self.region(region));
            match &operation.instruction {
                Instruction::Constant(Constant::Stored(name)) => {
                    if let Some(number) = self.numbers.get(&**name) {
                        self.known.insert(operation.results[0], number);
                    }
                }
                Instruction::Call(name) => {
                    let overload = OVERLOADS.iter().find(|(tensor, _)| *tensor == &**name);
                    let other = operation.operands.get(1).and_then(|other| self.known.get(other));
                    if let (Some((_, scalar)), Some(&(constant, ty))) = (overload, other) {
                        let id = ValueId(self.values.len() as u32);
                        self.values.push(ValueInfo { ty: ty.clone(), name: None });
                        operations.push(Operation {
                            instruction: Instruction::Constant(constant.clone()),
                            operands: Vec::new(),
                            results: vec![id],
                            regions: Vec::new(),
                            source: operation.source.clone(),
                        });
                        operation.operands[1] = id;
                        operation.instruction = Instruction::Call(Arc::from(*scalar));
                    }
                }
                _ => {}
            }
            operations.push(operation);
        }
        region.operations = operations;
    }
}
