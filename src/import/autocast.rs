//! Automatic casts: the dtypes to which PyTorch casts operands in a `torch.autocast` region on the CPU.
//!
//! The lists are those of `aten/src/ATen/autocast_mode.h` for the CPU. The archive says which dtype every
//! result has, so a cast that is missing here is an error, not a wrong number.

use super::build::{Attempt, Builder};
use super::call::Call;
use crate::{Arg, DType};

/// Computed in the lower dtype.
const LOWER: &[&str] = &[
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    "_convolution",
    "bmm",
    "mm",
    "mv",
    "baddbmm",
    "addmm",
    "addbmm",
    "addmv",
    "linear",
    "matmul",
    "linalg_vecdot",
    "linalg_multi_dot",
    "prelu",
    "scaled_dot_product_attention",
    "_native_multi_head_attention",
    "lstm",
    "gru",
    "rnn_tanh",
    "rnn_relu",
    "lstm_cell",
    "gru_cell",
    "rnn_tanh_cell",
    "rnn_relu_cell",
];

/// Computed in `f32`.
const SINGLE: &[&str] = &[
    "avg_pool3d",
    "binary_cross_entropy",
    "grid_sampler",
    "polar",
    "prod",
    "quantile",
    "nanquantile",
    "stft",
    "cdist",
    "trace",
    "view_as_complex",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "inverse",
    "lu_solve",
    "orgqr",
    "ormqr",
    "pinverse",
    "max_pool3d",
    "max_unpool2d",
    "max_unpool3d",
    "adaptive_avg_pool3d",
    "reflection_pad1d",
    "reflection_pad2d",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "mse_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss2d",
    "nll_loss_nd",
    "hinge_embedding_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "cross_entropy_loss",
    "l1_loss",
    "huber_loss",
    "margin_ranking_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "ctc_loss",
    "kl_div",
    "multilabel_margin_loss",
    "binary_cross_entropy_with_logits",
    "linalg_cond",
    "linalg_matrix_rank",
    "linalg_solve",
    "linalg_cholesky",
    "linalg_svdvals",
    "linalg_eigvals",
    "linalg_eigvalsh",
    "linalg_inv",
    "linalg_householder_product",
    "linalg_tensorinv",
    "linalg_tensorsolve",
    "geqrf",
    "qr",
    "svd",
    "triangular_solve",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "adaptive_max_pool3d",
    "linalg_qr",
    "linalg_cholesky_ex",
    "linalg_svd",
    "linalg_eigh",
    "linalg_lstsq",
    "linalg_inv_ex",
];

/// Computed in the widest dtype of the operands.
const WIDEST: &[&str] = &["stack", "cat", "index_copy"];

/// Casts the operands of a call, if the region that it stands in says so.
pub(super) fn cast<'a>(builder: &mut Builder<'a>, call: &mut Call<'a>) -> Attempt<()> {
    let Some(lower) = builder.autocast else { return Ok(()) };
    let to = if LOWER.contains(&call.base) {
        lower
    } else if SINGLE.contains(&call.base) {
        DType::F32
    } else if WIDEST.contains(&call.base) {
        let mut is_single = false;
        for (_, arg) in &call.args {
            for node in arg.leaves() {
                is_single |= builder.tensor_type(*node)?.dtype == DType::F32;
            }
        }
        if is_single { DType::F32 } else { lower }
    } else {
        return Ok(());
    };
    for (_, arg) in &mut call.args {
        *arg = cast_floats(builder, arg, to)?;
    }
    Ok(())
}

/// Casts floats but `f64`, which PyTorch leaves alone.
fn cast_floats(builder: &mut Builder<'_>, arg: &Arg, to: DType) -> Attempt<Arg> {
    Ok(match arg {
        Arg::Leaf(node) => {
            let dtype = builder.graph.node(*node)?.ty().and_then(crate::TypeTree::tensor).map(|ty| ty.dtype);
            match dtype {
                Some(from) if from.is_float() && from != DType::F64 && from != to => {
                    Arg::Leaf(builder.call("to", [arg.clone(), Arg::DType(to)])?)
                }
                _ => arg.clone(),
            }
        }
        Arg::List(items) => {
            let items = items.iter().map(|item| cast_floats(builder, item, to));
            Arg::list(items.collect::<Attempt<Vec<Arg>>>()?)
        }
        other => other.clone(),
    })
}
