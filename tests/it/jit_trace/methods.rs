//! Several methods of one module.

use super::*;

#[derive(Module)]
struct Store {
    total: Buffer,
    scale: Parameter,
}

impl Store {
    fn add(&self, x: &Tensor) -> Result<Tensor> {
        let total = self.total.get() + x.sum((), false) * &self.scale;
        self.total.set(&total)?;
        Ok(total)
    }

    fn mean(&self, n: &Tensor) -> Tensor {
        self.total.get() / n
    }
}

fn store() -> Store {
    Store { total: Buffer::new(Tensor::new(0.0f32)), scale: Parameter::new(Tensor::new(2.0f32)) }
}

#[test]
fn methods_share_parameters_and_state() -> Result<()> {
    let model = store();
    let traced = trace_module(&model)
        .method("add", |x: &Tensor| model.add(x), (vector(),))
        .method("mean", |n: &Tensor| model.mean(n), (Tensor::new(2.0f32),))
        .build()?;
    let names: Vec<&str> = traced.methods().map(|(name, _)| name).collect();
    assert_eq!(names, ["add", "mean"]);
    assert_eq!(
        traced.method("add")?.attributes().map(|(path, _)| path).collect::<Vec<_>>(),
        ["scale", "total"]
    );
    traced.method("add")?.call(&[Tensor::new([1.0f32, 2.0])])?;
    traced.method("add")?.call(&[Tensor::new([4.0f32])])?;
    let mean = traced.method("mean")?.call(&[Tensor::new(2.0f32)])?;
    assert_eq!(mean.item::<f32>()?, 7.0);
    assert_eq!(model.total.get().item::<f32>()?, 0.0, "the module itself stays as it was");
    Ok(())
}

#[test]
fn errors_of_methods_come_together() {
    let model = store();
    let read = |x: &Tensor| -> Result<Tensor> { Ok(x * x.sum((), false).item::<f32>()?) };
    let error = trace_module(&model)
        .method("one", read, (vector(),))
        .method("two", read, (vector(),))
        .build()
        .unwrap_err();
    assert_eq!(error.related().len(), 2, "{error}");
    let allowed = trace_module(&model).method("one", read, (vector(),)).allow(Kind::FrozenNumber).build();
    let missing = allowed.and_then(|traced| traced.method("other").map(|_| ())).unwrap_err();
    assert_eq!(missing.advice(), Some("the methods are one"));
}
