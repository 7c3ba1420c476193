use fx_script::ir;
use fx_script::value::shown;
use fx_script::vm::{Environment, Executable, Limits, Machine};

use super::*;
use crate::Array;

fn run(text: &str, args: Vec<Item>) -> Result<Item> {
    let operators = AtenOperators::new(crate::registry());
    let executable = Executable::new(&ir::parse(text)?, &Environment::default(), &operators)?;
    Machine::new(&executable, Limits::default()).call("main", args)
}

fn tensor(data: &[f32], shape: &[usize]) -> Item {
    Item::tensor(Array::from_vec(data.to_vec(), shape).unwrap()).unwrap()
}

fn elements(item: &Item) -> Vec<f32> {
    item.to_tensor().unwrap().array().unwrap().to_vec().unwrap()
}

#[test]
fn write_through_a_view_changes_the_tensor() {
    let text = r#"func "main"(%x.0: Tensor) -> Tensor {
  %1: int = constant 0()
  %2: int = constant 1()
  %3: Tensor = aten::select.int(%x.0, %1, %2)
  %4: Tensor = aten::add_.Tensor(%3, %3, %2)
  return %x.0
}
"#;
    let x = tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    assert_eq!(elements(&run(text, vec![x.clone()]).unwrap()), [1.0, 2.0, 6.0, 8.0]);
    assert_eq!(elements(&x), [1.0, 2.0, 6.0, 8.0]);
}

#[test]
fn several_results_are_unpacked() {
    let text = r#"func "main"(%x.0: Tensor) -> Tuple[Tensor, Tensor] {
  %1: int = constant 1()
  %2: bool = constant false()
  %3: Tensor, %4: Tensor = aten::max.dim(%x.0, %1, %2)
  %5: Tuple[Tensor, Tensor] = tuple(%3, %4)
  return %5
}
"#;
    let result = run(text, vec![tensor(&[1.0, 5.0, 3.0, 2.0], &[2, 2])]).unwrap();
    let items = result.to_items().unwrap();
    assert_eq!(elements(&items[0]), [5.0, 3.0]);
    assert_eq!(shown(&items[1]).unwrap(), " 1\n 0\n[ CPULongType{2} ]");
}

#[test]
fn huge_tensor_is_refused() {
    let text = r#"func "main"(%n.0: int) -> Tensor {
  %1: NoneType = constant None()
  %2: List[int] = list(%n.0)
  %3: Tensor = aten::zeros(%2, %1, %1, %1, %1)
  return %3
}
"#;
    let error = run(text, vec![Item::Int(1_000_000_000_000)]).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Limit);
}

#[test]
fn places_share_plans_for_the_same_dtypes_and_sizes() {
    let text = r#"func "main"(%x.0: Tensor, %y.1: Tensor) -> Tensor {
  %2: str = constant "none"()
  %3: Tensor = aten::gelu(%x.0, %2)
  %4: Tensor = aten::gelu(%3, %2)
  %5: Tensor = aten::gelu(%y.1, %2)
  %6: int = constant 1()
  %7: Tensor = aten::add.Tensor(%4, %5, %6)
  return %7
}
"#;
    let operators = AtenOperators::new(crate::registry());
    let executable = Executable::new(&ir::parse(text).unwrap(), &Environment::default(), &operators).unwrap();
    let (x, y) = (tensor(&[0.0, 0.0], &[2]), tensor(&[0.0], &[1]));
    let mut machine = Machine::new(&executable, Limits::default());
    assert_eq!(elements(&machine.call("main", vec![x, y]).unwrap()), [0.0, 0.0]);
    assert_eq!(operators.shared.plans.len(), 2);
    drop(executable);
    assert_eq!(operators.shared.plans.len(), 0);
}

#[test]
fn row_runs_for_all_sizes_and_numbers_without_a_plan() {
    let text = r#"func "main"(%x.0: Tensor, %n.1: int) -> Tensor {
  %2: bool = constant true()
  %3: int = constant 0()
  %4: int = constant 1()
  %5: NoneType = constant None()
  %6: Tensor = loop(%n.1, %2, %x.0) {(%i.7: int, %acc.8: Tensor)
    %9: Tensor = aten::select.int(%x.0, %3, %i.7)
    %10: Tensor = aten::unsqueeze(%9, %3)
    %11: List[Tensor] = list(%acc.8, %10)
    %12: Tensor = aten::cat(%11, %3)
    %13: Tensor = aten::add_.Scalar(%9, %i.7, %i.7)
    yield %2, %12
  }
  return %6
}
"#;
    let operators = AtenOperators::new(crate::registry());
    let executable = Executable::new(&ir::parse(text).unwrap(), &Environment::default(), &operators).unwrap();
    let mut machine = Machine::new(&executable, Limits::default());
    let x = tensor(&[1.0, 2.0, 3.0], &[3]);
    let made = machine.call("main", vec![x.clone(), Item::Int(3)]).unwrap();
    assert_eq!(elements(&made), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    assert_eq!(elements(&x), [1.0, 3.0, 7.0]);
    assert_eq!(operators.shared.plans.len(), 0);
}
