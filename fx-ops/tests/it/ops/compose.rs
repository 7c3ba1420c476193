//! Rows that are written with other rows.

use fx_core::{Arg, Array, Value};

use crate::testing::{call, tensor};

fn numbers(shape: &[usize]) -> Value {
    let n = shape.iter().product::<usize>();
    let data: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 * 0.7).sin()).collect();
    tensor(Array::from_vec(data, shape).unwrap())
}

#[test]
fn rules_agree_with_kernels_for_symbolic_sizes_too() {
    let x = numbers;
    let i = Arg::Int;
    let list = Arg::list;
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("pixel_shuffle", vec![x(&[2, 8, 3, 5]), i(2)]),
        ("pixel_unshuffle", vec![x(&[2, 3, 4, 6]), i(2)]),
        ("channel_shuffle", vec![x(&[2, 6, 4]), i(3)]),
        ("glu", vec![x(&[2, 6]), i(-1)]),
        ("einsum", vec![Arg::str("bij,bjk->bik"), list([x(&[2, 3, 4]), x(&[2, 4, 5])])]),
        ("einsum", vec![Arg::str("...ii,i"), list([x(&[2, 3, 3]), x(&[3])])]),
        ("inner", vec![x(&[2, 3]), x(&[4, 3])]),
        ("kron", vec![x(&[2, 3]), x(&[4])]),
        ("tensordot", vec![x(&[2, 3, 4]), x(&[3, 4, 5])]),
        ("addbmm", vec![x(&[3, 5]), x(&[2, 3, 4]), x(&[2, 4, 5])]),
        ("addr", vec![x(&[3, 4]), x(&[3]), x(&[4])]),
        ("cross", vec![x(&[2, 3]), x(&[2, 3]), i(1)]),
        ("linalg_cross", vec![x(&[2, 3]), x(&[2, 3])]),
        ("linalg_vander", vec![x(&[2, 4])]),
        ("linalg_matrix_power", vec![x(&[2, 3, 3]), i(3)]),
        ("bilinear", vec![x(&[5, 3]), x(&[5, 4]), x(&[2, 3, 4]), x(&[2])]),
        ("linalg_multi_dot", vec![Arg::list([x(&[2, 3]), x(&[3, 4]), x(&[4])])]),
        ("linalg_det", vec![x(&[2, 3, 3])]),
        ("linalg_slogdet", vec![x(&[2, 3, 3])]),
        ("linalg_inv", vec![x(&[2, 3, 3])]),
        ("linalg_solve", vec![x(&[2, 3, 3]), x(&[2, 3, 4])]),
        ("linalg_svdvals", vec![x(&[2, 3, 4])]),
        ("norm", vec![x(&[2, 3])]),
        ("linalg_norm", vec![x(&[2, 3]), Arg::str("nuc")]),
        ("linalg_matrix_norm", vec![x(&[2, 3, 4]), i(1)]),
        ("renorm", vec![x(&[2, 3]), i(2), i(0), Arg::Float(0.5)]),
        ("dist", vec![x(&[2, 3]), x(&[3])]),
        ("pairwise_distance", vec![x(&[2, 3]), x(&[2, 3])]),
        ("cosine_similarity", vec![x(&[2, 3]), x(&[2, 3])]),
        ("cov", vec![x(&[2, 3])]),
        ("corrcoef", vec![x(&[2, 3])]),
        ("cdist", vec![x(&[2, 4, 3]), x(&[2, 5, 3])]),
        ("pdist", vec![x(&[5, 3])]),
        ("huber_loss", vec![x(&[2, 3]), x(&[2, 3])]),
        ("kl_div", vec![x(&[2, 3]), x(&[2, 3])]),
        ("gaussian_nll_loss", vec![x(&[2, 3]), x(&[2, 3]), x(&[2, 3])]),
        ("interpolate", vec![x(&[2, 3, 4, 5]), list([i(3), i(7)]), Arg::None, Arg::str("bilinear")]),
        ("grid_sample", vec![x(&[2, 3, 4, 5]), x(&[2, 3, 7, 2])]),
        ("affine_grid", vec![x(&[2, 2, 3]), Arg::ints([2, 3, 4, 5])]),
        ("im2col", vec![x(&[2, 3, 4, 5]), i(2)]),
        ("col2im", vec![x(&[2, 12, 12]), Arg::ints([4, 5]), i(2)]),
        ("prelu", vec![x(&[2, 3, 4]), x(&[3])]),
        ("rrelu", vec![x(&[2, 3])]),
        ("fft_irfft", vec![x(&[2, 5])]),
        ("stft", vec![x(&[2, 50]), i(10)]),
        ("hann_window", vec![i(5)]),
        ("embedding_bag", vec![tensor([[0i64, 1], [2, 0]]), x(&[3, 4])]),
        ("max_pool2d", vec![x(&[2, 3, 6, 7]), i(2)]),
    ];
    for (name, args) in cases {
        call(name, &args, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn an_equation_that_does_not_fit_is_an_error() {
    let message = |equation: &str| {
        let operands = Arg::list([numbers(&[2, 3]), numbers(&[3, 2])]);
        call("einsum", &[Arg::str(equation), operands], &[]).unwrap_err().message().to_owned()
    };
    assert!(message("ij").contains("expected 1 operands"), "{}", message("ij"));
    assert!(message("ijk,jl").contains("axes"), "{}", message("ijk,jl"));
    assert!(message("ij,kl->im").contains("no operand"), "{}", message("ij,kl->im"));
    assert!(message("ij,ij->i").contains("share"), "{}", message("ij,ij->i"));
}

#[test]
fn weights_of_observations_are_not_negative() {
    let message =
        |weights: (&str, Value)| call("cov", &[numbers(&[3])], &[weights]).unwrap_err().message().to_owned();
    assert!(message(("aweights", tensor([1f32, -0.5, 2.0]))).contains("aweights that are not negative"));
    assert!(message(("fweights", tensor([1i64, 2, -1]))).contains("fweights that are not negative"));
}
