//! Operations that are composed of others, as kernels of these.

use fx::prelude::*;
use fx::{Engine, Value};

use super::{agree, numbers, program, steps, values};

#[test]
fn sums_of_products_by_names_are_products() {
    for (equation, a, b) in [
        ("bij,bjk->bik", &[3, 7, 5][..], &[3, 5, 9][..]),
        ("bhid,bhjd->bhij", &[2, 3, 17, 8], &[2, 3, 11, 8]),
        ("bnhd,bmhd->bhnm", &[2, 13, 3, 8], &[2, 7, 3, 8]),
        ("ij,kj->ik", &[40, 33], &[70, 33]),
        ("i,j->ij", &[30], &[50]),
        ("...ij,...j->...i", &[2, 3, 6, 4], &[2, 3, 4]),
        ("ij,ij->", &[5, 6], &[5, 6]),
    ] {
        let gm = program(&format!(
            "graph main(%x: f32{a:?}, %y: f32{b:?}) {{
                %a = einsum({equation:?}, [%x, %y])
                %b = mul(%a, 0.5)
                return %b
            }}"
        ));
        agree(&gm, &values(&[numbers(a, 1), numbers(b, 2)]), false);
        assert_eq!(steps(&gm).1, 0, "{equation}");
    }
}

#[test]
fn attention_by_names_of_axes_is_one_kernel() {
    let gm = program(
        "graph main(%q: f32[2, 19, 4, 16], %k: f32[2, 23, 4, 16], %v: f32[2, 23, 4, 16]) {
            %scores = einsum(\"bqhd,bkhd->bhqk\", [%q, %k])
            %scaled = mul(%scores, 0.25)
            %shares = softmax(%scaled, -1)
            %out = einsum(\"bhqk,bkhd->bqhd\", [%shares, %v])
            return %out
        }",
    );
    let shape = |n| [2, n, 4, 16];
    agree(&gm, &values(&[numbers(&shape(19), 1), numbers(&shape(23), 2), numbers(&shape(23), 3)]), false);
    let text = gm.compile(fx::Engine::Fused).unwrap().fused().unwrap().describe();
    assert!(text.contains("attention"), "{text}");
}

#[test]
fn gates_shuffles_and_norms_are_kernels() {
    for (call, shape) in [
        ("glu(%a, 1)", &[3, 10, 7][..]),
        ("glu(%a)", &[5, 64]),
        ("pixel_shuffle(%a, 2)", &[2, 12, 5, 7]),
        ("pixel_unshuffle(%a, 2)", &[2, 3, 6, 8]),
        ("channel_shuffle(%a, 3)", &[2, 12, 5, 7]),
        ("normalize(%a)", &[3, 17, 16]),
        ("normalize(%a, dim=-1)", &[3, 17, 5]),
        ("normalize(%a, 1.0, -1)", &[33, 40]),
        ("linalg_vector_norm(%a, dim=[-1], keepdim=true)", &[9, 21]),
        ("cosine_similarity(%a, %x, -1)", &[9, 21]),
        ("linalg_vector_norm(%huge, dim=[1])", &[9, 21]),
        ("linalg_vector_norm(%huge, 1.0)", &[9, 21]),
        ("tensordot(%a, %x, [[1, 2], [1, 2]])", &[4, 5, 6]),
        ("inner(%a, %x)", &[4, 30]),
    ] {
        let gm = program(&format!(
            "graph main(%x: f32{shape:?}) {{
                %a = sub(%x, 0.25)
                %huge = mul(%a, 1e30)
                %b = {call}
                %c = tanh(%b)
                return %c
            }}"
        ));
        agree(&gm, &values(&[numbers(shape, 1)]), false);
        assert_eq!(steps(&gm).1, 0, "{call}");
    }
}

#[test]
fn conversions_are_part_of_kernels() {
    for from in DType::ALL {
        for to in DType::ALL {
            let gm = program(&format!(
                "graph main(%x: {from}[3, 70], %y: f32[70]) {{
                    %a = to(%x, {to})
                    %b = to(%a, f32)
                    %c = mul(%b, %y)
                    %s = sum(%c, [1])
                    %t = to(%s, f64)
                    return (%a, %c, %t)
                }}"
            ));
            let x = (numbers(&[3, 70], 1) * 30.0).to(*from);
            agree(&gm, &values(&[x, numbers(&[70], 2)]), false);
            assert_eq!(steps(&gm), (1, 0), "{from} {to}");
        }
    }
}

#[test]
fn sizes_that_may_be_one_repeat_as_they_do_in_the_operation() {
    for call in ["einsum(\"ij,jk->ik\", [%x, %y])", "tensordot(%x, %y, [[1], [0]])"] {
        let gm = program(&format!("graph main(%x: f32[n, m], %y: f32[4, 3]) {{\n%a = {call}\nreturn %a\n}}"));
        for m in [1, 4] {
            agree(&gm, &values(&[numbers(&[2, m], 1), numbers(&[4, 3], 2)]), false);
        }
        let program = gm.compile(fx::Engine::Fused).unwrap();
        assert!(program.call_values(&values(&[numbers(&[2, 3], 1), numbers(&[4, 3], 2)])).is_err());
    }
}

#[test]
fn views_of_results_that_share_storage_begin_where_these_do() {
    let gm = program(
        "graph main<u0: ..>(%x: f32[40], %i: i64[]) {
            %at: <u0> = item(%i)
            %part = narrow(%x, 0, %at, 12)
            %rows = reshape(%part, [3, 4])
            %turned = transpose(%rows, 0, 1)
            %twice = sort(%turned)
            %lines = slice(%rows, 0, 1, 3)
            %sums = cumsum(%lines, 1)
            %one = select(%rows, 1, 2)
            return (%twice, %sums, %one)
        }",
    );
    for at in [0, 1, 17, 28] {
        let at = fx::Tensor::from(fx::Array::scalar(at as i64));
        agree(&gm, &values(&[numbers(&[40], 1), at]), false);
    }
}

/// Divisions of integers by numbers are parts of a kernel; those by tensors check their elements.
#[test]
fn integers_are_divided_by_numbers_in_one_kernel() {
    for dtype in [DType::I64, DType::I32, DType::I8, DType::U8] {
        let text = |n: &str, quotient: &str| {
            format!(
                "graph main(%x: {dtype}[{n}], %y: {dtype}[{n}]) {{
                    %a = mul(%x, 3)
                    %b = add(%a, %y)
                    %c = {quotient}
                    %d = remainder(%c, 5)
                    %e = trunc_divide(%y, 3)
                    %f = fmod(%y, 4)
                    %g = pow(%f, 2)
                    %s = add(%e, %g)
                    return [%d, %s]
                }}"
            )
        };
        let gm = program(&text("n", "floor_divide(%b, 7)"));
        for n in [0, 1, 7, 1000] {
            let spread = |seed: u64| {
                let wide = numbers(&[n], seed) * if dtype == DType::I64 { 1e17 } else { 60.0 };
                Value::from(&wide.to(DType::I64).to(dtype))
            };
            agree(&gm, &[spread(1), spread(2)], true);
        }
        assert_eq!(steps(&program(&text("9", "floor_divide(%b, 7)"))), (1, 0), "{dtype}");
        let [ones, zeros] = [fx::ones([9]), fx::zeros([9])].map(|x| Value::from(&x.to(dtype)));
        for quotient in ["floor_divide(%b, 0)", "floor_divide(%b, %y)"] {
            let gm = program(&text("9", quotient));
            let error =
                gm.compile(Engine::Fused).unwrap().call_values(&[ones.clone(), zeros.clone()]).unwrap_err();
            assert!(error.message().contains("integer division by zero"), "{error}");
        }
    }
}

/// A plan for one size is not bound to another that is zero as an integer of eight bits.
#[test]
fn integers_are_divided_by_sizes_as_the_operation_does() {
    for (dtype, call) in [DType::I8, DType::U8, DType::I64].into_iter().flat_map(|dtype| {
        ["floor_divide", "remainder", "trunc_divide", "fmod", "pow"].map(|call| (dtype, call))
    }) {
        let gm = program(&format!(
            "graph main(%x: {dtype}[4], %y: f32[n]) {{
                %n = size(%y, 0)
                %z = {call}(%x, %n)
                return %z
            }}"
        ));
        let compiled = gm.compile(Engine::Fused).unwrap();
        let x = Value::from(&fx::Tensor::new([1i64, 7, 100, -9]).to(dtype));
        for n in [5, 6, 255, 300, 512, 0, 1] {
            let args = [x.clone(), Value::from(&fx::ones([n]))];
            let text = |result: fx::Result<Value>| match result {
                Ok(value) => value.to_string(),
                Err(error) => error.message().to_owned(),
            };
            assert_eq!(text(compiled.call_values(&args)), text(gm.call_values(&args)), "{dtype} {call} {n}");
        }
    }
}
