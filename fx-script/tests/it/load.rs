//! Programs out of archives.

use expect_test::{Expect, expect};
use fx_core::Result;
use fx_script::archive::{Archive, MemoryMembers};
use fx_script::load::*;
use fx_script::pickle::{self, Builder, Node, NodeRef, ScalarType, StorageInfo, TensorInfo};
use fx_script::value::Value;

const CODE: &str = r#"class Net(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  __annotations__["0"] = __torch__.Part
  weight : Tensor
  sizes : List[int]
  names : Dict[str, Optional[int]]
  mode : Union[int, str]
  color : __torch__.Color
  scale : Final[float] = 0.5
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    weight = self.weight
    return torch.mul(x, weight)
class Part(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  weight : Tensor
class Color(Enum):
  RED = 1
  GREEN = 2
"#;

/// Reads a program whose attributes were changed.
fn program(change: impl Fn(&mut Builder, &mut Vec<(&'static str, NodeRef)>)) -> Result<Program> {
    program_of(CODE, change)
}

/// Reads a program of this code, whose attributes by name were changed.
fn program_of(
    code: &str,
    change: impl Fn(&mut Builder, &mut Vec<(&'static str, NodeRef)>),
) -> Result<Program> {
    let mut b = Builder::default();
    let info = StorageInfo { scalar_type: ScalarType::Float, key: "0".into(), numel: 4 };
    let storage = b.add(Node::Storage(info));
    let view = |b: &mut Builder, strides: [usize; 2]| {
        b.add(Node::Tensor(TensorInfo {
            storage,
            offset: 0,
            sizes: vec![2, 2],
            strides: strides.to_vec(),
            quantizer: None,
            requires_grad: true,
        }))
    };
    let (weight, transposed) = (view(&mut b, [2, 1]), view(&mut b, [1, 2]));
    let key = b.text("weight");
    let state = b.add(Node::Dict(vec![(key, transposed)]));
    let part = b.add(Node::Object { class: "__torch__.Part".into(), state });
    let (one, two, none) = (b.add(Node::Int(1)), b.add(Node::Int(2)), b.add(Node::None));
    let sizes = b.add(Node::List(vec![one, two]));
    let (k, l) = (b.text("k"), b.text("l"));
    let names = b.add(Node::Dict(vec![(k, one), (l, none)]));
    let mode = b.text("sum");
    let color = b.add(Node::Enum { class: "__torch__.Color".into(), value: two });
    let mut attributes = vec![
        ("0", part),
        ("weight", weight),
        ("sizes", sizes),
        ("names", names),
        ("mode", mode),
        ("color", color),
    ];
    change(&mut b, &mut attributes);
    let entries = attributes.iter().map(|&(name, value)| (b.text(name), value)).collect();
    let state = b.add(Node::Dict(entries));
    let root = b.add(Node::Object { class: "__torch__.Net".into(), state });
    let floats = [1f32, 2., 3., 4.].iter().flat_map(|x| x.to_le_bytes()).collect();
    let members = [
        ("m/data.pkl", pickle::write(&b.finish(root)?)),
        ("m/data/0", floats),
        ("m/constants.pkl", b"\x80\x02).".to_vec()),
        ("m/version", b"3\n".to_vec()),
        ("m/code/__torch__.py", code.as_bytes().to_vec()),
    ];
    let members = members.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    Program::load(&Archive::open(MemoryMembers(members))?)
}

#[test]
fn attributes_have_their_declared_types() {
    let program = program(|_, _| {}).unwrap();
    expect![[r#"
        Net
          0: Part
            weight: Tensor, parameter = f32[2, 2]
          weight: Tensor, parameter = f32[2, 2]
          sizes: List[int] = [1, 2]
          names: Dict[str, Optional[int]] = {k: 1, l: None}
          mode: Union[int, str] = sum
          color: Color = Enum<Color.GREEN>
          scale: float, final = 0.5

        class Net:
          def forward(self: Net,
              x: Tensor) -> Tensor:
            weight = self.weight
            return torch.mul(x, weight)
    "#]]
    .assert_eq(&program.to_string());
}

#[test]
fn tensors_of_one_storage_see_each_others_writes() {
    let program = program(|_, _| {}).unwrap();
    let weight = program.root.get("weight").unwrap();
    let part = program.root.get("0").unwrap();
    let transposed = part.to_object().unwrap().get("weight").unwrap();
    let (weight, transposed) = (weight.to_tensor().unwrap(), transposed.to_tensor().unwrap());
    assert!(weight.shares_storage(transposed) && weight.requires_grad());
    weight.write(&fx_core::Array::scalar(7f32)).unwrap();
    assert_eq!(transposed.array().unwrap().to_vec::<f32>().unwrap(), [7.; 4]);
}

fn refused(change: impl Fn(&mut Builder, &mut Vec<(&'static str, NodeRef)>), expected: Expect) {
    expected.assert_eq(&program(change).unwrap_err().to_string());
}

#[test]
fn wrong_attributes_are_refused_by_path() {
    refused(
        |b, attributes| attributes[2].1 = b.add(Node::Int(5)),
        expect!["expected List[int], got an int  in the given members, data.pkl, self.sizes"],
    );
    refused(
        |b, attributes| {
            let wrong = b.text("x");
            attributes[2].1 = b.add(Node::List(vec![wrong]));
        },
        expect!["expected int, got a string  in the given members, data.pkl, self.sizes"],
    );
    refused(
        |_, attributes| {
            attributes.remove(1);
        },
        expect![[r#"the attribute "weight" of __torch__.Net is missing  in the given members, data.pkl"#]],
    );
    refused(
        |b, attributes| attributes.push(("more", b.add(Node::Int(1)))),
        expect![[r#"the class __torch__.Net has no attribute "more"  in the given members, data.pkl"#]],
    );
    refused(
        |b, attributes| {
            let value = b.add(Node::Int(9));
            attributes[5].1 = b.add(Node::Enum { class: "__torch__.Color".into(), value });
        },
        expect![[
            r#"the enumeration __torch__.Color has no member of this value  in the given members, data.pkl, self.color"#
        ]],
    );
    refused(
        |b, attributes| {
            let state = b.add(Node::Dict(Vec::new()));
            attributes[0].1 = b.add(Node::Object { class: "__torch__.Gone".into(), state });
        },
        expect![[
            r#"expected __torch__.Part, got an object of __torch__.Gone  in the given members, data.pkl, self.0"#
        ]],
    );
    refused(
        |b, attributes| {
            let state = b.add(Node::Dict(Vec::new()));
            attributes[0].1 = b.add(Node::Object { class: "__torch__.Part".into(), state });
        },
        expect![[
            r#"the attribute "weight" of __torch__.Part is missing  in the given members, data.pkl, self.0"#
        ]],
    );
}

#[test]
fn old_operators_keep_their_meaning() {
    assert_eq!(upgrade("aten::div", 3), Some(Upgrade::TruncatingDivision));
    assert_eq!(upgrade("aten::div", 4), None);
    assert_eq!(upgrade("aten::gelu", 9), Some(Upgrade::ExactGelu));
    assert_eq!(upgrade("aten::add", 1), None);
}

fn code_refused(from: &str, to: &str, expected: Expect) {
    let outcome = program_of(&CODE.replace(from, to), |_, _| {});
    expected.assert_eq(&outcome.unwrap_err().to_string());
}

#[test]
fn wrong_code_is_refused_with_its_line() {
    code_refused(
        "torch.mul(x",
        "torch.no_such_operator(x",
        expect![[r#"
        PyTorch has no operator "aten::no_such_operator"
                return torch.no_such_operator(x, weight)
                       ^^^^^^^^^^^^^^^^^^^^^^
           at the given members, code/__torch__.py:14:12
          help: the code is damaged, or calls an operator of another library, which fx does not know"#]],
    );
    code_refused(
        "weight : Tensor",
        "weight : Weights",
        expect![[r#"
            2 errors
            - there is no type "Weights"
                    weight : Weights
                             ^^^^^^^
                 at the given members, code/__torch__.py:5:12
                help: types are Tensor, int, float, bool, str, List[..], Optional[..] and the classes of the program
            - there is no type "Weights"
                    weight : Weights
                             ^^^^^^^
                 at the given members, code/__torch__.py:18:12
                help: types are Tensor, int, float, bool, str, List[..], Optional[..] and the classes of the program"#]],
    );
    code_refused(
        "class Color(Enum)",
        "class Color(Flag)",
        expect![[r#"
            expected an attribute with its type, or a method
                  RED = 1
                  ^^^^^^^
               at the given members, code/__torch__.py:20:3
              help: write the type: `name : int = 1`"#]],
    );
    code_refused(
        "  sizes : List[int]",
        "  sizes[0] = 1",
        expect![[r#"
            expected an attribute with its type, or a method
                  sizes[0] = 1
                  ^^^^^^^^^^^^
               at the given members, code/__torch__.py:6:3"#]],
    );
    let deep = format!("{}int{}", "List[".repeat(100_000), "]".repeat(100_000));
    assert!(program_of(&CODE.replace("List[int]", &deep), |_, _| {}).is_err());
}

const CALLS: &str = r#"class Net(Module):
  __parameters__ = []
  __buffers__ = []
  __forward_hooks__ = ["after", ]
  __forward_pre_hooks__ = ["before", ]
  sizes : List[int]
  color : __torch__.Color
  scale : Final[int] = 3
  def forward(self: __torch__.Net,
    n: int,
    k: int=5) -> int:
    scale = self.scale
    sizes = self.sizes
    _0 = torch.append(sizes, n)
    return torch.add(torch.mul(n, scale), k)
  def total(self: __torch__.Net) -> int:
    sizes = self.sizes
    return torch.len(sizes)
  def before(self: __torch__.Net,
    inputs: Tuple[int, int]) -> Tuple[int, int]:
    a, b, = inputs
    return (torch.add(a, 1), b)
  def after(self: __torch__.Net,
    inputs: Tuple[int, int],
    output: int) -> int:
    return torch.mul(output, 10)
class Color(Enum):
  RED = 1
  GREEN = 2
"#;

#[test]
fn calls_have_hooks_defaults_and_state() {
    let only = |_: &mut Builder, attributes: &mut Vec<(&'static str, NodeRef)>| {
        attributes.retain(|(name, _)| matches!(*name, "sizes" | "color"));
    };
    let mut session = Session::new(program_of(CALLS, only).unwrap(), &fx_script::vm::NoOperators).unwrap();
    let mut call = |method: &str, args: &[i64], kwargs: &[(&str, i64)]| {
        let args = args.iter().map(|&n| Value::Int(n)).collect();
        let kwargs = kwargs.iter().map(|&(name, n)| (name.to_owned(), Value::Int(n))).collect();
        session.call(method, args, kwargs).map(|value| fx_script::value::shown(&value).unwrap())
    };
    assert_eq!(call("forward", &[1], &[]).unwrap(), "110");
    assert_eq!(call("forward", &[1], &[("k", 0)]).unwrap(), "60");
    assert_eq!(call("total", &[], &[]).unwrap(), "4");
    let message = |outcome: Result<String>| outcome.unwrap_err().to_string();
    expect![[r#"
        the program has no method "forwards"
          help: did you mean "forward"?"#]]
    .assert_eq(&message(call("forwards", &[], &[])));
    expect![[r#"
        __torch__.Net.forward has no parameter "m"
          help: did you mean "k" or "n"?"#]]
    .assert_eq(&message(call("forward", &[], &[("m", 1)])));
    expect![[r#"the argument "n" of __torch__.Net.forward is missing"#]].assert_eq(&message(call(
        "forward",
        &[],
        &[],
    )));
}
