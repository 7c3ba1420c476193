//! Lists, text, dictionaries and state in whole programs: engines, passes, copies and files agree on them.

use fx::prelude::*;
use fx::saved::{Load, Save};
use fx::{Arg, Attribute, Engine, GraphModule, Native, Program, StateCell, Type, Value};

/// Keeps a window of the last rows that it was given, counts calls, and names the latest.
fn windowed() -> GraphModule {
    let text = "graph main(%x: f32[2]) -> (f32[u0, 2], str) {
  %rows: list(f32[2]) = self.rows
  %calls: int = self.calls
  %last: optional(f32[2]) = self.last
  %n: int = num_add(%calls, 1)
  %more: list(f32[2]) = list_push(%rows, %x)
  %window: list(f32[2]) = list_slice(%more, -3, none, 1)
  %first: boolean = is_none(%last)
  %y: f32[2] = cond(%first, @keep, @mean, [%x, %last])
  %a: none = set_state(\"rows\", %window)
  %b: none = set_state(\"calls\", %n)
  %c: none = set_state(\"last\", %y)
  %small: boolean = num_lt(%n, 6)
  %checked: boolean = check(%small, \"five calls are enough\")
  %all: f32[u0, 2] = stack(%window, 0)
  %sum: f32[u0, 2] = add(%all, %y)
  %name: str = str_format(\"call {}\", [%n])
  return (%sum, %name)
}
graph keep(%x: f32[2], %last: optional(f32[2])) {
  return %x
}
graph mean(%x: f32[2], %last: optional(f32[2])) {
  %l = unwrap(%last)
  %s = add(%x, %l)
  %m = mul(%s, 0.5)
  return %m
}";
    let mut gm = GraphModule::new("Windowed", fx::parse(text).unwrap());
    let row: fx::TypeTree = Arg::Leaf(Type::Tensor("f32[2]".parse().unwrap()));
    let rows = StateCell::with_type(Arg::list([]), row.clone().list_of());
    gm.set_attribute("rows", Attribute::State(rows)).unwrap();
    gm.set_attribute("calls", Attribute::State(StateCell::new(0).unwrap())).unwrap();
    let last = StateCell::with_type(Value::None, row.optional());
    gm.set_attribute("last", Attribute::State(last)).unwrap();
    assert!(gm.lint().is_empty(), "{:?}", gm.lint());
    gm
}

fn calls(call: &dyn Fn(&[Value]) -> Result<Value>) -> Vec<String> {
    (0..6)
        .map(|i| match call(&[Tensor::new([i as f32, 1.0]).into()]) {
            Ok(Arg::Tuple(items)) => match &items[..] {
                [Arg::Leaf(sum), name] => format!("{:?} {name}", sum.to_vec::<f32>().unwrap()),
                other => panic!("{other:?}"),
            },
            Ok(other) => panic!("{other}"),
            Err(error) => error.message().to_owned(),
        })
        .collect()
}

const EXPECTED: [&str; 6] = [
    "[0.0, 2.0] \"call 1\"",
    "[0.5, 2.0, 1.5, 2.0] \"call 2\"",
    "[1.25, 2.0, 2.25, 2.0, 3.25, 2.0] \"call 3\"",
    "[3.125, 2.0, 4.125, 2.0, 5.125, 2.0] \"call 4\"",
    "[5.0625, 2.0, 6.0625, 2.0, 7.0625, 2.0] \"call 5\"",
    "five calls are enough",
];

#[test]
fn engines_keep_state_between_calls_and_leave_it_when_a_call_fails() {
    let cache = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("native-cache");
    let native = Native::new().with_cache(cache);
    for name in ["interpreter", "eager", "fused", "native"] {
        let gm = windowed();
        let found = match name {
            "interpreter" => calls(&|x| gm.call_values(x)),
            "eager" => {
                let program = gm.compile(Engine::Eager).unwrap();
                calls(&|x| program.call_values(x))
            }
            "fused" => {
                let program = gm.compile(Engine::Fused).unwrap();
                calls(&|x| program.call_values(x))
            }
            _ => {
                let args = [Tensor::new([0f32, 1.0]).into()];
                let program = Program::native_all(&[(&gm, &args)], &native).unwrap().remove(0).unwrap();
                calls(&|x| program.call_values(x))
            }
        };
        assert_eq!(found, EXPECTED, "{name}");
    }
    let gm = windowed();
    calls(&|x| gm.call_values(x));
    assert_eq!(gm.attribute("calls").unwrap().value().to_string(), "5");
}

#[test]
fn copies_have_state_of_their_own() {
    let gm = windowed();
    let copy = gm.clone();
    assert_eq!(calls(&|x| gm.call_values(x)), EXPECTED);
    assert_eq!(calls(&|x| copy.call_values(x)), EXPECTED);
}

#[test]
fn a_file_keeps_the_present_state() {
    let path = std::env::temp_dir().join(format!("fx-state-{}.fx", std::process::id()));
    let gm = windowed();
    gm.call_values(&[Tensor::new([9f32, 9.0]).into()]).unwrap();
    Save::new(&gm).write(&path).unwrap();
    let loaded = Load::new(&path).read().unwrap();
    std::fs::remove_file(&path).unwrap();
    let loaded = &loaded.module;
    assert!(loaded.lint().is_empty(), "{:?}", loaded.lint());
    for path in ["rows", "calls", "last"] {
        let (a, b) = (gm.attribute(path).unwrap(), loaded.attribute(path).unwrap());
        assert!(a.value().eq_by(&b.value(), &|a, b| a.bits_eq(b)), "{path}");
        assert_eq!(a.type_tree().unwrap(), b.type_tree().unwrap(), "{path}");
    }
    assert_eq!(calls(&|x| gm.call_values(x)), calls(&|x| loaded.call_values(x)));
}

#[test]
fn passes_keep_programs_with_state() {
    for pipeline in [
        "dead_code",
        "cse",
        "const_fold",
        "shape_prop",
        "shape_prop, canonicalize, const_fold, cse, simplify_sizes, sink, dead_code",
    ] {
        let mut gm = windowed();
        fx::Passes::parse(pipeline, &fx::pass::all()).unwrap().run(&mut gm).unwrap();
        assert_eq!(calls(&|x| gm.call_values(x)), EXPECTED, "{pipeline}");
    }
}

#[test]
fn inlined_modules_keep_their_state() {
    let text = "graph main(%x: f32[2]) {\n  %y = self.inner(%x)\n  return %y\n}";
    let mut gm = GraphModule::new("Outer", fx::parse(text).unwrap());
    gm.add_shared_submodule("inner", std::sync::Arc::new(windowed())).unwrap();
    let copy = gm.clone();
    assert_eq!(calls(&|x| copy.call_values(x)), EXPECTED);
    fx::pass::INLINE.apply(&mut gm).unwrap();
    assert!(gm.find("calls").is_ok() || gm.attribute("inner.calls").is_ok());
    assert_eq!(calls(&|x| gm.call_values(x)), EXPECTED);
}
