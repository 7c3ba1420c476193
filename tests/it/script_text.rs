//! Programs as text.

use expect_test::{Expect, expect};
use fx::script::{AtenOperators, script};
use fx::torchscript::load::{Program, Session};
use fx::torchscript::source::Source;
use fx::torchscript::value::Value as Item;

fn shown(text: &str, name: &str, args: Vec<Item>) -> String {
    let outcome = script(text).and_then(|mut script| {
        let again = fx::script::script(script.code())?;
        assert_eq!(again.code(), script.code());
        script.call_values(name, args, Vec::new())
    });
    match outcome {
        Ok(value) => fx::torchscript::value::shown(&value).unwrap(),
        Err(error) => error.to_string(),
    }
}

fn check(text: &str, name: &str, args: Vec<Item>, expected: Expect) {
    expected.assert_eq(&shown(text, name, args));
}

#[test]
fn imports_and_constants_are_known_in_functions() {
    let text = "
import math as m
import torch as t
import torch.nn.functional as nnf
from typing import List as L
from math import sqrt as root, pi
from torch import Tensor as T, nn
HALF = 0.5
EPS: float = 1.0
PAIR = (HALF * 2, -3)
DEFAULT = t.float32
def f(x: T, xs: L[int], k: float = HALF) -> t.Tensor:
    a, b = PAIR
    y = nnf.relu(x) + EPS * a + b + nn.functional.relu(x)
    y = y + m.floor(pi) + root(4.0) + k
    return y.to(DEFAULT)
def g(k: float = EPS, l: Tuple[float, int] = PAIR, d: int = t.int64) -> Tuple[float, float, int]:
    return k, l[0], d
";
    let x = Item::tensor(fx::Array::from([1f32, -1.])).unwrap();
    check(
        text,
        "f",
        vec![x, Item::ints([1])],
        expect![[r#"
         5.5000
         3.5000
        [ CPUFloatType{2} ]"#]],
    );
    check(
        text,
        "g",
        vec![],
        expect![[r#"
            expected a literal
                def g(k: float = EPS, l: Tuple[float, int] = PAIR, d: int = t.int64) -> Tuple[float, float, int]:
                                                                            ^^^^^^^
               at <script>:17:61"#]],
    );
}

#[test]
fn attributes_are_what_constructors_assign() {
    let text = "
class Box:
    def __init__(self, n: int):
        self.inner = Counter(n)
        self.names: List[str] = []
    def run(self) -> int:
        self.names.append('a')
        return self.inner.next() + len(self.names)
class Counter(object):
    def __init__(self, n: int) -> None:
        self.n = n
    def next(self) -> int:
        self.n += 1
        return self.n
@dataclass
class Point:
    x: int
    y: float = 0.5
def f(n: int) -> Tuple[int, int, float]:
    b = Box(n)
    p = Point(3)
    return b.run(), b.run(), p.x * p.y
";
    check(text, "f", vec![Item::Int(4)], expect!["(6, 8, 1.5)"]);
}

#[test]
fn errors_of_texts_have_their_line() {
    check(
        "class C:\n  def __init__(self):\n    self.x = 1\n  def f(self):\n    self.y = 2\ndef g(x:\n",
        "g",
        vec![],
        expect![[r#"
            '(' is never closed
                def g(x:
                     ^
               at <script>:6:6"#]],
    );
    check(
        "class C:\n  def __init__(self):\n    self.x = 1\n  def f(self):\n    self.y = 2\nA = B\n",
        "f",
        vec![],
        expect![[r#"
            there is no constant 'B' before this line
                A = B
                    ^
               at <script>:6:5
              help: a constant outside of functions is a number, a text, a bool, None, or a tuple of them"#]],
    );
    check(
        "class C:\n  def __init__(self):\n    self.x = 1\n  def f(self):\n    self.y = 2\n",
        "f",
        vec![],
        expect![[r#"
            C has no attribute 'y' to set
                    self.y = 2
                    ^^^^^^
               at <script>:5:5
              help: assign it in `__init__`, or declare it in the class: `y: int`"#]],
    );
    check(
        "class A:\n  def __init__(self):\n    self.b = B().a\nclass B:\n  def __init__(self):\n    self.a = A().b\n",
        "f",
        vec![],
        expect![[r#"
            2 errors
            - 'A.__init__' calls itself, and its result has no annotation
                    def __init__(self):
                        ^^^^^^^^
                 at <script>:2:7
                help: annotate the result: `-> Tensor`
            - 'B.__init__' calls itself, and its result has no annotation
                    def __init__(self):
                        ^^^^^^^^
                 at <script>:5:7
                help: annotate the result: `-> Tensor`"#]],
    );
    check(
        "def f(x: int) -> int:\n  return x\n",
        "f",
        vec![Item::str("a")],
        expect![[r#"the argument "x" of f: expected int, got str a"#]],
    );
    check(
        "def f(x: int) -> int:\n  return x\n",
        "g",
        vec![],
        expect![[r#"
        the program has no function "g"
          help: did you mean "f"?"#]],
    );
    check(
        "def f(x: int, *, y: int) -> int:\n  return x\n",
        "f",
        vec![Item::Int(1), Item::Int(2)],
        expect!["f takes 1 arguments by position, got 2"],
    );
    check(
        "import numpy as np\ndef f(x):\n  return np.array(x)\n",
        "f",
        vec![],
        expect![[r#"
        there is no 'numpy.array' in the program
              return np.array(x)
                     ^^^^^^^^
           at <script>:3:10"#]],
    );
}

#[test]
fn arguments_take_the_types_of_parameters() {
    let text = "
class Point(NamedTuple):
    x: int
    y: float
class Color(Enum):
    RED = 1
def f(a: float, b: Optional[List[float]], c: Dict[int, Tuple[int, float]], p: Point, d: Union[int, str]) -> str:
    b = [a] if b is None else b
    b.append(p.y)
    return str((a, b, c, p, d))
";
    let args = |d: Item| {
        vec![
            Item::Int(1),
            Item::ints([2]),
            Item::dict([(Item::Int(3), Item::tuple([Item::Int(4), Item::Int(5)]))]).unwrap(),
            Item::tuple([Item::Int(6), Item::Int(7)]),
            d,
        ]
    };
    check(text, "f", args(Item::str("x")), expect!["(1., [2., 7.], {3: (4, 5.)}, (6, 7.), x)"]);
    let list = args(Item::Int(8))[1].clone();
    let mut given = args(Item::Int(8));
    given[1] = list.clone();
    check(text, "f", given, expect!["(1., [2., 7.], {3: (4, 5.)}, (6, 7.), 8)"]);
    assert_eq!(list.to_items().unwrap().len(), 1);
    check(
        text,
        "f",
        args(Item::None),
        expect![[r#"the argument "d" of f: expected Union[int, str], got NoneType"#]],
    );
    let mut given = args(Item::Int(8));
    given[2] = Item::dict([(Item::Int(3), Item::tuple([Item::Int(4), Item::str("x")]))]).unwrap();
    check(
        text,
        "f",
        given,
        expect![[r#"the argument "c" of f: the value of int 3: item 1: expected float, got str x"#]],
    );
}

#[test]
fn decorators_mean_what_they_mean_in_python() {
    let text = "
@torch.jit.interface
class Act:
    def run(self, x: int) -> int:
        pass

class Twice:
    def run(self, x: int) -> int:
        return 2 * x

class Plus(object):
    def __init__(self, n: int):
        self.n = n
    @property
    def next(self) -> int:
        return self.n + 1
    @staticmethod
    def base() -> int:
        return 100
    def run(self, x: int) -> int:
        return x + self.next + Plus.base()

@torch.jit.unused
def plot(x: Tensor):
    return matplotlib.show(x)

@torch.jit.script
def f(n: int, plots: bool = False) -> int:
    act: Act = Twice()
    if n > 3:
        act = Plus(n)
    if plots:
        plot(torch.zeros([1]))
    return act.run(n)
";
    check(text, "f", vec![Item::Int(2)], expect!["4"]);
    check(text, "f", vec![Item::Int(4)], expect!["109"]);
    check(
        text,
        "f",
        vec![Item::Int(4), Item::Bool(true)],
        expect![
            "builtins.NotImplementedError: plot belongs to Python and was not compiled  at <script>:24:5"
        ],
    );
}

#[test]
fn an_error_is_told_once() {
    let text = "def f(n: int):\n  return n.x\ndef g(n: int):\n  return f(n)\n";
    check(
        text,
        "f",
        vec![Item::Int(2)],
        expect![[r#"
        the method 'x' is no value; call it
              return n.x
                     ^^^
           at <script>:2:10"#]],
    );
}

#[test]
fn tensors_convert_by_methods_named_after_dtypes() {
    let text = "
def f(x):
    ys = [x.byte(), x.char(), x.int(), x.long(), x.half(), x.float(), x.double(), x.bool(), x.bfloat16()]
    kinds = [x.is_cuda, x.is_sparse, x.is_quantized, x.is_mkldnn, x.is_meta, x.is_cpu, x.is_leaf]
    return [y.dtype for y in ys], x.type(torch.int64), x.cdouble().is_complex(), kinds
";
    let x = Item::tensor(fx::Array::from([1.5f32, -2.5])).unwrap();
    check(
        text,
        "f",
        vec![x],
        expect![[r#"
            ([0, 1, 3, 4, 5, 6, 7, 11, 15],  1
            -2
            [ CPULongType{2} ], True, [False, False, False, False, False, True, True])"#]],
    );
    check(
        "def f(n: int):\n  return n.float()\n",
        "f",
        vec![Item::Int(1)],
        expect![[r#"
        int has no method 'float'
              return n.float()
                     ^^^^^^^^^
           at <script>:2:10
          help: the value is int since <script>:1:7"#]],
    );
}

#[test]
fn tensors_index_after_an_ellipsis() {
    let text = "
def f(x: Tensor, i: Tensor, m: Tensor) -> List[Tensor]:
    y = x.clone()
    y[..., i] = 0.0
    z = x.clone()
    z[..., 0, i] += 10.0
    return [x[..., i], x[..., i, 1], x[0, ..., i], x[..., None, i], x[..., m], x[i, ..., 1:], y, z]

def plain(x: Tensor, i: Tensor, m: Tensor) -> List[Tensor]:
    y = x.clone()
    y[:, :, i] = 0.0
    z = x.clone()
    z[:, 0, i] += 10.0
    return [x[:, :, i], x[:, i, 1], x[0, :, i], x[:, :, None, i], x[:, m], x[i, :, 1:], y, z]
";
    let tensor = |array: fx::Array| Item::tensor(array).unwrap();
    let x = fx::Array::from_vec((0..24).map(|n| n as f32).collect(), &[2, 3, 4]).unwrap();
    let mask: Vec<bool> = (0..12).map(|n| n % 5 == 0).collect();
    let args = || {
        vec![
            tensor(x.clone()),
            tensor(fx::Array::from([0i64, 1])),
            tensor(fx::Array::from_vec(mask.clone(), &[3, 4]).unwrap()),
        ]
    };
    let got = shown(text, "f", args());
    assert_eq!(got, shown(text, "plain", args()));
    assert!(got.starts_with('['), "{got}");
}

#[test]
fn slices_of_lists_are_assigned_as_in_python() {
    let text = "
def f(xs: List[int]) -> List[List[int]]:
    a, b, c, d, e = xs[:], xs[:], xs[:], xs[:], xs[:]
    alias = a
    a[1:3] = [7, 8, 9]
    b[1:1] = [5, 5]
    c[-2:] = []
    d[4:2] = [6]
    e[:] = e[::-1]
    return [alias, b, c, d, e, xs[-1:0:-2], xs[::3]]
";
    let expected = "[[1, 7, 8, 9, 4, 5], [1, 5, 5, 2, 3, 4, 5], [1, 2, 3], [1, 2, 3, 4, 6, 5], [5, 4, 3, 2, 1], \
        [5, 3], [1, 4]]";
    assert_eq!(shown(text, "f", vec![Item::ints([1, 2, 3, 4, 5])]), expected);
    let error = shown("def f(xs: List[int]) -> None:\n    xs[::2] = [1]\n", "f", vec![Item::ints([1])]);
    assert!(error.contains("a slice with a step cannot be assigned") && error.contains(":2:"), "{error}");
}

#[test]
fn objects_are_sorted_by_their_method() {
    let text = "
class P:
    def __init__(self, rank: int, name: str):
        self.rank = rank
        self.name = name
    def __lt__(self, other: 'P') -> bool:
        return self.rank < other.rank

def f(ranks: List[int], reverse: bool) -> Tuple[List[str], List[str]]:
    ps = [P(rank, str(i)) for i, rank in enumerate(ranks)]
    up = sorted(ps)
    ps.sort(reverse)
    return [p.name for p in ps], [p.name for p in up]
";
    let args = |reverse: bool| vec![Item::ints([3, 1, 2, 1, 3]), Item::Bool(reverse)];
    check(text, "f", args(false), expect!["([1, 3, 2, 0, 4], [1, 3, 2, 0, 4])"]);
    check(text, "f", args(true), expect!["([0, 4, 2, 1, 3], [1, 3, 2, 0, 4])"]);
}

#[test]
fn a_session_tells_what_each_line_costs() {
    let text = "def f(n: int) -> int:\n    total = 0\n    for i in range(n):\n        total += i * i\n    return total\n";
    let program = Program::from_text(&Source::new("f.py", text)).unwrap();
    let operators = AtenOperators::new(fx::registry());
    let mut session = Session::new(program, &operators).unwrap().profiled();
    for n in [3, 4] {
        session.call_function("f", vec![Item::Int(n)], Vec::new()).unwrap();
    }
    let profile = session.profile();
    let line = profile.lines.iter().find(|line| line.source.line == 4).expect("the line ran");
    assert!(line.count >= 14, "a product and a sum ran in seven rounds: {profile}");
    assert!(profile.to_string().contains("f.py:4"), "{profile}");
}

/// PyTorch gives these results: an operator that gives other sizes shares memory where strides allow it, `ravel`
/// where the elements lie one after the other.
#[test]
fn views_with_other_sizes_share_memory_as_in_pytorch() {
    let text = "
def f(x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    x = x.clone()
    y = y.clone()
    torch.ravel(x[:, 1])[:] = -1
    x[:, 0].reshape(-1)[0] = -2
    x[:, 2].flatten()[1] = -3
    x.t().reshape(-1)[:] = -4
    x.t().flatten()[:] = -5
    x.t().ravel()[:] = -6
    x.t().contiguous()[:] = -7
    x.ravel()[4] = -8
    x[:, :2].reshape([2, 2])[1, 1] = -9
    y[:, :, 0].reshape([4])[0] = 50
    y[:, :, :2].reshape([2, 4])[0, 0] = 60
    y.transpose(0, 1).reshape([4, 3])[0, 0] = 70
    y.transpose(0, 1).reshape([2, 2, 3])[1, 0] = -10
    return x, y
";
    let numbers = |shape: &[usize]| {
        let data = (0..shape.iter().product::<usize>()).map(|i| i as f32).collect();
        fx::Tensor::from_vec(data, shape)
    };
    let tensors = [numbers(&[2, 3]), numbers(&[2, 2, 3])];
    let mut script = script(text).unwrap();
    let args = tensors.iter().map(|x| Item::of(x).unwrap()).collect();
    let run: (fx::Tensor, fx::Tensor) = script.call_values("f", args, Vec::new()).unwrap().to().unwrap();
    let lowered =
        script.lower("f").unwrap().input("x", "f32[2, 3]").input("y", "f32[2, 2, 3]").load().unwrap();
    let gm = lowered.into_module().unwrap();
    let graph: (fx::Tensor, fx::Tensor) =
        fx::Tree::from_value(&gm.call_values(&tensors.map(fx::Arg::Leaf)).unwrap()).unwrap();
    for (x, y) in [run, graph] {
        assert_eq!(x.to_vec::<f32>().unwrap(), [-2.0, 1.0, 2.0, 3.0, -9.0, -3.0]);
        let y = y.to_vec::<f32>().unwrap();
        assert_eq!(y, [50.0, 1.0, 2.0, -10.0, -10.0, -10.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    }
}

/// Behind the loop the program always raises, so nothing but the branch gives the result.
#[test]
fn a_structure_that_only_one_branch_makes_is_the_result() {
    let text = "
def f(x: Tensor):
    if bool((x > 3).any()):
        for i in [1.5]:
            return ([[2, -1]], torch.cat([x, x]), {'a': x * i, 'b': x.sum()}, [x[0], x[1] + 1])
    raise ValueError('nothing is above 3')
";
    let mut script = script(text).unwrap();
    let gm = script.lower("f").unwrap().input("x", "f32[2]").load().unwrap().into_module().unwrap();
    let x = fx::Tensor::new([1.0f32, 4.0]);
    let expected = script.call_values("f", vec![Item::of(&x).unwrap()], Vec::new()).unwrap();
    let found = gm.call_values(&[fx::Arg::Leaf(x)]).unwrap();
    let expected = fx::check::tensors(&expected.to_arg().unwrap());
    let found = fx::check::tensors(&found);
    assert_eq!((found.len(), expected.len()), (7, 7), "{found:?}");
    assert!(found.iter().zip(&expected).all(|(a, b)| a.bits_eq(b)), "{found:?}");
    let error = gm.call_values(&[fx::Arg::Leaf(fx::Tensor::new([1.0f32, 2.0]))]).unwrap_err();
    assert!(error.message().contains("nothing is above 3"), "{error}");
}
