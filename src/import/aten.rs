//! PyTorch's operators and the rows that answer to them.
//!
//! Most operators need no entry: name and parameter names of the row are PyTorch's. [`TABLE`] holds the
//! others. An entry is for one overload, `max.dim`, or for all of them, `max`. An operator whose name ends in
//! `_` is the one without, whose result is written to the first argument. Complex operands come
//! first (`complex`), since the archive says of each tensor whether it is.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::build::{Attempt, Builder, Failure, Out, shorten};
use super::call::{Call, generic, write};
use super::row_call::spelled;
use super::schema::{Argument, Node};
use super::{
    adapt, autocast, backward, complex, compose, control, fft, linalg, normalization, out, random,
    transformer, unrolled_rnn, views,
};
use crate::{Registry, err};

/// What is done with an operator.
pub(super) enum How {
    /// A row of another name.
    Row(&'static str),
    /// A row of another name, with arguments that have other names there; `""` leaves an argument out.
    Renamed(&'static str, &'static [(&'static str, &'static str)]),
    /// An alias of the first argument, or an operator that changes how that is seen.
    Alias(Emit),
    /// The view of the first argument that the row of this name gives for the same arguments.
    View(Emit),
    /// The same elements as this operator shows, in memory of their own.
    Copy(&'static str),
    /// Anything else.
    Emit(Emit),
}

type Emit = for<'a> fn(&mut Builder<'a>, &Call<'a>) -> Attempt<Out>;

use How::{Alias, Copy, Emit as E, Renamed, Row, View};

/// The operators whose row is called otherwise, or that are more than a row.
#[rustfmt::skip]
static TABLE: &[(&str, How)] = &[
    // Results that share memory with the first argument.
    ("alias", Alias(views::alias)), ("detach", Alias(views::alias)), ("detach_", Alias(views::alias)),
    ("lift_fresh", Alias(views::alias)), ("lift", Alias(views::alias)), ("positive", Alias(views::alias)),
    ("resolve_conj", Alias(views::alias)), ("resolve_neg", Alias(views::alias)), ("real", Alias(views::alias)),
    ("conj", Alias(views::alias)), ("_conj", Alias(views::alias)), ("view_of", Alias(views::alias)),
    ("requires_grad_", Alias(views::alias)), ("contiguous", Alias(views::maybe_copy)),
    ("to", Alias(views::maybe_copy)), ("type_as", Alias(views::maybe_copy)),
    ("_autocast_to_reduced_precision", Alias(views::maybe_copy)),
    ("_autocast_to_full_precision", Alias(views::maybe_copy)), ("reshape", View(views::reshape)),
    ("_reshape", Alias(views::reshape)), ("flatten", View(views::reshape)),
    ("reshape_as", Alias(views::reshape)), ("ravel", Alias(views::reshape)), ("view.dtype", Alias(views::bits)),
    ("view", View(views::view)), ("view_as", Alias(views::view)), ("unflatten", View(views::view)),
    ("unsqueeze", View(views::view)), ("squeeze", View(views::view)), ("_unsafe_view", Alias(views::view)),
    ("_reshape_alias", Alias(views::view)), ("atleast_1d", View(views::view)),
    ("atleast_2d", View(views::view)), ("atleast_3d", View(views::view)),
    ("unsqueeze_", Alias(views::view_in_place)), ("squeeze_", Alias(views::view_in_place)),
    ("permute", View(views::permute)), ("transpose", View(views::permute)), ("t", View(views::permute)),
    ("numpy_T", Alias(views::permute)), ("mT", Alias(views::permute)), ("mH", Alias(views::permute)),
    ("adjoint", Alias(views::permute)), ("matrix_H", Alias(views::permute)),
    ("swapaxes", Alias(views::permute)), ("swapdims", Alias(views::permute)),
    ("movedim", Alias(views::permute)), ("moveaxis", Alias(views::permute)),
    ("transpose_", Alias(views::permute_in_place)), ("t_", Alias(views::permute_in_place)),
    ("swapaxes_", Alias(views::permute_in_place)), ("swapdims_", Alias(views::permute_in_place)),
    ("select", View(views::select)), ("slice", View(views::slice)), ("narrow", View(views::narrow)),
    ("diagonal", View(views::diagonal)), ("linalg_diagonal", Alias(views::diagonal)),
    ("expand", View(views::expand)), ("expand_as", Alias(views::expand)),
    ("broadcast_to", Alias(views::expand)), ("unfold", Alias(views::unfold)),
    ("as_strided", Alias(views::as_strided)), ("split", Alias(views::split)),
    ("split_with_sizes", Alias(views::split)), ("chunk", Alias(views::split)),
    ("tensor_split", Alias(views::split)), ("unsafe_split", Alias(views::split)),
    ("unsafe_chunk", Alias(views::split)), ("unsafe_split_with_sizes", Alias(views::split)),
    ("hsplit", Alias(views::split)), ("vsplit", Alias(views::split)), ("dsplit", Alias(views::split)),
    ("unbind", Alias(views::unbind)),
    // Copies of what these show.
    ("alias_copy", Copy("alias")), ("as_strided_copy", Copy("as_strided")), ("detach_copy", Copy("detach")),
    ("diagonal_copy", Copy("diagonal")), ("expand_copy", Copy("expand")), ("narrow_copy", Copy("narrow")),
    ("permute_copy", Copy("permute")), ("select_copy", Copy("select")), ("slice_copy", Copy("slice")),
    ("split_copy", Copy("split")), ("split_with_sizes_copy", Copy("split_with_sizes")),
    ("squeeze_copy", Copy("squeeze")), ("t_copy", Copy("t")), ("transpose_copy", Copy("transpose")),
    ("unbind_copy", Copy("unbind")), ("unfold_copy", Copy("unfold")), ("unsqueeze_copy", Copy("unsqueeze")),
    ("view_copy", Copy("view")), ("_reshape_alias_copy", Copy("_reshape_alias")),
    ("_reshape_copy", Copy("_reshape")), ("_conj_copy", Copy("_conj")), ("lift_fresh_copy", Copy("lift_fresh")),
    ("lift_copy", Copy("lift")),
    // Other names.
    ("__and__", Row("bitwise_and")), ("__or__", Row("bitwise_or")), ("__xor__", Row("bitwise_xor")),
    ("__iand__", Row("bitwise_and")), ("__ior__", Row("bitwise_or")), ("__ixor__", Row("bitwise_xor")),
    ("__lshift__", Row("bitwise_left_shift")), ("__rshift__", Row("bitwise_right_shift")),
    ("__ilshift__", Row("bitwise_left_shift")), ("__irshift__", Row("bitwise_right_shift")),
    ("absolute", Row("abs")), ("negative", Row("neg")), ("subtract", Row("sub")), ("multiply", Row("mul")),
    ("divide", E(adapt::div)), ("true_divide", Row("div")), ("div", E(adapt::div)), ("div.Tensor", Row("div")),
    ("div.Scalar", Row("div")),
    ("greater", Row("gt")), ("greater_equal", Row("ge")), ("less", Row("lt")), ("less_equal", Row("le")),
    ("not_equal", Row("ne")), ("clip", Row("clamp")), ("fix", Row("trunc")),
    ("arccos", Row("acos")), ("arcsin", Row("asin")), ("arctan", Row("atan")), ("arctan2", Row("atan2")),
    ("arccosh", Row("acosh")), ("arcsinh", Row("asinh")), ("arctanh", Row("atanh")),
    ("concat", Row("cat")), ("concatenate", Row("cat")), ("row_stack", Row("vstack")),
    ("log_sigmoid", Row("logsigmoid")), ("log_sigmoid_forward", E(adapt::log_sigmoid_forward)),
    ("special_expit", Row("sigmoid")), ("special_erf", Row("erf")), ("special_erfc", Row("erfc")), ("special_erfinv", Row("erfinv")),
    ("special_exp2", Row("exp2")), ("special_expm1", Row("expm1")), ("special_log1p", Row("log1p")), ("special_logit", Row("logit")),
    ("special_logsumexp", Row("logsumexp")), ("special_softmax", Row("softmax")), ("special_log_softmax", Row("log_softmax")),
    ("special_xlogy", Row("xlogy")), ("special_sinc", Row("sinc")), ("special_round", Row("round")),
    ("special_gammaln", Row("lgamma")), ("special_digamma", Row("digamma")), ("special_psi", Row("digamma")),
    ("matrix_power", Row("linalg_matrix_power")), ("linalg_matmul", Row("matmul")), ("det", Row("linalg_det")),
    ("inverse", Row("linalg_inv")), ("linalg_cross", E(linalg::cross)), ("chain_matmul", Row("linalg_multi_dot")),
    ("ger", Row("outer")), 
    ("_safe_softmax", E(adapt::safe_softmax)),
    ("_softmax", Renamed("softmax", &[("half_to_float", "")])),
    ("_log_softmax", Renamed("log_softmax", &[("half_to_float", "")])),
    // Overloads with a meaning of their own.
    ("max.dim", Row("max_dim")), ("min.dim", Row("min_dim")), ("max.other", Row("maximum")), ("min.other", Row("minimum")),
    ("median.dim", Row("median_dim")), ("nanmedian.dim", Row("nanmedian_dim")),
    ("scatter.value", Renamed("scatter", &[("value", "src")])), ("scatter.value_reduce", Renamed("scatter", &[("value", "src")])),
    ("where.", E(adapt::where_nonzero)), ("nonzero_numpy", E(adapt::where_nonzero)),
    ("norm", E(linalg::norm)), ("linalg_norm", E(linalg::norm)),
   
    ("fill", E(adapt::fill)), ("copy", E(adapt::copy)), ("zero", E(adapt::zero)),
    ("_adaptive_avg_pool2d", Row("adaptive_avg_pool2d")), ("_adaptive_avg_pool3d", Row("adaptive_avg_pool3d")),
    ("adaptive_max_pool1d", Row("adaptive_max_pool1d_with_indices")),
    ("adaptive_max_pool2d", Row("adaptive_max_pool2d_with_indices")),
    ("adaptive_max_pool3d", Row("adaptive_max_pool3d_with_indices")),
    ("isin.Scalar_Tensor", E(adapt::isin)), ("isin.Tensor_Scalar", E(adapt::isin)),
    ("nll_loss_nd", Row("nll_loss")), ("cross_entropy_loss", Row("cross_entropy")),
    ("nll_loss_forward", E(adapt::nll_loss_forward)), ("nll_loss2d_forward", E(adapt::nll_loss_forward)),
    ("_prelu_kernel", E(adapt::prelu_kernel)), ("_weight_norm", E(normalization::weight_norm)), ("_weight_norm_interface", E(normalization::weight_norm)),
    ("norm_except_dim", E(normalization::norm_except_dim)),
    ("trapz", Row("trapezoid")),
    // Creation.
    ("arange", E(adapt::arange)), ("full", E(adapt::full_of)), ("full_like", E(adapt::full_of)), ("new_full", E(adapt::full_of)), ("elu", E(adapt::elu)),
    ("empty_strided", Renamed("empty", &[("stride", "")])),
    ("new_empty_strided", Renamed("new_empty", &[("stride", "")])),
    ("empty_permuted", Renamed("empty", &[("physical_layout", "")])),
    ("randint", E(random::randint)), ("normal_functional", E(random::normal_functional)),
    ("bernoulli.p", E(random::bernoulli_p)), ("bernoulli.float", E(random::bernoulli_p)), ("uniform.", E(random::uniform)), ("normal.", E(random::normal_functional)), ("_to_copy", E(adapt::to_copy)),
    // Networks.
    ("embedding", Renamed("embedding", &[("indices", "x"), ("padding_idx", ""), ("scale_grad_by_freq", ""), ("sparse", "")])),
    ("gelu", E(adapt::gelu)), ("_unsafe_index", E(adapt::index)), ("index", E(adapt::index)),
    ("_unsafe_masked_index", E(adapt::masked_index)),
    ("_unsafe_masked_index_put_accumulate", E(adapt::masked_index_put)), ("embedding_renorm", E(compose::embedding_renorm)),
    ("angle", E(compose::angle)), ("conj_physical", Row("clone")),
    ("_unsafe_index_put", Row("index_put")),
    ("batch_norm", E(normalization::batch_norm)), ("_native_batch_norm_legit", E(normalization::native_batch_norm)),
    ("_native_batch_norm_legit_functional", E(normalization::native_batch_norm)),
    ("_native_batch_norm_legit_no_training", E(normalization::native_batch_norm)), ("native_batch_norm", E(normalization::native_batch_norm)),
    ("_batch_norm_with_update", E(normalization::native_batch_norm)), ("_batch_norm_with_update_functional", E(normalization::native_batch_norm)),
    ("_batch_norm_no_update", E(normalization::native_batch_norm)),
    ("native_layer_norm", E(normalization::native_layer_norm)), ("native_group_norm", E(normalization::native_group_norm)),
    ("_fused_rms_norm", E(normalization::fused_rms_norm)), ("instance_norm", E(normalization::instance_norm)),
    ("native_dropout", E(random::native_dropout)), ("dropout", E(random::dropout)), ("feature_dropout", E(random::dropout)),
    ("alpha_dropout", E(random::dropout)), ("feature_alpha_dropout", E(random::dropout)),
    ("_convolution", Row("convolution")), ("_convolution_mode", E(compose::convolution_mode)),
    ("_native_multi_head_attention", E(transformer::attention)), ("_transformer_encoder_layer_fwd", E(transformer::encoder_layer)),
    ("_grouped_mm", E(compose::grouped)), ("equal", E(compose::equal)), ("can_cast", E(compose::can_cast)), ("matrix_exp", E(compose::matrix_exp)),
    ("linalg_matrix_exp", E(compose::matrix_exp)), ("_shape_as_tensor", E(compose::shape_as_tensor)),
    ("conv_transpose2d.input", Row("conv_transpose2d")), ("conv_transpose3d.input", Row("conv_transpose3d")),
    ("scaled_dot_product_attention", E(adapt::attention)),
    ("_scaled_dot_product_flash_attention_for_cpu", E(adapt::attention)),
    ("_scaled_dot_product_flash_attention", E(adapt::attention)),
    ("_scaled_dot_product_efficient_attention", E(adapt::attention)),
    ("_scaled_dot_product_attention_math_for_mps", E(adapt::attention)),
    ("_scaled_dot_product_attention_math", E(adapt::attention)), ("_scaled_dot_product_fused_attention_overrideable", E(adapt::attention)),
    ("lstm.data", E(unrolled_rnn::packed)), ("gru.data", E(unrolled_rnn::packed)),
    ("rnn_tanh.data", E(unrolled_rnn::packed)), ("rnn_relu.data", E(unrolled_rnn::packed)),
    ("_pack_padded_sequence", E(unrolled_rnn::pack)), ("_pad_packed_sequence", E(unrolled_rnn::pad)),
    ("lstm.input", E(adapt::recurrent)), ("gru.input", E(adapt::recurrent)),
    ("rnn_tanh.input", E(unrolled_rnn::simple)), ("rnn_relu.input", E(unrolled_rnn::simple)),
    ("lstm_cell", E(adapt::cell)), ("gru_cell", E(adapt::cell)), ("_cdist_forward", Renamed("cdist", &[("compute_mode", "")])), ("cdist", Renamed("cdist", &[("compute_mode", "")])),
    ("constant_pad_nd", E(adapt::pad)), ("pad", E(adapt::pad)), ("reflection_pad1d", E(adapt::pad)), ("reflection_pad2d", E(adapt::pad)),
    ("reflection_pad3d", E(adapt::pad)), ("replication_pad1d", E(adapt::pad)), ("replication_pad2d", E(adapt::pad)),
    ("replication_pad3d", E(adapt::pad)), ("_pad_circular", E(adapt::pad)),
    ("upsample_nearest1d", E(adapt::upsample)), ("upsample_nearest2d", E(adapt::upsample)), ("upsample_nearest3d", E(adapt::upsample)),
    ("_upsample_nearest_exact1d", E(adapt::upsample)), ("_upsample_nearest_exact2d", E(adapt::upsample)),
    ("_upsample_nearest_exact3d", E(adapt::upsample)), ("upsample_linear1d", E(adapt::upsample)),
    ("upsample_bilinear2d", E(adapt::upsample)), ("upsample_trilinear3d", E(adapt::upsample)), ("upsample_bicubic2d", E(adapt::upsample)),
    ("_upsample_bilinear2d_aa", E(adapt::upsample)), ("_upsample_bicubic2d_aa", E(adapt::upsample)),
    ("grid_sampler", E(adapt::grid_sampler)), ("grid_sampler_2d", E(adapt::grid_sampler)), ("grid_sampler_3d", E(adapt::grid_sampler)),
    // Without a row.
    ("vdot", Row("dot")), ("linalg_vecdot", E(linalg::vecdot)), ("logspace", E(compose::logspace)), ("cartesian_prod", E(compose::cartesian_prod)),
    ("combinations", E(compose::combinations)), ("nonzero_static", E(compose::nonzero_static)), ("sum_to_size", E(compose::sum_to_size)),
    ("repeat_interleave.Tensor", E(compose::repeat_indices)), ("atleast_1d.Sequence", E(compose::atleast)),
    ("atleast_2d.Sequence", E(compose::atleast)), ("atleast_3d.Sequence", E(compose::atleast)), ("diagflat", E(compose::diagflat)),
    ("float_power", E(compose::float_power)),
    ("special_multigammaln", Row("mvlgamma")), ("scalar_tensor", E(compose::scalar_tensor)),
    ("_unique2", E(compose::unique)), ("unique_dim", E(compose::unique)), ("unique_consecutive", E(compose::unique)),
    ("_trilinear", E(compose::trilinear)), ("max_unpool2d", E(compose::max_unpool)), ("max_unpool3d", E(compose::max_unpool)),
    ("fill_diagonal", E(compose::fill_diagonal)), ("embedding_bag", E(compose::embedding_bag)), ("_embedding_bag", E(compose::embedding_bag)),
    ("_embedding_bag_forward_only", E(compose::embedding_bag)), ("_pdist_forward", Row("pdist")),
    ("slogdet", E(linalg::slogdet)), ("_linalg_slogdet", E(linalg::slogdet)), ("logdet", E(linalg::logdet)),
    ("cholesky_solve", E(linalg::cholesky_solve)), ("cholesky_inverse", E(linalg::cholesky_solve)), ("triangular_solve", E(linalg::triangular_solve)),
    ("linalg_solve_triangular", E(linalg::solve_triangular)),
    ("vander", E(linalg::vander)), ("affine_grid_generator", E(compose::affine_grid)),
    ("frobenius_norm", E(linalg::matrix_norm)), ("nuclear_norm", E(linalg::matrix_norm)),
    ("exponential", E(random::drawn)), ("log_normal", E(random::drawn)), ("cauchy", E(random::drawn)), ("geometric", E(random::drawn)),
    ("normal.Tensor_float", E(random::normal)), ("normal.float_Tensor", E(random::normal)), ("normal.Tensor_Tensor", E(random::normal)),
    ("normal.float_float", E(random::normal)), ("randint_like", E(random::randint_like)), ("multinomial", E(random::multinomial)),
    ("rrelu", E(random::rrelu)), ("rrelu_with_noise", E(random::rrelu)), ("rrelu_with_noise_functional", E(random::rrelu)),
    ("convert_element_type", E(compose::convert)), ("_index_put_impl", Renamed("index_put", &[("unsafe", "")])),
    ("rnn_tanh_cell", E(unrolled_rnn::simple_cell)), ("rnn_relu_cell", E(unrolled_rnn::simple_cell)),
    // Factors of matrices.
    ("pinverse", E(linalg::by_tolerance)), ("linalg_pinv", E(linalg::by_tolerance)),
    ("linalg_matrix_rank", E(linalg::by_tolerance)), ("linalg_cond", E(linalg::condition)), ("linalg_lstsq", E(linalg::least_squares)),
    ("linalg_svd", E(linalg::svd)), ("_linalg_svd", E(linalg::svd)), ("svd", E(linalg::svd)),
    ("linalg_svdvals", Renamed("linalg_svdvals", &[("driver", "")])), ("_linalg_eigh", E(linalg::eigh)),
    ("linalg_eigh", Renamed("linalg_eigh", &[("UPLO", "uplo")])), ("linalg_eigvalsh", Renamed("linalg_eigvalsh", &[("UPLO", "uplo")])),
    ("linalg_lu_factor_ex", E(linalg::lu_factor)), ("_lu_with_info", E(linalg::lu_factor)), ("lu_solve", E(linalg::lu_solve)),
    ("linalg_lu_solve", Renamed("linalg_lu_solve", &[("LU", "x"), ("B", "other")])),
    ("lu_unpack", Renamed("lu_unpack", &[("LU_data", "x"), ("LU_pivots", "pivots")])),
    ("orgqr", Renamed("linalg_householder_product", &[("input2", "tau")])),
    ("linalg_tensorinv", E(linalg::tensor_inverse)), ("linalg_tensorsolve", E(linalg::tensor_inverse)),
    // Special functions, losses and others.
    ("special_i0", Row("i0")), ("special_modified_bessel_i0", Row("i0")), ("special_modified_bessel_i1", Row("special_i1")),
    ("special_gammainc", Row("igamma")), ("special_gammaincc", Row("igammac")), ("polygamma", E(adapt::polygamma)),
    ("special_polygamma", E(adapt::polygamma)), ("_ctc_loss", E(adapt::loss_only)), ("multilabel_margin_loss_forward", E(adapt::loss_only)),
    ("multi_margin_loss", E(adapt::multi_margin)), ("nll_loss2d", Row("nll_loss")), ("native_channel_shuffle", Row("channel_shuffle")),
    ("_is_all_true", Row("all")), ("_is_any_true", Row("any")), ("_stack", Row("stack")), ("_euclidean_dist", Row("cdist")),
    ("gradient", E(compose::gradient)), ("pad_sequence", E(compose::pad_sequence)), ("stft", E(fft::stft)), ("istft", E(fft::istft)),
    ("fft_fftshift", E(fft::shift)), ("fft_ifftshift", E(fft::shift)), ("fft_fftfreq", E(fft::frequencies)),
    ("fft_rfftfreq", E(fft::frequencies)),
    // Backward programs.
    ("avg_pool2d_backward", E(backward::average)), ("avg_pool3d_backward", E(backward::average)),
    ("_adaptive_avg_pool2d_backward", E(backward::adaptive_average)), ("_adaptive_avg_pool3d_backward", E(backward::adaptive_average)),
    ("max_pool2d_with_indices_backward", E(backward::maximum)), ("max_pool3d_with_indices_backward", E(backward::maximum)),
    ("adaptive_max_pool2d_backward", E(backward::maximum)), ("adaptive_max_pool3d_backward", E(backward::maximum)),
    ("unfold_backward", E(backward::unfold)), ("convolution_backward", E(backward::convolution)),
    ("_weight_norm_interface_backward", E(backward::weight_norm)),
    ("replication_pad1d_backward", E(backward::replicated)), ("replication_pad2d_backward", E(backward::replicated)),
    ("replication_pad3d_backward", E(backward::replicated)),
    ("upsample_nearest1d_backward", E(backward::resize)), ("upsample_nearest2d_backward", E(backward::resize)),
    ("upsample_nearest3d_backward", E(backward::resize)), ("_upsample_nearest_exact1d_backward", E(backward::resize)),
    ("_upsample_nearest_exact2d_backward", E(backward::resize)), ("_upsample_nearest_exact3d_backward", E(backward::resize)),
    ("upsample_linear1d_backward", E(backward::resize)), ("upsample_bilinear2d_backward", E(backward::resize)),
    ("upsample_trilinear3d_backward", E(backward::resize)), ("upsample_bicubic2d_backward", E(backward::resize)),
    ("_upsample_bilinear2d_aa_backward", E(backward::resize)), ("_upsample_bicubic2d_aa_backward", E(backward::resize)),
    // Numbers and checks.
    ("sym_storage_offset", E(control::sym_storage_offset)),
    ("sym_size", E(control::sym_size)), ("sym_numel", E(control::sym_numel)), ("item", E(control::item)),
    ("_local_scalar_dense", E(control::item)), ("sym_constrain_range", E(control::nothing)),
    ("sym_constrain_range_for_size", E(control::nothing)), ("_assert_tensor_metadata", E(control::nothing)),
    ("_assert_scalar", E(control::assert_scalar)), ("_assert_async", E(control::assert_tensor)),
    ("_functional_assert_scalar", E(control::assert_scalar)), ("_functional_assert_async", E(control::assert_tensor)),
    ("_linalg_det", E(linalg::first_only)), ("linalg_inv_ex", E(linalg::first_only)), ("linalg_cholesky_ex", E(linalg::first_only)),
    ("_linalg_solve_ex", E(linalg::first_only)), ("linalg_solve_ex", E(linalg::first_only)), ("tensordot", E(linalg::tensordot)),
    ("_linalg_check_errors", E(control::nothing)), ("is_nonzero", E(control::item)),
];

/// Operators outside of `aten` that are known here.
static OTHERS: &[(&str, Emit)] =
    &[("transformers::grouped_mm_fallback", compose::grouped_mm), ("prim::data", views::alias)];

/// Imports a node.
pub(super) fn import<'a>(builder: &mut Builder<'a>, node: &'a Node) -> Attempt<Out> {
    let target = node.target.as_str();
    if let Some(name) = target.strip_prefix("torch.ops.higher_order.") {
        return control::higher_order(builder, node, name);
    }
    let Some(name) = target.strip_prefix("torch.ops.") else { return control::number(builder, node) };
    let mut parts = name.splitn(3, '.');
    let (space, base, overload) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    if space.is_empty() || base.is_empty() {
        return Err(err!(Load, "{:?} is no operator", shorten(target)).into());
    }
    let overload = if overload == "default" { "" } else { overload };
    let args = node.inputs.iter().map(|input| {
        let name = input.name.as_str();
        Ok((name, spelled(name, builder.argument(&input.arg)?)))
    });
    let mut call = Call { base, overload, node, args: args.collect::<Attempt<Vec<_>>>()? };
    if !matches!(space, "aten" | "prims") {
        return users_own(builder, space, &call);
    }
    if space == "aten" && out::is_out(overload) {
        return out::import(builder, &call);
    }
    if let Some(out) = complex::import(builder, &call)? {
        return Ok(out);
    }
    autocast::cast(builder, &mut call)?;
    if let Some(out) = alias(builder, &call)? {
        return Ok(out);
    }
    let in_place = base.strip_suffix('_').filter(|name| !name.ends_with('_'));
    let is_dunder = base.starts_with("__i") && base.ends_with("__") && base != "__invert__";
    if in_place.is_none() && !is_dunder {
        return functional(builder, &call);
    }
    call.base = in_place.unwrap_or(base);
    let view = call.view(builder)?;
    let new = match functional(builder, &call)? {
        Out::Node(node) => node,
        Out::View(view) => builder.current(&view)?,
        _ => return Err(err!(Load, "{base} gives no tensor").into()),
    };
    write(builder, &view, new)
}

/// Imports an operator whose result shares memory with its first argument, or the copy of such a result; `None`
/// if it is none.
pub(super) fn alias<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Option<Out>> {
    match entry(call.base, call.overload) {
        Some(How::Alias(emit) | How::View(emit)) => emit(builder, call).map(Some),
        Some(How::Copy(base)) => {
            let shown = Call { base, args: call.args.clone(), ..*call };
            Ok(alias(builder, &shown)?.map(views::without_alias))
        }
        _ => Ok(None),
    }
}

/// Imports a call that writes nothing.
pub(super) fn functional<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    match entry(call.base, call.overload) {
        Some(How::Row(row)) => generic(builder, row, call, &[]),
        Some(How::Renamed(row, names)) => generic(builder, row, call, names),
        Some(How::Emit(emit)) => emit(builder, call),
        Some(How::Alias(_) | How::View(_) | How::Copy(_)) | None => generic(builder, call.base, call, &[]),
    }
}

/// Returns the rows that a node and the graphs in it lack, without importing it: its arguments may be unknown.
pub(super) fn lacking<'a>(builder: &Builder<'a>, node: &'a Node, found: &mut Vec<(&'a Node, String)>) {
    for input in &node.inputs {
        if let Argument::AsGraph(graph) = &input.arg {
            graph.graph.nodes.iter().for_each(|inner| lacking(builder, inner, found));
        }
    }
    let Some(name) = node.target.strip_prefix("torch.ops.").filter(|name| !name.starts_with("higher_order."))
    else {
        return;
    };
    let mut parts = name.splitn(3, '.');
    let (space, base) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let overload = parts.next().filter(|overload| *overload != "default").unwrap_or_default();
    let missing = missing_row(builder.registry, space, base, overload);
    found.extend(missing.map(|row| (node, row)));
}

/// Returns the row that an operator needs and the registry lacks, such as for `aten`, `add` and `Tensor`.
pub(crate) fn missing_row(registry: &Registry, space: &str, base: &str, overload: &str) -> Option<String> {
    let has = |row: &str| registry.get(row).is_some();
    if !matches!(space, "aten" | "prims") {
        let is_known = OTHERS.iter().any(|(name, _)| name.split_once("::") == Some((space, base)));
        let [overload, long] = own_names(space, base, overload);
        return (!is_known && !has(base) && !has(&overload) && !has(&long)).then_some(long);
    }
    let overload = if out::is_out(overload) { out::without(base, overload) } else { overload };
    let functional = base.strip_suffix('_').filter(|name| !name.ends_with('_')).unwrap_or(base);
    match entry(base, overload).or_else(|| entry(functional, overload)) {
        Some(How::Row(row) | How::Renamed(row, _)) => (!has(row)).then(|| (*row).to_owned()),
        Some(How::Alias(_) | How::View(_) | How::Copy(_) | How::Emit(_)) => None,
        None => (!has(functional) && !complex::knows(functional)).then(|| functional.to_owned()),
    }
}

/// Returns what is done with an operator that is not done as its name says.
pub(super) fn entry(base: &str, overload: &str) -> Option<&'static How> {
    static BY_NAME: LazyLock<HashMap<&str, &How>> =
        LazyLock::new(|| TABLE.iter().map(|(name, how)| (*name, how)).collect());
    let exact = BY_NAME.get(&*format!("{base}.{overload}"));
    exact.or_else(|| BY_NAME.get(base)).copied()
}

/// Calls a row of the user for `torch.ops.mylib.norm.out`: `mylib_norm_out`, `mylib_norm` or `norm`.
fn users_own<'a>(builder: &mut Builder<'a>, space: &str, call: &Call<'a>) -> Attempt<Out> {
    if let Some((_, emit)) = OTHERS.iter().find(|(name, _)| name.split_once("::") == Some((space, call.base)))
    {
        return emit(builder, call);
    }
    let names = own_names(space, call.base, call.overload);
    let known = names.iter().find(|name| builder.registry.get(name).is_some());
    match generic(builder, known.map_or(call.base, |name| name), call, &[]) {
        Err(Failure::Missing(_)) => Err(Failure::Missing(names.into_iter().last().unwrap_or_default())),
        other => other,
    }
}

/// The names that the row of an operator outside of `aten` may have, the most telling one first.
fn own_names(space: &str, base: &str, overload: &str) -> [String; 2] {
    let long = format!("{space}_{base}");
    [if overload.is_empty() { long.clone() } else { format!("{long}_{overload}") }, long]
}
