//! What one graph shows by itself.

use super::*;

const SOURCE: &str = include_str!("structure.rs");

#[derive(Module)]
struct Dropping {
    first: nn::Linear,
    drop: nn::Dropout,
    norm: nn::BatchNorm1d,
}

#[forward]
impl Dropping {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.first.call(x);
        // training dropout: call
        let x = self.drop.call(&x);
        // training norm: call
        self.norm.call(&x)
    }
}

fn dropping() -> Dropping {
    Dropping { first: nn::Linear::new(3, 2), drop: nn::Dropout::new(0.5), norm: nn::BatchNorm1d::new(2) }
}

#[test]
fn large_constants_from_outside_are_found() -> Result<()> {
    let weight = Tensor::new([[0.5f32; 100]; 3]);
    let product = JitTrace::new(
        // constant multiplied: matmul
        |x: &Tensor| x.matmul(&weight),
        (matrix(),),
    )
    .inspect()?;
    finds(&product, Kind::CapturedConstant, SOURCE, "constant multiplied");
    let found = product.report.of(Kind::CapturedConstant).next().expect("it is found");
    let Finding::CapturedConstant { bytes, .. } = &found.finding else { panic!("{found}") };
    assert_eq!(*bytes, 1200);

    let table = Tensor::new([[1.0f32; 2]; 200]);
    let looked_up = JitTrace::new(
        // constant looked up: index_select
        |i: &Tensor| table.index_select(0, i),
        (Tensor::new([1i64, 2, 5]),),
    )
    .inspect()?;
    finds(&looked_up, Kind::CapturedConstant, SOURCE, "constant looked up");

    let made = JitTrace::new(
        |x: &Tensor| {
            let positions: Vec<f32> = (0..300).map(|i| i as f32).collect();
            let positions = Tensor::from_vec(positions, &[100, 3]);
            // constant made inside: x.sum
            x.sum(0, false) + positions
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&made, Kind::CapturedConstant, SOURCE, "constant made inside");

    let small = jit_trace(|x: &Tensor| x + vector(), (matrix(),))?;
    finds_no(&small, Kind::CapturedConstant);
    Ok(())
}

#[test]
fn arguments_without_influence_are_found() -> Result<()> {
    let unused = |traced: Traced| -> Vec<String> {
        let of = traced.report.of(Kind::UnusedInput);
        of.map(|found| match &found.finding {
            Finding::UnusedInput { argument } => argument.clone(),
            _ => unreachable!("the kind was asked for"),
        })
        .collect()
    };
    let second = jit_trace(|x: &Tensor, _: &Tensor| x.relu(), (matrix(), vector()))?;
    assert_eq!(unused(second), ["y"]);
    let of_list = jit_trace(|xs: Vec<Tensor>| xs[0].relu(), (vec![matrix(), vector()],))?;
    assert_eq!(unused(of_list), ["x_1"]);
    let of_option = jit_trace(
        |x: Tensor, mask: Option<Tensor>| if mask.is_some() { x.relu() } else { x.abs() },
        (matrix(), Some(vector())),
    )?;
    assert_eq!(unused(of_option), ["y"]);
    Ok(())
}

#[test]
fn results_that_do_not_depend_on_arguments_are_found() -> Result<()> {
    let zeros = JitTrace::new(
        |x: &Tensor| {
            // constant result: fx::zeros
            let fixed = fx::zeros(3);
            (x.relu(), fixed)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&zeros, Kind::ConstantOutput, SOURCE, "constant result");

    let table = vector();
    let computed = JitTrace::new(
        |x: &Tensor| {
            let bias = fx::ones(3);
            // computed result: bias
            let scaled = bias * &table;
            vec![scaled, x.relu()]
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&computed, Kind::ConstantOutput, SOURCE, "computed result");

    let number = JitTrace::new(|x: &Tensor| (x.relu(), 3.0f64), (matrix(),)).inspect()?;
    let found = number.report.of(Kind::ConstantOutput).next().expect("it is found");
    assert_eq!(found.finding, Finding::ConstantOutput { output: 1, node: "3.0".into() });
    let random = jit_trace(|x: &Tensor| (x.relu(), fx::rand(3)), (matrix(),))?;
    finds_no(&random, Kind::ConstantOutput);
    Ok(())
}

#[test]
fn training_mode_is_found() -> Result<()> {
    let mut model = dropping();
    model.train();
    let trained = JitTrace::new(&model, (matrix(),)).inspect()?;
    finds(&trained, Kind::TrainingFlag, SOURCE, "training dropout");
    finds(&trained, Kind::TrainingFlag, SOURCE, "training norm");
    model.eval();
    let still = jit_trace(&model, (matrix(),))?;
    assert!(still.report.is_clean(), "{}", still.report);

    let function = JitTrace::new(
        // training function: dropout
        |x: &Tensor| x.dropout(0.5, true),
        (matrix(),),
    )
    .inspect()?;
    finds(&function, Kind::TrainingFlag, SOURCE, "training function");
    Ok(())
}

#[test]
fn arguments_that_are_one_tensor_are_found() -> Result<()> {
    let aliases = |traced: &Traced| -> Vec<(String, String)> {
        let of = traced.report.of(Kind::AliasedInput);
        of.map(|found| match &found.finding {
            Finding::AliasedInput { arguments } => arguments.clone(),
            _ => unreachable!("the kind was asked for"),
        })
        .collect()
    };
    let x = matrix();
    let sum = jit_trace(|x: &Tensor, y: &Tensor| x + y, (x.clone(), x.clone()))?;
    assert_eq!(aliases(&sum), [("x".to_owned(), "y".to_owned())]);
    assert!(sum.report.is_clean(), "a note is no warning");
    let list = jit_trace(|xs: Vec<Tensor>| fx::cat(&xs, 0), (vec![x.clone(), matrix(), x.clone()],))?;
    assert_eq!(aliases(&list), [("x_0".to_owned(), "x_2".to_owned())]);
    let mixed = jit_trace(
        |x: Tensor, mask: Option<Tensor>| x * mask.expect("a mask is given"),
        (x.clone(), Some(x)),
    )?;
    assert_eq!(aliases(&mixed), [("x".to_owned(), "y".to_owned())]);
    Ok(())
}

#[test]
fn assignments_to_arguments_are_found() -> Result<()> {
    let added = JitTrace::new(
        |mut x: Tensor| {
            // assigned by addition: x += 1.0
            x += 1.0;
            x.relu()
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&added, Kind::WritesInput, SOURCE, "assigned by addition");

    let scaled = JitTrace::new(
        |mut x: Tensor, y: Tensor| {
            // assigned by product: x *= y
            x *= y;
            x
        },
        (matrix(), vector()),
    )
    .inspect()?;
    finds(&scaled, Kind::WritesInput, SOURCE, "assigned by product");

    let cloned = JitTrace::new(
        |x: &Tensor| {
            let mut sum = x.clone();
            for _ in 0..3 {
                // assigned in a loop: sum -= 1.0
                sum -= 1.0;
            }
            sum
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&cloned, Kind::WritesInput, SOURCE, "assigned in a loop");
    assert_eq!(cloned.report.of(Kind::WritesInput).count(), 1);
    Ok(())
}
