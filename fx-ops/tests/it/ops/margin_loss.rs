//! Losses by margins and alignments.

use fx_core::{Arg, Array, DType, Value};

use crate::testing::{call, call1, tensor};

fn number(name: &str, args: &[Value], named: &[(&str, Value)]) -> f64 {
    let Arg::Leaf(out) = call(name, args, named).unwrap() else { panic!() };
    out.array().unwrap().to_vec::<f64>().unwrap()[0]
}

/// All alignments of a short sequence, one by one.
#[test]
fn the_loss_of_alignments_is_that_of_their_sum() {
    let logs: Vec<f64> = (0..12).map(|i| ((i * 7 % 11) as f64 * 0.3).sin() - 1.0).collect();
    let (steps, classes) = (4usize, 3usize);
    let mut total = 0.0;
    for code in 0..classes.pow(steps as u32) {
        let path: Vec<usize> = (0..steps).map(|t| code / classes.pow(t as u32) % classes).collect();
        let mut merged = path.clone();
        merged.dedup();
        merged.retain(|&class| class != 0);
        if merged == [1, 2] {
            total += path.iter().enumerate().map(|(t, class)| logs[t * classes + class]).sum::<f64>().exp();
        }
    }
    let x = tensor(Array::from_vec(logs, &[steps, 1, classes]).unwrap());
    let args = [x, tensor([[1i64, 2]]), Arg::ints([4]), tensor([2i64])];
    let got = number("ctc_loss", &args, &[("reduction", Arg::str("sum"))]);
    assert!((got + total.ln()).abs() < 1e-12, "{got} {}", -total.ln());
}

#[test]
fn an_impossible_alignment_is_infinite_or_zero() {
    let x = || tensor(Array::zeros(DType::F64, &[1, 1, 3]).unwrap());
    let args = [x(), tensor([[1i64, 2]]), Arg::ints([1]), Arg::ints([2])];
    assert_eq!(number("ctc_loss", &args, &[]), f64::INFINITY);
    assert_eq!(number("ctc_loss", &args, &[("zero_infinity", Arg::Bool(true))]), 0.0);
    let wrong = [x(), tensor([[1i64, 3]]), Arg::ints([1]), Arg::ints([2])];
    assert!(call("ctc_loss", &wrong, &[]).is_err());
    let long = [x(), tensor([[1i64, 2]]), Arg::ints([2]), Arg::ints([2])];
    assert!(call("ctc_loss", &long, &[]).is_err());
}

#[test]
fn margins_count_other_classes() {
    let x = || tensor([[0.5f64, 2.0, 1.75]]);
    let got = number("multi_margin_loss", &[x(), tensor([1i64])], &[("p", Arg::Int(2))]);
    assert!((got - 0.5625 / 3.0).abs() < 1e-12, "{got}");
    let got = number("multilabel_margin_loss", &[x(), tensor([[2i64, -1, 0]])], &[]);
    assert!((got - 1.25 / 3.0).abs() < 1e-12, "{got}");
    assert!(call1("multi_margin_loss", &[x(), tensor([3i64])]).is_err());
    let rows =
        || [tensor([[1.0f64, 0.0], [1.0, 1.0]]), tensor([[1.0f64, 1.0], [1.0, 1.0]]), tensor([1.0f64, -1.0])];
    let got = number("cosine_embedding_loss", &rows(), &[("reduction", Arg::str("sum"))]);
    assert!((got - (1.0 - 0.5f64.sqrt() + 1.0)).abs() < 1e-9, "{got}");
    let [a, b, _] = rows();
    let got = number("triplet_margin_loss", &[a.clone(), b, a], &[("reduction", Arg::str("sum"))]);
    assert!((got - 3.0).abs() < 1e-5, "{got}");
}
