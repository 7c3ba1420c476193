//! From syntax trees to IR.

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};
use fx_script::emit::*;
use fx_script::parse;
use fx_script::source::Source;

/// Returns a unit of one file.
fn unit(text: &str) -> fx_core::Result<Unit> {
    let mut unit = Unit::default();
    unit.add("__torch__", &parse::file(&Source::new("net.py", text))?)?;
    unit.resolve()?;
    Ok(unit)
}

/// Emits a text; the places of operations are left out.
fn emitted(text: &str) -> String {
    match unit(text).and_then(|unit| unit.emit_all()) {
        Ok(program) => {
            for function in program.functions() {
                fx_script::ir::verify(function).unwrap();
            }
            let text = program.to_string();
            assert!(fx_script::ir::parse(&text).unwrap() == program, "{text}");
            text.lines()
                .map(|line| format!("{}\n", line.split(" at \"").next().unwrap_or_default()))
                .collect()
        }
        Err(error) => format!("{error}\n"),
    }
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&emitted(text));
}

#[test]
fn functions_of_users_are_emitted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/functions");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = emitted(&fs::read_to_string(&path).unwrap());
        assert!(text.starts_with("func"), "{}: {text}", path.display());
    }
}

#[test]
fn early_exits_become_flags() {
    check(
        "def f(x: int) -> int:\n  if x > 1:\n    return 1\n  return x\n",
        expect![[r#"
        func "__torch__.f"(%x.0: int) -> int {
          %1: int = constant 1()
          %2: bool = aten::gt.int(%x.0, %1)
          %6: bool, %7: int, %8: bool = if(%2) {()
            %3: int = constant 1()
            %4: bool = constant true()
            yield %4, %3, %4
          } {()
            %5: bool = constant true()
            yield %5, %x.0, %5
          }
          return %7
        }
    "#]],
    );
    check(
        "def f(n: int) -> int:\n  k = 0\n  for i in range(n):\n    if i == 3: continue\n    if i == 7: break\n    k += i\n  return k\n",
        expect![[r#"
            func "__torch__.f"(%n.0: int) -> int {
              %k.1: int = constant 0()
              %2: bool = constant true()
              %3: bool = constant false()
              %k.22: int, %23: bool = loop(%n.0, %2, %k.1, %3) {(%i.4: int, %k.5: int, %6: bool)
                %7: int = constant 3()
                %8: bool = aten::eq.int(%i.4, %7)
                %18: bool, %19: bool, %k.20: int = if(%8) {()
                  %9: bool = constant true()
                  yield %6, %9, %k.5
                } {()
                  %10: int = constant 7()
                  %11: bool = aten::eq.int(%i.4, %10)
                  %15: bool, %16: bool, %k.17: int = if(%11) {()
                    %12: bool = constant true()
                    yield %12, %12, %k.5
                  } {()
                    %k.13: int = aten::add.int(%k.5, %i.4)
                    %14: bool = constant false()
                    yield %6, %14, %k.13
                  }
                  yield %15, %16, %k.17
                }
                %21: bool = aten::__not__(%18)
                yield %21, %k.20, %18
              }
              %24: bool = constant true()
              return %k.22
            }
        "#]],
    );
}

#[test]
fn optionals_are_refined() {
    check(
        "def f(x: Optional[int]) -> int:\n  if x is None:\n    return 0\n  return x + 1\n",
        expect![[r#"
            func "__torch__.f"(%x.0: Optional[int]) -> int {
              %1: NoneType = constant None()
              %2: bool = aten::__is__(%x.0, %1)
              %10: bool, %11: int, %12: bool = if(%2) {()
                %x.3: NoneType = cast(%x.0)
                %4: int = constant 0()
                %5: bool = constant true()
                yield %5, %4, %5
              } {()
                %x.6: int = cast(%x.0)
                %7: int = constant 1()
                %8: int = aten::add.int(%x.6, %7)
                %9: bool = constant true()
                yield %9, %8, %9
              }
              return %11
            }
        "#]],
    );
    for text in [
        "def f(x: Optional[int]) -> int:\n  c = x is not None\n  if c:\n    return x\n  return 0\n",
        "def f(x: Optional[str]) -> bool:\n  c = x is None\n  if x is not None:\n    return c and x > x\n  return c\n",
        "def f(x: Optional[int]) -> int:\n  while x is None:\n    x = 3\n  assert x is not None\n  return x\n",
        "def f(xs: List[Optional[int]]) -> int:\n  k = 0\n  for x in xs:\n    if x is None: continue\n    k += x\n  return k\n",
        "def f(x: Optional[int], y: Optional[int]) -> int:\n  if x is not None and y is not None and x > y: return x + y\n  return 0\n",
        "def f(x: Optional[int]) -> int:\n  return 0 if x is None else x\n",
        "def f(x: Optional[int]) -> int:\n  if x is None:\n    x = 1\n  return x\n",
        "def f(x: Union[int, str, List[int]]) -> int:\n  if isinstance(x, int): return x\n  elif isinstance(x, str): return len(x)\n  return x[0]\n",
        "def f(x: Optional[int]) -> int:\n  if x == None: raise ValueError('none')\n  return x\n",
        "def f(x: Optional[Tensor]):\n  while x is not None:\n    if x.sum() > 3:\n      x = None\n    else:\n      x = x + 1\n  return x\n",
    ] {
        let text = emitted(text);
        assert!(text.starts_with("func"), "{text}");
    }
}

#[test]
fn constructs_of_users_are_emitted() {
    for text in [
        "def f(x: Tensor, i: int):\n  x[i] = 1\n  x[:, 1:] = x[0]\n  x[x > 0] += 2\n  x[..., None] *= 2\n  y = x[i, ..., -1]\n  return y\n",
        "def f(xs: List[int]):\n  a, *b = xs\n  c, d = b[0], b[-1]\n  return {k: v for k, v in enumerate(xs) if v > 0}, [a + c for _ in range(d)]\n",
        "def f(n: int):\n  t = (1, 'a', 2.5)\n  for x in t: print(x)\n  for i, x in enumerate(t, 3): print(i, x)\n  return f'{n:>4} {t[1]}'\n",
        "class P(NamedTuple):\n  x: int\n  y: float = 1.0\nclass C(Enum):\n  A = 1\n  B = 2\ndef f(n: int) -> Tuple[P, int, str]:\n  p = P(n)\n  c = C.A if n > 0 else C.B\n  return p, p.x + c.value, c.name\n",
        "class S:\n  n: int\n  def __init__(self, n: int):\n    self.n = n\n  def __add__(self, o: int) -> int:\n    return self.n + o\n  def __len__(self) -> int:\n    return self.n\ndef f(n: int):\n  s = S(n)\n  s.n += 1\n  return s + 2, len(s), 1 < n < 3\n",
        "def f(x: Tensor, w: str):\n  with torch.no_grad():\n    y = x.view(-1, 2).to(torch.float32).sum(dim=1, keepdim=True)\n  return y, w.upper() + '%d' % 3, ','.join([w, 'b']), w[::2]\n",
        "def f(x: Tensor) -> List[int]:\n  ys: List[int] = x.tolist()\n  zs = [v for y in [ys, ys] for v in y if v]\n  for a, b in zip(ys, zs):\n    zs.append(a * b)\n  del zs[0]\n  return sorted(zs)\n",
        "def g(x, k: int = 2, *, s: float = 1.0):\n  return x * k * s\ndef f(x):\n  fut = torch.jit.fork(g, x, 3)\n  return torch.jit.wait(fut) + g(x, s=2.0) + 1 - x / 2 + 7 // x\n",
        "def f(n: int):\n  k = 0\n  while True:\n    k += 1\n    for i in range(k):\n      if i * k > n: return i\n  return 0\n",
        "def f(n: int) -> int:\n  for i in range(n):\n    if i == 5: break\n  else:\n    return -1\n  return 1\n",
        "def f(d: Dict[str, int]):\n  s = 0\n  for k in d: s += d[k]\n  for k, v in d.items(): s += v\n  d['z'] = s\n  return 'a' in d, d.get('b', 3), d.get('c'), list(d.keys())\n",
        "def f(x: Tensor, h: Tensor):\n  out = []\n  for t in range(x.size(0)):\n    h = torch.tanh(x[t] + h)\n    out.append(h)\n  return torch.stack(out), x.shape[0], x.shape[1:], x.dtype\n",
        "def f(x: float):\n  return math.floor(x), math.pi, max(x, 2.0), min([1, 2]), abs(x), round(x), int(x), -x ** 2, x in [1.0]\n",
        "def f(x: Tensor):\n  r = x.sort(dim=1)\n  return r.values, r.indices, x.max(1).indices, torch.topk(x, 3)[1]\n",
        "def f(x: Tensor):\n  v, i = torch.max(x, dim=1)\n  r = torch.max(x, 1)\n  a, b = x.shape\n  return v + r[0], i, a, b\n",
    ] {
        let result = emitted(text);
        assert!(result.starts_with("func"), "{text}\n{result}");
    }
}

#[test]
fn errors_say_why() {
    check(
        "def f(x: int, c: bool):\n  if c:\n    y = 1\n  else:\n    y = 'a'\n  return y\n",
        expect![[r#"
        'y' is int in one branch and str in the other; give it one type, or annotate it
              return y
                     ^
           at net.py:6:10
    "#]],
    );
    check(
        "def f(c: bool):\n  if c:\n    y = 1\n  return y\n",
        expect![[r#"
        'y' has a value in only one of two branches
              return y
                     ^
           at net.py:4:10
    "#]],
    );
    check(
        "def f(x: Optional[Tensor]):\n  return x.sum()\n",
        expect![[r#"
        the value may be None, which has no 'sum'
              return x.sum()
                     ^^^^^
           at net.py:2:10
          help: test it before: `if x is not None`, or `assert x is not None`
    "#]],
    );
    check(
        "def f(n: int):\n  x = 1\n  for i in range(n):\n    x = 'a'\n  return x\n",
        expect![[r#"
        'x' is int before the loop and str at the end of a round
              for i in range(n):
                       ^^^^^^^^
           at net.py:3:12
          help: a variable keeps its type in a loop; use another name, or annotate it
    "#]],
    );
    check(
        "def f(x: float):\n  return x\ndef g():\n  return f(1)\n",
        expect![[r#"
        'x' of '__torch__.f' expected float, got int
              return f(1)
                     ^^^^
           at net.py:4:10
          help: ints are not converted: write `1.` or `float(..)`
    "#]],
    );
    check(
        "def f(x: Tensor):\n  return x.relu(1, 2)\n",
        expect![[r#"
        no overload of 'aten::relu' takes (Tensor, int, int)
              return x.relu(1, 2)
                     ^^^^^^^^^^^^
           at net.py:2:10
          help: the overloads are
                aten::relu(Tensor self): takes 1 positional arguments, got 3
    "#]],
    );
    check(
        "def f(value: int):\n  return valeu\n",
        expect![[r#"
        'valeu' is not defined
              return valeu
                     ^^^^^
           at net.py:2:10
          help: a variable 'value' is
    "#]],
    );
    check(
        "def f(n: int) -> int:\n  if n > 1:\n    return n\n",
        expect![[r#"
        'f' returns int, but not on every path
            def f(n: int) -> int:
                ^
           at net.py:1:5
          help: return or raise at the end
    "#]],
    );
    check(
        "def f(x: Tensor):\n  return torch.no_such(x)\n",
        expect![[r#"
        there is no function 'torch.no_such'
              return torch.no_such(x)
                     ^^^^^^^^^^^^^^^^
           at net.py:2:10
    "#]],
    );
    check(
        "def f(x: int):\n  return f(x)\n",
        expect![[r#"
        '__torch__.f' calls itself, and its result has no annotation
            def f(x: int):
                ^
           at net.py:1:5
          help: annotate the result: `-> Tensor`
    "#]],
    );
}

#[test]
fn deep_code_is_an_error_or_emitted() {
    let returns = format!("def f(x: int) -> int:\n{}  return 0\n", "  if x > 1: return 1\n".repeat(1000));
    assert!(emitted(&returns).contains("nest deeper"));
    let mut nested = "def f(x: int) -> int:\n".to_owned();
    for level in 1..200 {
        nested.push_str(&format!("{}if x > {level}:\n", " ".repeat(level)));
    }
    nested.push_str(&format!("{}x = 3\n return x\n", " ".repeat(200)));
    let text = emitted(&nested);
    assert!(text.starts_with("func"), "{text}");
    let parens = format!("def f(x: int):\n  return {}x{}\n", "(x + ".repeat(120), ")".repeat(120));
    assert!(emitted(&parens).starts_with("func"));
}

#[test]
fn old_divisions_truncate() {
    let mut unit =
        unit("def f(x: Tensor, y: Tensor):\n  return torch.div(x, y), torch.full([2], 1), x / 2.\n").unwrap();
    unit.version = Some(3);
    let text = unit.emit("__torch__.f").unwrap().to_string();
    for operator in [
        "aten::div.Tensor_mode",
        "aten::div.Tensor(",
        "aten::is_floating_point",
        "aten::Float.Scalar",
        "aten::div.Scalar(",
    ] {
        assert!(text.contains(operator), "{operator}\n{text}");
    }
    assert!(!text.contains("aten::div.Scalar_mode"), "{text}");
}

#[test]
fn unknown_operators_of_archives_fail_when_they_run() {
    let mut unit = unit("def f(x: Tensor):\n  return ops.mine.op(torch._nested_thing(x), x)\n").unwrap();
    assert!(unit.emit("__torch__.f").is_err());
    unit.unknown_operators = UnknownOperators::FailWhenRun;
    let text = unit.emit("__torch__.f").unwrap().to_string();
    assert!(text.contains("= mine::op(") && text.contains("= aten::_nested_thing("), "{text}");
}

/// Runs a function of ints and returns its printed result.
fn run(text: &str, args: &[i64]) -> String {
    let program = unit(text).unwrap().emit_all().unwrap();
    let environment = fx_script::vm::Environment::default();
    let executable =
        fx_script::vm::Executable::new(&program, &environment, &fx_script::vm::NoOperators).unwrap();
    let limits = fx_script::vm::Limits { steps: 1_000_000, ..Default::default() };
    let mut machine = fx_script::vm::Machine::new(&executable, limits);
    let args = args.iter().map(|arg| fx_script::value::Value::Int(*arg)).collect();
    match machine.call("__torch__.f", args) {
        Ok(value) => fx_script::value::shown(&value).unwrap(),
        Err(error) => error.message().to_owned(),
    }
}

#[test]
fn exits_and_loops_run_as_in_python() {
    let loops = "def f(n: int) -> int:\n  k = 0\n  for i in range(n):\n    if i == 3: continue\n    if i == 7: break\n    k += i\n  else:\n    k += 1000\n  return k\n";
    assert_eq!(run(loops, &[5]), "1007");
    assert_eq!(run(loops, &[20]), "18");
    let nested = "def f(n: int) -> int:\n  k = 0\n  while True:\n    k += 1\n    for i in range(k):\n      if i * k > n: return i * 100 + k\n      if i > 4: break\n    if k > 50: return -1\n  return 0\n";
    assert_eq!(run(nested, &[20]), "406");
    assert_eq!(run(nested, &[100_000]), "-1");
    let unrolled = "def f(n: int) -> int:\n  k = 0\n  for i, x in enumerate((1, 2, 3, 4)):\n    if x == n: continue\n    if i + x > n + 3: break\n    k = k * 10 + x\n  return k\n";
    assert_eq!(run(unrolled, &[2]), "13");
    let comprehension =
        "def f(n: int) -> List[int]:\n  return [i * j for i in range(n) if i % 2 for j in range(i) if j]\n";
    assert_eq!(run(comprehension, &[6]), "[3, 6, 5, 10, 15, 20]");
    let chained = "def f(n: int):\n  return 1 < n <= 3, f'{n}-{n + 1}', -n // 2 if n > 2 else 7, n in [1, 3], not n > 2 or n == 3\n";
    assert_eq!(run(chained, &[3]), "(True, 3-4, -2, True, True)");
    let refined = "def f(n: int) -> int:\n  x: Optional[int] = None\n  while x is None:\n    if n > 10: x = n\n    n += 3\n  xs = [1, 2, 3]\n  a, *b = xs\n  b += [x]\n  del b[0]\n  return x + a + len(b)\n";
    assert_eq!(run(refined, &[1]), "16");
    let raised = "def f(n: int) -> int:\n  assert n > 0, f'n is {n}'\n  if n > 5:\n    raise ValueError('large')\n  return n\n";
    assert_eq!(run(raised, &[3]), "3");
    assert!(run(raised, &[-2]).contains("AssertionError: n is -2"), "{}", run(raised, &[-2]));
    assert!(run(raised, &[9]).contains("large"), "{}", run(raised, &[9]));
    let collatz = include_str!("../../tests/functions/fn_collatz.py").replace("collatz", "f");
    assert_eq!(run(&collatz, &[27]), "(111, 9232)");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_code_is_emitted_or_errs(which in 0usize..6, at in 0usize..3000, byte in 32u8..127, length in 0usize..12) {
        let text = [
            include_str!("../../tests/data/sc_optional.py"),
            include_str!("../../tests/data/sc_class.py"),
            include_str!("../../tests/data/sc_union.py"),
            include_str!("../../tests/functions/fn_early.py"),
            include_str!("../../tests/functions/fn_fizz.py"),
            include_str!("../../tests/functions/fn_numbers.py"),
        ][which];
        let start = at % text.len();
        let mut bytes = text.as_bytes().to_vec();
        bytes.splice(start..(start + length).min(text.len()), [byte]);
        if let Ok(text) = String::from_utf8(bytes) {
            emitted(&text);
        }
    }
}
