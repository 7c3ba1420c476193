//! Crates of programs whose loops are in the graph: sizes that grow from round to round, numbers that data decide,
//! branches that give other sizes.

use fx::prelude::*;
use fx::{CrateOptions, GraphModule, Value};

use super::{cargo, reproduces};
use crate::scripted::decoding::{beam, greedy_graph};
use crate::scripted::examples::{fixed_point, states};

/// Writes `x`, its powers and a last row, as many as `n` says.
#[fx::script]
fn powers(x: &Tensor, n: &Tensor) -> Tensor {
    let mut all = x.unsqueeze(0);
    for i in 0..n {
        let last = all.select(0, -1);
        let next = if i.remainder(2).eq(0) { &last * x } else { &last + i };
        all = fx::cat([&all, &next.unsqueeze(0)], 0);
    }
    fx::cat([&all, &all.sum(0, true)], 0)
}

/// Doubles `x` in length until its sum is large, and swaps two values of the same size on the way.
#[fx::script]
fn doubled(x: &Tensor, limit: &Tensor) -> (Tensor, Tensor, Tensor) {
    let (mut a, mut b) = (x.clone(), x * 2.0);
    let mut rounds = fx::zeros([1]);
    while a.sum((), false).lt(limit) {
        let longer = fx::cat([&a, &b], 0);
        b = fx::cat([&b, &a], 0) + 1.0;
        a = longer;
        rounds = rounds + 1.0;
    }
    (a, b, rounds)
}

/// A triangle of differences: a loop whose size shrinks, in a loop whose size grows.
#[fx::script]
fn nested(x: &Tensor, n: &Tensor) -> Tensor {
    let mut out = x.clone();
    for i in 0..n {
        let mut part = x + &i;
        for _ in 0..&i {
            part = part.narrow(0, 1, part.dim(0) - 1) - part.narrow(0, 0, part.dim(0) - 1);
        }
        out = fx::cat([&out, &part.cumsum(0)], 0);
    }
    out
}

/// Three recurrences that take each other's places; the sizes stay.
#[fx::script]
fn rotating(x: &Tensor, n: &Tensor) -> Tensor {
    let (mut a, mut b, mut c) = (x.clone(), x + 1.0, x * 3.0);
    for _ in 0..n {
        let old = a.clone();
        a = b;
        b = c;
        c = old + &a;
    }
    fx::stack([&a, &b, &c], 0)
}

/// One of two branches gives more than it takes.
#[fx::script]
fn chosen(x: &Tensor) -> Tensor {
    let y = if x.sum((), false).gt(0.0) { fx::cat([x, x], 0) } else { x.narrow(0, 1, x.dim(0) - 1) };
    y.cumsum(0) - y.mean((), false)
}

fn sets(all: &[(Tensor, Option<i64>)]) -> CrateOptions {
    all.iter().fold(CrateOptions::new(), |options, (x, n)| {
        let n = n.map(|n| Value::from(&Tensor::new(n)));
        options.record(&[Some(Value::from(x)), n].into_iter().flatten().collect::<Vec<_>>())
    })
}

fn line(n: usize) -> Tensor {
    Tensor::from_vec((0..n).map(|i| ((i * 5 + 2) % 7) as f32 * 0.25 - 0.5).collect(), &[n])
}

#[test]
fn sizes_that_grow_in_a_loop() {
    let gm = fx::trace(powers).input("x", "f32[m]").input("y", "i64[]").build().unwrap();
    let options = sets(&[(line(3), Some(0)), (line(3), Some(4)), (line(5), Some(1)), (line(1), Some(9))]);
    let dir = reproduces(&gm, "powers", options);
    let text = std::fs::read_to_string(dir.join("src/model.rs")).unwrap();
    assert!(text.contains("for i in 0..") && text.contains("grow(&mut s."), "{text}");

    for (dtype, name) in [(DType::F16, "powers_f16"), (DType::I32, "powers_i32")] {
        let gm = fx::trace(powers).input("x", &*format!("{dtype}[m]")).input("y", "i64[]").build().unwrap();
        let set = |m: usize, n: i64| ((line(m) * 4.0).to(dtype), Some(n));
        reproduces(&gm, name, sets(&[set(3, 4), set(0, 2), set(7, 0), set(1, -3)]));
    }

    let gm = fx::trace(doubled).input("x", "f32[m]").input("y", "f32[]").build().unwrap();
    let set = |n: usize, limit: f32| [Value::from(&line(n)), Value::from(&Tensor::new(limit))];
    let options = CrateOptions::new().record(&set(3, -9.0)).record(&set(5, 40.0)).record(&set(8, 500.0));
    reproduces(&gm, "doubled", options);
}

#[test]
fn loops_within_loops_and_within_branches() {
    let gm = fx::trace(nested).input("x", "f32[m]").input("y", "i64[]").build().unwrap();
    assert!(!gm.to_string().contains("any"), "{gm}");
    let dir = reproduces(&gm, "nested", sets(&[(line(4), Some(0)), (line(4), Some(4)), (line(7), Some(5))]));
    // What is too small for another round says so.
    let test = r#"
        use nested::{Model, Tensor};

        #[test]
        fn nothing_is_left() {
            let mut model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/model.safetensors")).unwrap();
            let error = model.forward(Tensor::new([1], &[1.0]), Tensor::new([], &[3])).unwrap_err();
            assert!(error.to_string().contains("is negative"), "{error}");
            let result = model.forward(Tensor::new([1], &[1.0]), Tensor::new([], &[2])).unwrap();
            assert_eq!(result.data, [1.0, 1.0]);
        }
    "#;
    std::fs::write(dir.join("tests/small.rs"), test).unwrap();
    cargo(&dir, &["test", "--test", "small"]);

    let gm = fx::trace(rotating).input("x", "f32[m]").input("y", "i64[]").build().unwrap();
    reproduces(&gm, "rotating", sets(&[(line(4), Some(0)), (line(4), Some(1)), (line(1), Some(8))]));
    let gm = fx::trace(chosen).input("x", "f32[m]").build().unwrap();
    reproduces(&gm, "chosen", sets(&[(line(4), None), (line(7), None), (line(1), None)]));
}

#[test]
fn sizes_that_data_decide() {
    let gm = fx::trace(|x: &Tensor, n: &Tensor| -> Result<_> {
        let large = x.gt(0.0);
        fx::check(large.any((), false), "nothing is above 0");
        let found = x.i(&large);
        let rows = large.unsqueeze(0).expand([2, -1]).nonzero();
        let n: Dim = fx::num_int(n).try_into()?;
        let more = fx::arange(0, n.clone() + 1, 1) * 2;
        Ok((found.cumsum(0), rows, fx::zeros([n, Dim::new(2)]), more, fx::masked_select(x * 2.0, x.lt(0.0))))
    });
    let gm = gm.input("x", "f32[m]").input("y", "i64[]").build().unwrap();
    let dir =
        reproduces(&gm, "decided", sets(&[(line(7), Some(3)), (line(23), Some(0)), (line(4), Some(9))]));
    let test = r#"
        use decided::{Model, Tensor};

        #[test]
        fn what_the_data_must_not_say() {
            let mut model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/model.safetensors")).unwrap();
            let mut call = |x: &[f32], n: i64| {
                let result = model.forward(Tensor::new([x.len()], x), Tensor::new([], &[n]));
                result.map(|outputs| outputs.output_3.data.len()).map_err(|error| error.to_string())
            };
            assert_eq!(call(&[1.0, -2.0], 2), Ok(3));
            assert_eq!(call(&[-2.0], 2), Err("a check of the program failed: nothing is above 0".to_owned()));
            let why = "these sizes do not fit the program: ";
            assert!(call(&[2.0], -5).unwrap_err().ends_with(" is negative"));
            assert_eq!(call(&[2.0], i64::MAX), Err(format!("{why}a size that the data decides is too large")));
            assert_eq!(call(&[], 1), Err("a check of the program failed: nothing is above 0".to_owned()));
        }
    "#;
    std::fs::write(dir.join("tests/wrong.rs"), test).unwrap();
    cargo(&dir, &["test", "--test", "wrong"]);
}

/// The end of a detector: boxes with a score, those that overlap no better one, and what the image has there.
#[test]
fn lengths_that_data_decide() {
    let step = |x: &Tensor, lengths: &Tensor, classes: &Tensor| -> (Tensor, Tensor, Tensor, Tensor) {
        // As models of speech stretch a text to the length of its sound.
        let frames = x.repeat_interleave(lengths, 0);
        let all: Tensor = fx::call!(fx::repeat_interleave(x, lengths.select(0, 0), dim = 1));
        let flat: Tensor = fx::call!(fx::repeat_interleave(lengths, lengths));
        (frames.cumsum(0) * 2.0, all, flat, classes.one_hot(-1).sum(0, false))
    };
    let builder = fx::trace(step).input("x", "f32[n, 3]").input("y", "i64[n]").input("z", "i32[m]");
    let gm = builder.build().unwrap();
    let args = |lengths: &[i64], classes: &[i32]| {
        let x = Tensor::from_vec((0..lengths.len() * 3).map(|i| i as f32).collect(), &[lengths.len(), 3]);
        [&x, &Tensor::new(lengths.to_vec()), &Tensor::new(classes.to_vec())].map(Value::from)
    };
    let sets = [
        args(&[2, 0, 3], &[1, 4]),
        args(&[1], &[0]),
        args(&[0, 0], &[7, 7, 2]),
        args(&[5, 1, 1, 9], &[3]),
        args(&[4], &[2, 0]),
    ];
    let options = sets.iter().fold(CrateOptions::new(), |options, set| options.record(set));
    let dir = reproduces(&gm, "lengths", options);
    let test = r#"
        use lengths::{Model, Tensor};

        #[test]
        fn fails() {
            let mut model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/model.safetensors")).unwrap();
            let mut call = |lengths: [i64; 2], classes: &[i32]| {
                let (x, m) = ([0.0; 6], classes.len());
                let called = model.forward(
                    Tensor::new([2, 3], &x),
                    Tensor::new([2], &lengths),
                    Tensor::new([m], classes),
                );
                called.map(|_| ()).unwrap_err().to_string()
            };
            assert!(call([1, -1], &[0]).contains("a number of repeats is negative"));
            assert!(call([1, i64::MAX], &[0]).contains("too large"));
            assert!(call([1, 1 << 40], &[0]).contains("too large"));
            assert!(call([1, 1], &[]).contains("the number of classes of no elements"));
            assert!(call([1, 1], &[-2]).contains("is negative"));
        }
    "#;
    std::fs::write(dir.join("tests/fails.rs"), test).unwrap();
    assert!(cargo(&dir, &["test"]).contains("fails ... ok"));
}

#[test]
fn boxes_that_are_kept() {
    let gm = fx::trace(|boxes: &Tensor, scores: &Tensor, image: &Tensor| -> Result<_> {
        let likely = scores.gt(0.3);
        let (boxes, scores) = (boxes.i(&likely), scores.i(&likely));
        let kept = fx::nms(&boxes, &scores, 0.3);
        let (boxes, scores) = (boxes.index_select(0, &kept), scores.index_select(0, &kept));
        let regions = fx::cat([&boxes.narrow(1, 0, 1) * 0.0, boxes.clone()], 1);
        let pooled = fx::roi_align(image, &regions, 0.5, 3, 2, -1, true);
        Ok((boxes, scores, pooled.mean([2, 3], false), kept))
    });
    let gm = gm.input("x", "f32[n, 4]").input("y", "f32[n]").input("z", "f32[1, 3, h, w]").build().unwrap();
    let set = |n: usize, h: usize| {
        let numbers =
            |n: usize, k: usize| (0..n).map(|i| ((i * k + 3) % 17) as f32 * 0.5).collect::<Vec<_>>();
        let corners = Tensor::from_vec(numbers(2 * n, 7), &[n, 2]);
        let boxes = fx::cat([&corners, &(&corners + Tensor::from_vec(numbers(2 * n, 5), &[n, 2]) + 1.0)], 1);
        let scores = Tensor::from_vec(numbers(n, 11), &[n]) * 0.12;
        let image = Tensor::from_vec(numbers(3 * h * 9, 13), &[1, 3, h, 9]);
        [Value::from(&boxes), Value::from(&scores), Value::from(&image)]
    };
    let options = [(1, 8), (6, 8), (40, 5), (0, 3)]
        .iter()
        .fold(CrateOptions::new(), |options, &(n, h)| options.record(&set(n, h)));
    reproduces(&gm, "detector", options);
}

#[test]
fn a_loop_without_std() {
    let gm = fx::trace(rotating).input("x", "f32[5]").input("y", "i64[]").build().unwrap();
    let dir = reproduces(&gm, "rotating_baked", sets(&[(line(5), Some(3)), (line(5), Some(0))]).baked());
    assert!(std::fs::read_to_string(dir.join("src/lib.rs")).unwrap().contains("#![no_std]"));
    let gm = fx::trace(powers).input("x", "f32[5]").input("y", "i64[]").build().unwrap();
    let error = gm.to_package(&sets(&[(line(5), Some(3))]).baked()).unwrap_err().to_string();
    assert!(error.contains("the data decides how much memory it needs"), "{error}");
}

/// Numbers of Python: floats, integers and bools that a loop carries, and that data decide.
#[test]
fn numbers_of_a_script() {
    let text = "
def f(x: Tensor):
    total = 0.0
    rounds = 0
    has_grown = False
    while total < 10.0 and rounds != 7:
        step = float(x.sum()) * 0.5
        if step > 2.0 and not has_grown:
            total = total + step / 3.0
            has_grown = True
        else:
            total = max(total, step) + 1.25
        rounds = rounds + 1
    y = x * total
    if has_grown:
        y = torch.cat([y, x[0:1] - rounds])
    return y, rounds, total * 2.0
";
    let graph = |text: &str| {
        let lowered = fx::script(text).unwrap().lower("f").unwrap().input("x", "f32[n]").load().unwrap();
        lowered.into_module().unwrap()
    };
    let gm = graph(text);
    assert!(gm.to_string().contains("while_loop"), "{gm}");
    let x = |x: f32, n: usize| (Tensor::from_vec(vec![x; n], &[n]), None);
    reproduces(&gm, "numbers", sets(&[x(1.5, 4), x(0.25, 2), x(-3.0, 3), x(30.0, 1)]));
    let gm = graph(&text.replace("torch.cat([y, x[0:1] - rounds])", "y * math.sqrt(total)"));
    reproduces(&gm, "numbers_baked", sets(&[x(1.5, 4), x(-3.0, 4)]).baked());
}

/// A list to which each round of a loop pushes.
#[test]
fn a_list_that_grows_in_a_loop() {
    let text = "graph main(%x: f32[m], %n: i64[]) {
        %r = for_loop(%n, @body, [[], %x], [])
        %rows = getitem(%r, 0)
        %h = getitem(%r, 1)
        %stacked = stack(%rows, 1)
        %joined = cat(%rows, 0)
        %last = list_get(%rows, -1)
        return {\"stacked\": %stacked, \"joined\": %joined, \"last\": %last, \"h\": %h}
      }
      graph body(%i: int, %rows: list(f32[m]), %x: f32[m]) {
        %y = mul(%x, 1.5)
        %z = add(%y, %i)
        %more = list_push(%rows, %z)
        return [%more, %y]
      }";
    let mut gm = GraphModule::new("list", fx::parse(text).unwrap());
    fx::pass::SHAPE_PROP.apply(&mut gm).unwrap();
    let dir = reproduces(&gm, "list", sets(&[(line(3), Some(1)), (line(3), Some(4)), (line(1), Some(7))]));
    let test = r#"
        use list::{Model, Tensor};

        #[test]
        fn nothing_to_stack() {
            let mut model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/model.safetensors")).unwrap();
            assert!(model.forward(Tensor::new([1], &[1.0]), Tensor::new([], &[0])).is_err());
        }
    "#;
    std::fs::write(dir.join("tests/none.rs"), test).unwrap();
    cargo(&dir, &["test", "--test", "none"]);
}

/// Beam search, a recurrent network that collects its states, and an iteration to a fixed point.
#[test]
fn algorithms_as_crates() {
    let gm =
        fx::trace(beam).input("x", "f32[v, v]").input("y", "i64[k]").input("z", "i64[]").build().unwrap();
    let options =
        [(11, 1, 0), (11, 4, 5), (7, 3, 8)].iter().fold(CrateOptions::new(), |options, &(v, k, n)| {
            let table = (0..v * v).map(|i| ((i * 37 + 11) % 29) as f32 * 0.3).collect();
            let (table, first) = (Tensor::from_vec(table, &[v, v]), Tensor::new(vec![2i64; k]));
            options.record(&[Value::from(&table), Value::from(&first), Value::from(&Tensor::new(n as i64))])
        });
    reproduces(&gm, "beam", options);

    let gm = fx::trace(states).input("x", "f32[n, 5]").input("y", "f32[5]").build().unwrap();
    let options = [1, 4, 9].iter().fold(CrateOptions::new(), |options, &n| {
        options.record(&[Value::from(&line(5 * n).reshape((n as i64, 5))), Value::from(&line(5))])
    });
    reproduces(&gm, "states", options);
    let gm = fx::trace(fixed_point).input("x", "f32[m]").build().unwrap();
    reproduces(&gm, "fixed_point", sets(&[(line(1), None), (line(6), None)]));
}

#[test]
fn greedy_decoding_as_a_crate() {
    let (gm, all) = greedy_graph();
    let options = all.iter().fold(CrateOptions::new(), |options, (prompt, reference)| {
        let n = Tensor::new(reference.to_vec::<i64>().unwrap().len() as i64);
        options.recorded(&[Value::from(prompt), Value::from(&n)], std::slice::from_ref(reference))
    });
    reproduces(&gm, "greedy", options);
}
