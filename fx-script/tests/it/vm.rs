//! The virtual machine.

use fx_core::Result;
use fx_script::ir;
use fx_script::value::Value;
use fx_script::vm::*;

fn run_with(text: &str, args: Vec<Value>, limits: Limits) -> Result<(Value, String)> {
    let program = ir::parse(text)?;
    let executable = Executable::new(&program, &Environment::default(), &NoOperators)?;
    let mut machine = Machine::new(&executable, limits);
    let value = machine.call("main", args)?;
    Ok((value, machine.take_output()))
}

fn run(text: &str, args: Vec<Value>) -> String {
    match run_with(text, args, Limits::default()) {
        Ok((value, printed)) => printed + &fx_script::value::shown(&value).unwrap(),
        Err(error) => error.to_string(),
    }
}

const SUM: &str = r#"func "main"(%n.0: int) -> int {
  %1: int = constant 0()
  %2: bool = constant true()
  %3: int = loop(%n.0, %2, %1) {(%i.4: int, %acc.5: int)
    %6: int = aten::add.int(%acc.5, %i.4)
    yield %2, %6
  }
  return %3
}
"#;

#[test]
fn counted_loop_carries_a_value() {
    assert_eq!(run(SUM, vec![Value::Int(10)]), "45");
    assert_eq!(run(SUM, vec![Value::Int(0)]), "0");
    assert_eq!(run(SUM, vec![Value::Int(-1)]), "0");
}

#[test]
fn carried_values_may_change_places() {
    let text = r#"func "main"(%n.0: int) -> Tuple[int, int] {
  %1: int = constant 1()
  %2: int = constant 2()
  %3: bool = constant true()
  %4: int, %5: int = loop(%n.0, %3, %1, %2) {(%i.6: int, %a.7: int, %b.8: int)
    yield %3, %b.8, %a.7
  }
  %9: Tuple[int, int] = tuple(%4, %5)
  return %9
}
"#;
    assert_eq!(run(text, vec![Value::Int(3)]), "(2, 1)");
    assert_eq!(run(text, vec![Value::Int(4)]), "(1, 2)");
}

#[test]
fn while_loop_ends_by_its_test() {
    let text = r#"func "main"(%n.0: int) -> int {
  %1: int = constant 9223372036854775807()
  %2: int = constant 1()
  %3: int = constant 2()
  %4: bool = aten::lt.int(%2, %n.0)
  %5: int = loop(%1, %4, %2) {(%i.6: int, %a.7: int)
    %8: int = aten::mul.int(%a.7, %3)
    %9: bool = aten::lt.int(%8, %n.0)
    yield %9, %8
  }
  return %5
}
"#;
    assert_eq!(run(text, vec![Value::Int(100)]), "128");
    assert_eq!(run(text, vec![Value::Int(0)]), "1");
}

#[test]
fn list_has_two_names() {
    let text = r#"func "main"(%x.0: int) -> Tuple[List[int], int] {
  %1: List[int] = list(%x.0)
  %2: Tuple[List[int], int] = tuple(%1, %x.0)
  %3: List[int] = aten::append.t(%1, %x.0)
  return %2
}
"#;
    assert_eq!(run(text, vec![Value::Int(2)]), "([2, 2], 2)");
}

#[test]
fn branch_not_taken_may_lack_its_operator() {
    let text = r#"func "main"(%c.0: bool) -> int {
  %1: int = constant 1()
  %2: int = if(%c.0) {()
    %3: int = mine::operator(%1) at "net.py":7:5
    yield %3
  } {()
    yield %1
  }
  return %2
}
"#;
    assert_eq!(run(text, vec![Value::Bool(false)]), "1");
    assert_eq!(run(text, vec![Value::Bool(true)]), "there is no operator mine::operator  at net.py:7:5");
}

#[test]
fn endless_loop_and_recursion_reach_a_limit() {
    let text = r#"func "main"(%c.0: bool) -> int {
  %1: int = constant 9223372036854775807()
  %2: int = constant 0()
  %3: int = loop(%1, %c.0, %2) {(%i.4: int, %a.5: int)
    yield %c.0, %i.4
  }
  return %3
}
"#;
    let limits = Limits { steps: 1_000_000, ..Limits::default() };
    let error = run_with(text, vec![Value::Bool(true)], limits).unwrap_err();
    assert_eq!(error.kind(), fx_core::ErrorKind::Limit);
    let text = r#"func "main"(%x.0: int) -> int {
  %1: int = function "main"(%x.0)
  return %1
}
"#;
    let error = run_with(text, vec![Value::Int(0)], Limits::default()).unwrap_err();
    assert_eq!(error.message(), "calls are nested deeper than 128");
}

#[test]
fn growing_list_reaches_the_limit_of_memory() {
    let text = r#"func "main"(%x.0: List[int]) -> int {
  %1: int = constant 9223372036854775807()
  %2: bool = constant true()
  loop(%1, %2) {(%i.3: int)
    %4: List[int] = aten::append.t(%x.0, %i.3)
    yield %2
  }
  return %1
}
"#;
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    let list = Value::ints([7]);
    let error = run_with(text, vec![list.clone()], limits).unwrap_err();
    assert_eq!(error.kind(), fx_core::ErrorKind::Limit);
    // The failed call leaves the list as it was.
    assert_eq!(fx_script::value::shown(&list).unwrap(), "[7]");
}

#[test]
fn forked_error_comes_at_the_wait() {
    let text = r#"func "main"(%w.0: bool) -> int {
  %1: str = constant "no"()
  %2: str = constant "builtins.ValueError"()
  %3: int = constant 1()
  %4: Future[int] = fork() {()
    prim::RaiseException(%1, %2)
    yield %3
  }
  %5: int = if(%w.0) {()
    %6: int = aten::wait(%4)
    yield %6
  } {()
    yield %3
  }
  return %5
}
"#;
    assert_eq!(run(text, vec![Value::Bool(false)]), "1");
    assert_eq!(run(text, vec![Value::Bool(true)]), "builtins.ValueError: no");
}

#[test]
fn unpacking_counts_items() {
    let text = r#"func "main"(%x.0: List[int]) -> int {
  %1: int, %2: int = unpack(%x.0)
  prim::Print(%2, %1)
  return %1
}
"#;
    assert_eq!(run(text, vec![Value::ints([1, 2])]), "2 1\n1");
    assert_eq!(run(text, vec![Value::ints([1])]), "Expected 2 elements in a list but found 1");
}
