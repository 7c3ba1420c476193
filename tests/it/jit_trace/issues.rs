//! Programs of PyTorch's issues: what `torch.jit.trace` gets wrong without a word is right, or denied.

use super::*;

const SOURCE: &str = include_str!("issues.rs");

/// pytorch/pytorch#38472: a trace fixes the batch size or the length.
#[test]
fn a_batch_size_is_not_fixed_silently() -> Result<()> {
    let right = |x: &Tensor| x.reshape((x.dim(0), x.dim(1) * x.dim(2)));
    let traced = jit_trace(right, (Tensor::new([[[1.0f32, 2.0], [3.0, 4.0]]; 3]),))?;
    let x = Tensor::new([[[1.0f32, 2.0], [3.0, 4.0]]; 5]);
    assert_eq!(traced.call(&[x])?.shape()?.known().as_deref(), Some(&[5, 4][..]));

    let fixed = |x: &Tensor| -> Result<Tensor> {
        // batch read: known
        let batch = x.dim(0).known().unwrap_or(1);
        Ok(x.reshape((batch, -1)))
    };
    let example = Tensor::new([[[1.0f32, 2.0], [3.0, 4.0]]; 3]);
    let error = jit_trace(fixed, (example.clone(),)).unwrap_err();
    assert!(error.to_string().contains("FrozenSize"), "{error}");
    finds(&JitTrace::new(fixed, (example,)).inspect()?, Kind::FrozenSize, SOURCE, "batch read");
    Ok(())
}

/// pytorch/pytorch#59530: `LSTMCell` makes its first state with the batch size of the example.
#[test]
fn an_lstm_cell_takes_every_batch() -> Result<()> {
    let cell = nn::LSTMCell::new(3, 2);
    let traced = jit_trace(|x: &Tensor| cell.forward(x, None), (matrix(),))?;
    assert!(traced.report.is_clean(), "{}", traced.report);
    let x = Tensor::new([[1.0f32, 2.0, 3.0]; 7]);
    let (h, c): (Tensor, Tensor) = traced.run((x.clone(),))?;
    let (expected_h, expected_c) = cell.forward(&x, None);
    h.all_close(&expected_h, 1e-6, 1e-6)?;
    c.all_close(&expected_c, 1e-6, 1e-6)
}

#[derive(Module)]
struct Counter {
    n: Buffer,
}

#[forward]
impl Counter {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.n.set(&(self.n.get() + 1.0))?;
        Ok(x * 2.0)
    }
}

/// pytorch/pytorch#140539: a trace loses a change of state that no result needs.
#[test]
fn a_state_that_no_result_needs_is_updated() -> Result<()> {
    let traced = jit_trace(&Counter { n: Buffer::new(Tensor::new(0.0f32)) }, (matrix(),))?;
    for _ in 0..3 {
        traced.call(&[matrix()])?;
    }
    assert_eq!(traced.attr("n")?.item::<f32>()?, 3.0);
    Ok(())
}

/// pytorch/pytorch#14992: a loop that fills a tensor row by row has the shape of the example.
#[test]
fn a_loop_that_fills_a_tensor_takes_every_length() -> Result<()> {
    let traced = jit_trace(
        |x: &Tensor| {
            let zeros = x.new_zeros((x.dim(0), x.dim(1)));
            let (_, out) = fx::while_loop(
                |(i, _): &(Tensor, Tensor)| i.lt(3),
                |(i, out): (Tensor, Tensor)| (&i + 1, out + x * i),
                (Tensor::new(0i64), zeros),
            );
            out
        },
        (matrix(),),
    )?;
    let x = Tensor::new([[1.0f32, 2.0]; 6]);
    let expected = &x * 3.0;
    traced.call(&[x])?.all_close(&expected, 0.0, 0.0)
}
