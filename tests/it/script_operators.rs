//! Operators of tensors in programs.

use fx::script::AtenOperators;
use fx::torchscript::ir;
use fx::torchscript::value::Value as Item;
use fx::torchscript::value::shown;
use fx::torchscript::vm::{Environment, Executable, Limits, Machine};
use fx::{Array, Result};

fn run(text: &str, args: Vec<Item>) -> Result<Item> {
    let operators = AtenOperators::new(fx::registry());
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
    assert_eq!(error.kind(), fx::ErrorKind::Limit);
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
    let operators = AtenOperators::new(fx::registry());
    let executable = Executable::new(&ir::parse(text).unwrap(), &Environment::default(), &operators).unwrap();
    // So far from 0, the function is that of its argument.
    let (x, y) = (tensor(&[10.0, 20.0], &[2]), tensor(&[16.0], &[1]));
    let mut machine = Machine::new(&executable, Limits::default());
    assert_eq!(elements(&machine.call("main", vec![x, y]).unwrap()), [26.0, 36.0]);
    assert_eq!(operators.plans(), 2);
    drop(executable);
    assert_eq!(operators.plans(), 0);
}

#[test]
fn row_runs_for_all_sizes_and_numbers_without_a_plan() {
    let text = r#"func "main"(%x.0: Tensor, %n.1: int) -> Tensor {
  %2: bool = constant true()
  %3: int = constant 0()
  %4: Tensor = loop(%n.1, %2, %x.0) {(%i.5: int, %acc.6: Tensor)
    %7: Tensor = aten::select.int(%x.0, %3, %i.5)
    %8: Tensor = aten::unsqueeze(%7, %3)
    %9: List[Tensor] = list(%acc.6, %8)
    %10: Tensor = aten::cat(%9, %3)
    %11: Tensor = aten::add_.Scalar(%7, %i.5, %i.5)
    yield %2, %10
  }
  return %4
}
"#;
    let operators = AtenOperators::new(fx::registry());
    let executable = Executable::new(&ir::parse(text).unwrap(), &Environment::default(), &operators).unwrap();
    let mut machine = Machine::new(&executable, Limits::default());
    let x = tensor(&[1.0, 2.0, 3.0], &[3]);
    let made = machine.call("main", vec![x.clone(), Item::Int(3)]).unwrap();
    assert_eq!(elements(&made), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    assert_eq!(elements(&x), [1.0, 3.0, 7.0]);
    assert_eq!(operators.plans(), 0);
}

#[test]
fn limit_of_memory_counts_the_bytes_of_the_result() {
    let text = r#"func "main"(%x.0: Tensor) -> Tensor {
  %1: Tensor = aten::gt.Tensor(%x.0, %x.0)
  return %1
}
"#;
    let operators = AtenOperators::new(fx::registry());
    let executable = Executable::new(&ir::parse(text).unwrap(), &Environment::default(), &operators).unwrap();
    let x = tensor(&[1.0; 10_000], &[10_000]);
    let call = |memory: u64| {
        let limits = Limits { memory, ..Limits::default() };
        Machine::new(&executable, limits).call("main", vec![x.clone()])
    };
    assert!(call(12_000).is_ok());
    assert_eq!(call(9_000).unwrap_err().kind(), fx::ErrorKind::Limit);
}

#[test]
fn lengths_of_packed_sequences_must_fall() {
    let text = r#"func "main"(%x.0: Tensor, %lengths.1: Tensor) -> Tensor {
  %2: bool = constant true()
  %3: Tensor, %4: Tensor = aten::_pack_padded_sequence(%x.0, %lengths.1, %2)
  return %3
}
"#;
    let x = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let packed = |lengths: [i64; 2]| {
        let lengths = Item::tensor(Array::from_vec(lengths.to_vec(), &[2]).unwrap()).unwrap();
        run(text, vec![x.clone(), lengths])
    };
    assert_eq!(elements(&packed([3, 1]).unwrap()), [1.0, 4.0, 2.0, 3.0]);
    for lengths in [[1, 3], [4, 1], [3, 0], [-1, -1]] {
        let error = packed(lengths).unwrap_err().to_string();
        assert!(error.contains("the lengths of packed sequences must fall"), "{error}");
    }
}
