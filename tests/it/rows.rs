//! One row, every face: the text of each pointwise row is compiled by rustc and must give the bits of the
//! eager kernel; rows of every kind have method, function, schema, doc, shape rule on symbols, and kernel.

use std::fmt::Write as _;
use std::process::Command;

use fx::prelude::*;
use fx::{Arg, Array, Class, Kind, Op, Scalar, Stored, TypeTree, Value};
use fx_codegen::kernel;

fx::pointwise! {
    /// A table of a crate that is neither fx-core nor fx-ops.
    pub trait Own; pub static OWN;

    /// `sin(x) / x`, smoothed by `eps`: a user's own operation.
    soft_sinc(x; eps: fx::op::Default::Float(0.25)) -> Float { real: fx_math::sin(x) / (x * x + eps) }
    /// `(x - shift) * scale + offset`, whose defaults are plain numbers.
    rescaled(x; shift: 1, scale: -0.5, offset: true) -> Float { real: (x - shift) * scale + offset }
    /// Whether `x` lies within `y` of zero.
    near_zero(x, y) -> Bool { real: fx_math::abs(x) <= y, int: x.wrapping_mul(x) <= y.wrapping_mul(y) }
}
use fx::math as fx_math;

fx::rowwise! {
    /// A table of operations on rows.
    pub trait OwnRows; pub static OWN_ROWS;

    /// Rows divided by the sum of their elements and `eps`.
    shares(x; eps: fx::op::Default::Float(0.5), scale: 2) -> out {
        let sum = row::sum(x) + eps;
        for (out, x) in out.iter_mut().zip(x) {
            *out = *x * scale / sum;
        }
    }
}

fx::kernels! {
    /// A table of other operations.
    pub trait OwnKernels; pub static OWN_KERNELS;

    /// The same tensor, whatever the numbers are.
    same(x: Tensor, a: Number = 2, b: Number = -0.5, c: Number = fx::op::Default::Bool(true)) = same_type, same_value;
}

fn same_type(
    x: &fx::TensorType,
    _: fx::Category,
    _: fx::Category,
    _: fx::Category,
) -> fx::Result<fx::TensorType> {
    Ok(x.clone())
}

fn same_value(x: &Array, _: Scalar, _: Scalar, _: Scalar) -> fx::Result<Array> {
    Ok(x.clone())
}

#[test]
fn tables_take_plain_literals_as_defaults() {
    let defaults = [soft_sinc::OP, rescaled::OP, shares::OP, same::OP].map(|op| op.to_string());
    expect_test::expect![[r#"
        soft_sinc(x: operand, eps: number = 0.25)
        rescaled(x: operand, shift: number = 1, scale: number = -0.5, offset: number = true)
        shares(x: tensor, eps: number = 0.5, scale: number = 2)
        same(x: tensor, a: number = 2, b: number = -0.5, c: number = true)"#]]
    .assert_eq(&defaults.join("\n"));
    let x = Tensor::new([[1.0f32, 3.0]]);
    let (rescaled, shares): (Tensor, Tensor) = (fx::call!(rescaled(&x)), fx::call!(shares(&x)));
    assert_eq!(rescaled.array().unwrap().to_vec::<f32>().unwrap(), [1.0, 0.0]);
    assert_eq!(shares.array().unwrap().to_vec::<f32>().unwrap(), [2.0 / 4.5, 6.0 / 4.5]);
}

#[fx::wrap]
/// A user's composite, kept as one node.
fn centred(x: &Tensor, scale: f64) -> Tensor {
    (x - x.mean(-1, true)) * scale
}

const DTYPES: [DType; 7] =
    [DType::Bool, DType::U8, DType::I8, DType::I32, DType::I64, DType::F32, DType::F64];

fn all_pointwise() -> Vec<Op> {
    let mut ops: Vec<Op> = fx::registry().iter().collect();
    ops.extend(OWN);
    ops.retain(|op| matches!(op.class, Class::Pointwise(_)));
    ops
}

/// Floats that tell implementations apart.
pub(crate) const FLOATS: [f64; 18] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.3,
    -2.5,
    7.25,
    88.0,
    -103.0,
    1e-40,
    3e38,
    1e6,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.75,
    -0.5,
    2.0,
];

/// Elements that tell implementations apart, in the dtype.
fn samples(dtype: DType) -> Vec<Scalar> {
    match dtype {
        DType::Bool => [false, true, true, false].map(Scalar::Bool).to_vec(),
        DType::U8 => [0, 1, 2, 7, 100, 200, 255].map(Scalar::Int).to_vec(),
        DType::I8 => [0, 1, -1, 3, -7, 100, 127, -128].map(Scalar::Int).to_vec(),
        DType::I32 => {
            [0, 1, -1, 5, -9, 1000, i64::from(i32::MAX), i64::from(i32::MIN)].map(Scalar::Int).to_vec()
        }
        DType::I64 => [0, 1, -1, 6, -11, 1 << 40, i64::MAX, i64::MIN].map(Scalar::Int).to_vec(),
        _ => FLOATS.map(Scalar::Float).to_vec(),
    }
}

/// Every combination of samples, one list an operand.
fn operands(dtype: DType, n: usize) -> Vec<Vec<Scalar>> {
    let samples = samples(dtype);
    let total = samples.len().pow(n as u32);
    (0..n)
        .map(|k| (0..total).map(|i| samples[i / samples.len().pow(k as u32) % samples.len()]).collect())
        .collect()
}

fn array(dtype: DType, data: &[Scalar]) -> Array {
    fx::array::dispatch_dtype!(dtype, T => {
        let data: Vec<T> = data.iter().map(|&x| T::from_scalar(x)).collect();
        let n = data.len();
        Array::from_vec(data, &[n]).unwrap()
    })
}

fn literal(dtype: DType, x: Scalar) -> String {
    match dtype {
        DType::Bool => x.to_bool().to_string(),
        DType::F32 => format!("f32::from_bits(0x{:x})", (x.to_f64() as f32).to_bits()),
        DType::F64 => format!("f64::from_bits(0x{:x})", x.to_f64().to_bits()),
        _ => {
            // A parameter is brought into the dtype as the eager kernel does it.
            let x = fx::array::dispatch_dtype!(dtype, T => T::from_scalar(x).to_scalar());
            format!("({}i64 as {dtype})", x.to_i64())
        }
    }
}

/// The elements as hexadecimal bits; every NaN is the same, since the processor may choose its sign.
fn bits(array: &Array) -> String {
    let mut text = String::new();
    for x in array.iter_scalars() {
        match (array.dtype(), x) {
            (_, Scalar::Float(x)) if x.is_nan() => text.push_str("nan "),
            (DType::F32, x) => write!(text, "{:x} ", (x.to_f64() as f32).to_bits()).unwrap(),
            (_, Scalar::Float(x)) => write!(text, "{:x} ", x.to_bits()).unwrap(),
            (_, x) => write!(text, "{:x} ", x.to_i64()).unwrap(),
        }
    }
    text
}

#[test]
fn generated_kernels_have_the_bits_of_the_eager_kernels() {
    let mut program = String::from("#![allow(warnings)]\n#[allow(dead_code)]\nmod math {\n");
    program.push_str(kernel::MATH);
    program.push_str("\n}\nuse math as fx_math;\n");
    let mut main = String::from("trait Bits { fn bits(&self) -> String; }\n");
    for (ty, body) in [
        ("f32", "if self.is_nan() { \"nan\".into() } else { format!(\"{:x}\", self.to_bits()) }"),
        ("f64", "if self.is_nan() { \"nan\".into() } else { format!(\"{:x}\", self.to_bits()) }"),
        ("bool", "format!(\"{:x}\", *self as i64)"),
        ("u8", "format!(\"{:x}\", *self as i64)"),
        ("i8", "format!(\"{:x}\", *self as i64)"),
        ("i32", "format!(\"{:x}\", *self as i64)"),
        ("i64", "format!(\"{:x}\", *self)"),
    ] {
        writeln!(main, "impl Bits for {ty} {{ fn bits(&self) -> String {{ {body} }} }}").unwrap();
    }
    main.push_str("fn show<T: Bits>(name: &str, out: &[T]) {\n    print!(\"{name}: \");\n    for x in out { print!(\"{} \", x.bits()); }\n    println!();\n}\n");
    main.push_str("fn operand<T: Copy>(samples: &[T], k: u32, n: usize) -> Vec<T> {\n    (0..n).map(|i| samples[i / samples.len().pow(k) % samples.len()]).collect()\n}\n");
    let mut calls = String::new();
    let mut expected = String::new();
    let mut n_kernels = 0;
    for op in all_pointwise() {
        let Class::Pointwise(def) = op.class else { continue };
        for dtype in DTYPES {
            let Ok(text) = kernel::pointwise(op, dtype) else { continue };
            let lists = operands(dtype, def.operands.len());
            let mut args: Vec<Value> =
                lists.iter().map(|list| Arg::Leaf(Tensor::from(array(dtype, list)))).collect();
            let params = &op.params[def.operands.len()..];
            args.extend(params.iter().map(|param| param.default.expect("a default").to_arg::<Tensor>()));
            // Where the eager kernel refuses the operands, as division by zero is, there is nothing to compare.
            let Ok(value) = (op.eval)(&args) else { continue };
            let result = value.leaf().unwrap().array().unwrap().clone();
            if !matches!(result.dtype(), DType::Bool) && result.dtype() != dtype {
                // Integers are promoted to floats first, and the float kernel is compared on its own.
                continue;
            }
            n_kernels += 1;
            program.push_str(&text);
            let name = kernel::function_name(op, dtype);
            writeln!(calls, "fn call_{name}() {{").unwrap();
            let items: Vec<String> = samples(dtype).iter().map(|&x| literal(dtype, x)).collect();
            writeln!(calls, "    let samples = vec![{}];", items.join(", ")).unwrap();
            for i in 0..lists.len() {
                writeln!(calls, "    let x{i} = operand(&samples, {i}, {});", lists[0].len()).unwrap();
            }
            let out_type = result.dtype();
            writeln!(calls, "    let mut out = vec![<{out_type}>::default(); {}];", lists[0].len()).unwrap();
            let operand_list: String = (0..lists.len()).map(|i| format!("&x{i}, ")).collect();
            let param_list: String = params
                .iter()
                .map(|param| {
                    literal(dtype, param.default.unwrap().to_arg::<Tensor>().scalar().unwrap()) + ", "
                })
                .collect();
            writeln!(calls, "    {name}({operand_list}{param_list}&mut out);").unwrap();
            writeln!(calls, "    show(\"{name}\", &out);\n}}").unwrap();
            writeln!(expected, "{name}: {}", bits(&result)).unwrap();
        }
    }
    assert!(n_kernels > 60, "only {n_kernels} kernels");
    program.push_str(&main);
    program.push_str(&calls);
    program.push_str("fn main() {\n");
    for line in expected.lines() {
        writeln!(program, "    call_{}();", line.split(':').next().unwrap()).unwrap();
    }
    program.push_str("}\n");

    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rows");
    std::fs::create_dir_all(&dir).unwrap();
    let (source, binary) = (dir.join("rows.rs"), dir.join("rows"));
    std::fs::write(&source, program).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(rustc)
        .args(["--edition=2024", "-C", "opt-level=1", "-o"])
        .arg(&binary)
        .arg(&source)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&binary).output().unwrap();
    let got = String::from_utf8(output.stdout).unwrap();
    for (got, expected) in got.lines().zip(expected.lines()) {
        assert_eq!(got, expected);
    }
    assert_eq!(got.lines().count(), expected.lines().count());
}

/// The type of each operand with sizes as symbols.
fn symbolic(types: &[&str]) -> Vec<TypeTree> {
    types.iter().map(|text| text.parse::<fx::TensorType>().unwrap().into()).collect()
}

#[test]
fn a_users_row_has_the_standing_of_a_built_in_one() {
    let x = Tensor::new([[1.0f32, -2.0], [0.0, 3.5]]);
    let own = x.soft_sinc(0.25);
    assert!(own.bits_eq(&soft_sinc(&x, 0.25)));
    assert!(x.near_zero(1.5).bits_eq(&Tensor::new([[true, false], [true, false]])));
    assert_eq!(soft_sinc::OP.to_string(), "soft_sinc(x: operand, eps: number = 0.25)");
    assert!(soft_sinc::OP.doc.contains("user's own operation"));
    let ty =
        soft_sinc::OP.infer(&[symbolic(&["i64[n, 2*m]"])[0].clone(), Arg::Float(0.25)]).unwrap().unwrap();
    assert_eq!(ty.to_string(), "f32[n, 2*m]");

    let gm = fx::trace(|x: &Tensor| centred(&x.soft_sinc(0.5), 2.0)).input("x", "f32[n, 2]").build().unwrap();
    let text = gm.graph().to_string();
    assert!(text.contains("%x.soft_sinc(eps=0.5)") && text.contains("centred(%soft_sinc, 2.0)"), "{text}");
    assert!(gm.call(std::slice::from_ref(&x)).unwrap().bits_eq(&centred(&x.soft_sinc(0.5), 2.0)));
    let again = fx::symbolic_trace(&gm).unwrap();
    assert!(again.graph().find("centred").is_some());
    let registry = fx::registry().with(OWN).unwrap().with(&[centred::OP]).unwrap();
    assert!(fx::Graph::parse(&text, &registry).is_ok());
    let unknown = fx::Graph::parse(&text, &fx::registry()).unwrap_err().to_string();
    assert!(unknown.contains("soft_sinc") && unknown.contains("centred"), "{unknown}");
}

/// One call of a row of each kind: the operation, its schema, operands, literals after them, and the type
/// that the shape rule gives on symbols.
struct Face {
    op: Op,
    schema: &'static str,
    operands: &'static [&'static str],
    literals: fn() -> Vec<Value>,
    ty: &'static str,
}

#[test]
fn rows_of_every_kind_have_schema_doc_and_a_rule_on_symbols() {
    let faces = [
        Face {
            op: fx::sum::OP,
            schema: "sum(x: tensor, dim: axes = none, keepdim: bool = false, *, dtype: dtype? = none)",
            operands: &["f32[a, b, c]"],
            literals: || vec![Arg::ints([0, 2]), Arg::Bool(true), Arg::None],
            ty: "f32[1, b, 1]",
        },
        Face {
            op: fx::matmul::OP,
            schema: "matmul(x: tensor, other: tensor)",
            operands: &["f32[batch, n, k]", "f32[k, m]"],
            literals: Vec::new,
            ty: "f32[batch, n, m]",
        },
        Face {
            op: fx::transpose::OP,
            schema: "transpose(x: tensor, dim0: int, dim1: int)",
            operands: &["f32[a, b]"],
            literals: || vec![Arg::Int(0), Arg::Int(-1)],
            ty: "f32[b, a]",
        },
        Face {
            op: fx::reshape::OP,
            schema: "reshape(x: tensor, shape: shape)",
            operands: &["f32[n, 4, 3]"],
            literals: || vec![Arg::ints([-1, 6])],
            ty: "f32[2*n, 6]",
        },
        Face {
            op: fx::add::OP,
            schema: "add(x: operand, y: operand, alpha: number = 1)",
            operands: &["i64[n, 1]", "f32[5]"],
            literals: || vec![Arg::Int(1)],
            ty: "f32[n, 5]",
        },
        Face {
            op: fx::softmax::OP,
            schema: "softmax(x: tensor, dim: int, *, dtype: dtype? = none)",
            operands: &["f16[n, k]"],
            literals: || vec![Arg::Int(-1), Arg::None],
            ty: "f16[n, k]",
        },
    ];
    for Face { op, schema, operands, literals, ty } in faces {
        assert_eq!(op.to_string(), schema);
        assert!(op.doc.len() > 20, "{} has no doc", op.name);
        let mut args = symbolic(operands);
        args.extend(literals().iter().map(|arg| arg.try_flat_map(&mut |_| Ok(Arg::None)).unwrap()));
        assert_eq!(op.infer(&args).unwrap().unwrap().to_string(), ty, "{}", op.name);
        // The same call with 2, 3, 4, … for the symbols: the kernel gives what the rule says.
        let mut size = 1;
        let mut sizes = std::collections::BTreeMap::new();
        let mut concrete: Vec<Value> = Vec::new();
        for ty in symbolic(operands) {
            let ty = ty.tensor().unwrap().clone();
            let shape: Vec<usize> = ty
                .shape
                .iter()
                .map(|dim| {
                    let value = dim.eval(&|_| None).unwrap_or_else(|_| {
                        *sizes.entry(dim.to_string()).or_insert_with(|| {
                            size += 1;
                            size
                        })
                    });
                    value as usize
                })
                .collect();
            concrete.push(Arg::Leaf(Tensor::from(Array::zeros(ty.dtype, &shape))));
        }
        let bind = |symbol: &fx::Symbol| sizes.get(symbol.name()).copied();
        let expected: fx::TensorType = ty.parse().unwrap();
        let expected: Vec<i64> = expected.shape.iter().map(|dim| dim.eval(&bind).unwrap()).collect();
        concrete.extend(literals());
        let value = (op.eval)(&concrete).unwrap();
        let got: Vec<i64> =
            value.leaf().unwrap().array().unwrap().shape().iter().map(|&n| n as i64).collect();
        assert_eq!(got, expected, "{}", op.name);
    }
    assert!(fx::registry().iter().all(|op| !op.doc.trim().is_empty()
        && op.params.iter().all(|p| p.kind != Kind::Graph || p.default.is_none())));
}
