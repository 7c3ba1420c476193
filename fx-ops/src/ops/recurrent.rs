//! Recurrent networks: one step, and whole sequences of stacked layers.
//!
//! Gates are in PyTorch's order: input, forget, cell, output for LSTM; reset, update, new for GRU. The
//! products with the inputs of all steps are one GEMM, those with the hidden state one a step.

use fx_core::array::checked_numel;
use fx_core::math::Real;
use fx_core::op::Flops::Rule;
use fx_core::op::kind::TensorsType;
use fx_core::{Array, Dim, Element, Op, Result, Shape, Tensor, TensorType, bail, err, kernels};

use crate::kernel::gemm::{GemmElement, gemm, transposed};
use crate::kernel::recurrent::{Cell, StateWeight, Steps, gru_step, lstm_step};
use crate::ops::check::{
    dense, float_only, in_float, opt_dense, opt_slice, opt_type_of, same_dtype, same_shape, slice, type_of,
    wide, zeroed,
};
use crate::ops::flops;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[RECURRENT];

kernels! {
    /// Recurrent networks.
    pub trait Recurrent; pub static RECURRENT;

    /// One step of an LSTM: `x: [n, i]`, `h` and `c: [n, d]`, `w_ih: [4 d, i]`, `w_hh: [4 d, d]`, biases
    /// `[4 d]`; gives the new `h` and `c`.
    ///
    /// `c' = sigmoid(f) c + sigmoid(i) tanh(g)`, `h' = sigmoid(o) tanh(c')` for the gates `i, f, g, o`.
    #[flops = Rule(flops::cell::<3>)]
    lstm_cell(x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: OptTensor = None, b_hh: OptTensor = None)
        -> (Tensor, Tensor) = lstm_cell_type, lstm_cell_kernel;
    /// One step of a GRU: `x: [n, i]`, `h: [n, d]`, `w_ih: [3 d, i]`, `w_hh: [3 d, d]`, biases `[3 d]`; gives
    /// the new `h`.
    ///
    /// `h' = (1 - z) n + z h` with `n = tanh(n_x + r n_h)` for the gates `r, z, n`.
    #[flops = Rule(flops::cell::<2>)]
    gru_cell(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: OptTensor = None, b_hh: OptTensor = None)
        = gru_cell_type, gru_cell_kernel;
    /// An LSTM over a sequence `[t, n, i]`, or `[n, t, i]` with `batch_first`; gives the outputs of the last
    /// layer, `[t, n, directions d]`, and the last `h` and `c` of every layer and direction,
    /// `[layers directions, n, d]`.
    ///
    /// `params` are `w_ih, w_hh` and, with `has_biases`, `b_ih, b_hh`, for each layer and direction.
    /// `dropout` is not done here: it must be 0 when `train` is true.
    #[flops = Rule(flops::recurrent::<3>)]
    lstm(x: Tensor, h0: Tensor, c0: Tensor, params: Tensors; has_biases: Bool = true, num_layers: Int = 1,
        dropout: Float = 0.0, train: Bool = false, bidirectional: Bool = false, batch_first: Bool = false)
        -> (Tensor, Tensor, Tensor) = lstm_type, lstm_kernel;
    /// A GRU over a sequence, with inputs, parameters and results as in `lstm`, but without `c`.
    #[flops = Rule(flops::recurrent::<2>)]
    gru(x: Tensor, h0: Tensor, params: Tensors; has_biases: Bool = true, num_layers: Int = 1, dropout: Float = 0.0,
        train: Bool = false, bidirectional: Bool = false, batch_first: Bool = false) -> (Tensor, Tensor) = gru_type, gru_kernel;
}

/// Checks the weights of one layer for inputs of size `input` and a state of size `hidden`.
fn check_weights(
    cell: Cell,
    x: &TensorType,
    input: &Dim,
    hidden: &Dim,
    weights: [Option<&TensorType>; 4],
) -> Result<()> {
    let gates = hidden * cell.gates();
    let expected = [
        ("w_ih", vec![gates.clone(), input.clone()]),
        ("w_hh", vec![gates.clone(), hidden.clone()]),
        ("b_ih", vec![gates.clone()]),
        ("b_hh", vec![gates]),
    ];
    for ((name, shape), ty) in expected.iter().zip(weights) {
        if let Some(ty) = ty {
            same_dtype(name, x.dtype, ty.dtype)?;
            same_shape(name, shape, &ty.shape)?;
        }
    }
    Ok(())
}

fn check_cell(
    cell: Cell,
    x: &TensorType,
    state: &[&TensorType],
    weights: [Option<&TensorType>; 4],
) -> Result<()> {
    float_only(x.dtype)?;
    let ([n, input], [_, hidden]) = (&x.shape[..], &state[0].shape[..]) else {
        bail!(Shape, "expected an input [n, i] and a state [n, d], got {x} and {}", state[0]);
    };
    for ty in state {
        same_dtype("a state", x.dtype, ty.dtype)?;
        same_shape("a state", &[n.clone(), hidden.clone()], &ty.shape)?;
    }
    check_weights(cell, x, input, hidden, weights)
}

fn lstm_cell_type(
    x: &TensorType,
    h: &TensorType,
    c: &TensorType,
    w_ih: &TensorType,
    w_hh: &TensorType,
    b_ih: Option<&TensorType>,
    b_hh: Option<&TensorType>,
) -> Result<(TensorType, TensorType)> {
    check_cell(Cell::Lstm, x, &[h, c], [Some(w_ih), Some(w_hh), b_ih, b_hh])?;
    Ok((h.clone(), h.clone()))
}

fn gru_cell_type(
    x: &TensorType,
    h: &TensorType,
    w_ih: &TensorType,
    w_hh: &TensorType,
    b_ih: Option<&TensorType>,
    b_hh: Option<&TensorType>,
) -> Result<TensorType> {
    check_cell(Cell::Gru, x, &[h], [Some(w_ih), Some(w_hh), b_ih, b_hh])?;
    Ok(h.clone())
}

/// The weights of one layer and direction, in the dtype of the computation.
struct Weights {
    w_ih: Array,
    w_hh: Array,
    b_ih: Option<Array>,
    b_hh: Option<Array>,
}

/// The sizes of one layer: steps, batch, input and state.
#[derive(Clone, Copy)]
struct Extent {
    steps: usize,
    batch: usize,
    input: usize,
    hidden: usize,
}

impl Weights {
    fn new(parts: [Option<&Array>; 4], dtype: fx_core::DType) -> Result<Self> {
        let [Some(w_ih), Some(w_hh), b_ih, b_hh] = parts else {
            bail!(Argument, "expected weights of inputs and state");
        };
        Ok(Weights {
            w_ih: dense(w_ih, dtype)?,
            w_hh: dense(w_hh, dtype)?,
            b_ih: opt_dense(b_ih, dtype)?,
            b_hh: opt_dense(b_hh, dtype)?,
        })
    }

    /// Runs over the steps of `x`, from the last to the first if `reverse`; writes each new state to `out`,
    /// whose rows are `(row stride, offset)`, and leaves the last ones in `h` and `c`.
    #[expect(clippy::too_many_arguments, reason = "one caller")]
    fn run<T: GemmElement + Real + Element>(
        &self,
        cell: Cell,
        size: Extent,
        x: &[T],
        h: &mut [T],
        c: &mut [T],
        out: &mut [T],
        (out_stride, out_offset): (usize, usize),
        reverse: bool,
    ) -> Result<()> {
        let Extent { steps, batch, input, hidden } = size;
        let width = cell.gates() * hidden;
        let too_large = || err!(Limit, "the gates of a recurrent network do not fit into memory");
        let rows = steps.checked_mul(batch).ok_or_else(too_large)?;
        let mut gates = filled(rows, width, opt_slice::<T>(&self.b_ih))?;
        let (w_ih, w_hh) = (slice::<T>(&self.w_ih), slice::<T>(&self.w_hh));
        gemm(rows, input, width, T::ONE, x, (input, 1), w_ih, (1, input), T::ONE, &mut gates, (width, 1));
        let b_hh = opt_slice::<T>(&self.b_hh);
        // One step alone is a product whose rows and columns are dealt out to threads.
        if let Some(tile) = T::tile().filter(|_| steps > 1) {
            let weight = StateWeight::new(tile, cell, batch, hidden, w_hh);
            let (sizes, threads) = ([steps, batch], fx_simd::parallel::threads());
            let steps = Steps { weight: &weight, bias: b_hh, sizes, reverse, gates: &gates, threads };
            if rows > 0 {
                steps.run(h, c, &mut out[out_offset..], (batch * out_stride, out_stride));
            }
            return Ok(());
        }
        let mut state_gates = filled(batch, width, b_hh)?;
        // Every step packs the weight anew, which is slow across memory, so that is turned once for all.
        let turned =
            if steps > 1 && batch > 1 { transposed(w_hh, width, hidden, hidden) } else { Vec::new() };
        let (w_hh, strides) = if turned.is_empty() { (w_hh, (1, hidden)) } else { (&turned[..], (width, 1)) };
        for step in 0..steps {
            let step = if reverse { steps - 1 - step } else { step };
            for row in state_gates.chunks_mut(width.max(1)) {
                match b_hh {
                    Some(bias) => row.copy_from_slice(bias),
                    None => row.fill(T::ZERO),
                }
            }
            gemm(
                batch,
                hidden,
                width,
                T::ONE,
                h,
                (hidden, 1),
                w_hh,
                strides,
                T::ONE,
                &mut state_gates,
                (width, 1),
            );
            for item in 0..batch {
                let row = step * batch + item;
                let (gx, gh) = (&gates[row * width..][..width], &state_gates[item * width..][..width]);
                let [gx, gh] = [gx, gh].map(|gates| -> [&[T]; 4] {
                    std::array::from_fn(|k| gates.get(k * hidden..(k + 1) * hidden).unwrap_or_default())
                });
                let h = &mut h[item * hidden..][..hidden];
                match cell {
                    Cell::Lstm => {
                        let c = &mut c[item * hidden..][..hidden];
                        fx_simd::call::<lstm_step, _>((gx, gh, &mut *h, c));
                    }
                    Cell::Gru => {
                        let old = h.to_vec();
                        fx_simd::call::<gru_step, _>((gx, gh, &old[..], &mut *h));
                    }
                }
                out[row * out_stride + out_offset..][..hidden].copy_from_slice(h);
            }
        }
        Ok(())
    }
}

/// Makes rows that are all the bias, or zero.
fn filled<T: Element + Real>(rows: usize, width: usize, bias: Option<&[T]>) -> Result<Vec<T>> {
    let mut out = zeroed::<T>(checked_numel(&[rows, width])?)?;
    if let Some(bias) = bias {
        out.chunks_mut(width.max(1)).for_each(|row| row.copy_from_slice(bias));
    }
    Ok(out)
}

fn run_cell(cell: Cell, x: &Array, state: &[&Array], weights: [Option<&Array>; 4]) -> Result<(Array, Array)> {
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    let weights = Weights::new(weights, wide)?;
    let shape = state[0].shape();
    let size = Extent { steps: 1, batch: shape[0], input: x.shape()[1], hidden: shape[1] };
    let x = dense(x, wide)?;
    in_float!(wide, T => {
        let mut h = state[0].cast(wide).to_vec::<T>()?;
        let mut c = state.last().map_or(Ok(Vec::new()), |c| c.cast(wide).to_vec::<T>())?;
        let mut out = zeroed::<T>(h.len())?;
        weights.run(cell, size, slice(&x), &mut h, &mut c, &mut out, (size.hidden, 0), false)?;
        Ok((Array::from_vec(h, shape)?.cast(dtype), Array::from_vec(c, shape)?.cast(dtype)))
    })
}

fn lstm_cell_kernel(
    x: &Array,
    h: &Array,
    c: &Array,
    w_ih: &Array,
    w_hh: &Array,
    b_ih: Option<&Array>,
    b_hh: Option<&Array>,
) -> Result<(Array, Array)> {
    let weights = [Some(w_ih), Some(w_hh), b_ih, b_hh];
    let types = weights.map(opt_type_of);
    check_cell(Cell::Lstm, &type_of(x), &[&type_of(h), &type_of(c)], types.each_ref().map(Option::as_ref))?;
    run_cell(Cell::Lstm, x, &[h, c], weights)
}

fn gru_cell_kernel(
    x: &Array,
    h: &Array,
    w_ih: &Array,
    w_hh: &Array,
    b_ih: Option<&Array>,
    b_hh: Option<&Array>,
) -> Result<Array> {
    let weights = [Some(w_ih), Some(w_hh), b_ih, b_hh];
    let types = weights.map(opt_type_of);
    check_cell(Cell::Gru, &type_of(x), &[&type_of(h)], types.each_ref().map(Option::as_ref))?;
    run_cell(Cell::Gru, x, &[h], weights).map(|(h, _)| h)
}

/// How a network is built.
#[derive(Clone, Copy)]
pub(crate) struct Network {
    pub(crate) cell: Cell,
    has_biases: bool,
    layers: usize,
    pub(crate) directions: usize,
    pub(crate) batch_first: bool,
}

impl Network {
    pub(crate) fn new(
        cell: Cell,
        has_biases: bool,
        layers: &Dim,
        dropout: Option<f64>,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Result<Self> {
        if train && dropout.is_some_and(|p| p != 0.0) {
            return Err(err!(
                Argument,
                "expected a dropout of 0 in training, got {}",
                dropout.unwrap_or(0.0)
            )
            .help("apply `dropout` between single layers"));
        }
        let layers = layers.known().ok_or_else(fx_core::op::unknown_type)?;
        let Some(layers) = usize::try_from(layers).ok().filter(|&layers| layers > 0) else {
            bail!(Argument, "expected num_layers of at least 1, got {layers}");
        };
        Ok(Network { cell, has_biases, layers, directions: if bidirectional { 2 } else { 1 }, batch_first })
    }

    /// Returns the parameters of each layer and direction.
    pub(crate) fn split<'a, P>(&self, params: &'a [&'a P]) -> Result<Vec<[Option<&'a P>; 4]>> {
        let each = if self.has_biases { 4 } else { 2 };
        let expected = self.layers.checked_mul(self.directions * each);
        if expected != Some(params.len()) {
            bail!(
                Argument,
                "expected {each} params for each of {} layers in {} directions, got {}",
                self.layers,
                self.directions,
                params.len()
            );
        }
        Ok(params.chunks(each).map(|part| std::array::from_fn(|i| part.get(i).copied())).collect())
    }

    /// Returns the types of the outputs and of the last states.
    pub(crate) fn infer(
        &self,
        x: &TensorType,
        states: &[&TensorType],
        params: &[&TensorType],
    ) -> Result<(TensorType, TensorType)> {
        float_only(x.dtype)?;
        let ([first, second, input], [_, _, hidden]) = (&x.shape[..], &states[0].shape[..]) else {
            bail!(Shape, "expected an input and states of rank 3, got {x} and {}", states[0]);
        };
        let batch = if self.batch_first { first } else { second };
        let state = [Dim::from(self.layers * self.directions), batch.clone(), hidden.clone()];
        for ty in states {
            same_dtype("a state", x.dtype, ty.dtype)?;
            same_shape("a state", &state, &ty.shape)?;
        }
        let width = hidden * self.directions;
        for (i, weights) in self.split(params)?.into_iter().enumerate() {
            let input = if i < self.directions { input } else { &width };
            check_weights(self.cell, x, input, hidden, weights)?;
        }
        let out = [first, second, &width].into_iter().collect::<Shape>();
        Ok((TensorType::new(x.dtype, out), TensorType::new(x.dtype, state.iter().collect::<Shape>())))
    }

    /// Returns the outputs and the last states.
    fn eval(&self, x: &Array, states: &[&Array], params: &[&Array]) -> Result<(Array, Vec<Array>)> {
        let state_types: Vec<TensorType> = states.iter().map(|x| type_of(x)).collect();
        let param_types: Vec<TensorType> = params.iter().map(|x| type_of(x)).collect();
        self.infer(
            &type_of(x),
            &state_types.iter().collect::<Vec<_>>(),
            &param_types.iter().collect::<Vec<_>>(),
        )?;
        let (dtype, wide) = (x.dtype(), wide(x.dtype()));
        let x = if self.batch_first { x.transpose(0, 1)? } else { x.clone() };
        let (steps, batch, hidden) = (x.shape()[0], x.shape()[1], states[0].shape()[2]);
        let width = self.directions * hidden;
        let one = batch * hidden;
        in_float!(wide, T => {
            let mut states: Vec<Vec<T>> = states.iter().map(|x| x.cast(wide).to_vec()).collect::<Result<_>>()?;
            // A GRU has no cell state; an empty one stands for it.
            states.resize(2, Vec::new());
            let [hs, cs] = &mut states[..] else { unreachable!("there are two states now") };
            let mut inputs = x.cast(wide).to_vec::<T>()?;
            let mut input = x.shape()[2];
            for (i, weights) in self.split(params)?.chunks(self.directions).enumerate() {
                let mut out = zeroed::<T>(checked_numel(&[steps, batch, width])?)?;
                for (direction, weights) in weights.iter().enumerate() {
                    let at = (i * self.directions + direction) * one;
                    let c = if cs.is_empty() { &mut [][..] } else { &mut cs[at..at + one] };
                    let size = Extent { steps, batch, input, hidden };
                    let place = (width, direction * hidden);
                    let (weights, h) = (Weights::new(*weights, wide)?, &mut hs[at..at + one]);
                    weights.run(self.cell, size, &inputs, h, c, &mut out, place, direction == 1)?;
                }
                (inputs, input) = (out, width);
            }
            let out = Array::from_vec(inputs, &[steps, batch, width])?;
            let out = if self.batch_first { out.transpose(0, 1)?.contiguous()? } else { out };
            let state_shape = [self.layers * self.directions, batch, hidden];
            let states = states
                .into_iter()
                .map(|state| {
                    let state = if state.is_empty() { zeroed::<T>(checked_numel(&state_shape)?)? } else { state };
                    Ok(Array::from_vec(state, &state_shape)?.cast(dtype))
                })
                .collect::<Result<_>>()?;
            Ok((out.cast(dtype), states))
        })
    }
}

type Arrays<'a> = smallvec::SmallVec<[&'a Array; 4]>;

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn lstm_type(
    x: &TensorType,
    h: &TensorType,
    c: &TensorType,
    params: TensorsType<'_>,
    has_biases: bool,
    layers: Dim,
    dropout: Option<f64>,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Result<(TensorType, TensorType, TensorType)> {
    let params = params.known()?;
    let network = Network::new(Cell::Lstm, has_biases, &layers, dropout, train, bidirectional, batch_first)?;
    let (out, state) = network.infer(x, &[h, c], &params)?;
    Ok((out, state.clone(), state))
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn lstm_kernel(
    x: &Array,
    h: &Array,
    c: &Array,
    params: Arrays<'_>,
    has_biases: bool,
    layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Result<(Array, Array, Array)> {
    let layers = Dim::new(layers);
    let network =
        Network::new(Cell::Lstm, has_biases, &layers, Some(dropout), train, bidirectional, batch_first)?;
    let (out, states) = network.eval(x, &[h, c], &params)?;
    let [h, c] = <[Array; 2]>::try_from(states).map_err(|_| err!(Structure, "expected two states"))?;
    Ok((out, h, c))
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn gru_type(
    x: &TensorType,
    h: &TensorType,
    params: TensorsType<'_>,
    has_biases: bool,
    layers: Dim,
    dropout: Option<f64>,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Result<(TensorType, TensorType)> {
    let params = params.known()?;
    Network::new(Cell::Gru, has_biases, &layers, dropout, train, bidirectional, batch_first)?.infer(
        x,
        &[h],
        &params,
    )
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn gru_kernel(
    x: &Array,
    h: &Array,
    params: Arrays<'_>,
    has_biases: bool,
    layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Result<(Array, Array)> {
    let layers = Dim::new(layers);
    let network =
        Network::new(Cell::Gru, has_biases, &layers, Some(dropout), train, bidirectional, batch_first)?;
    let (out, states) = network.eval(x, &[h], &params)?;
    let [h, _] = <[Array; 2]>::try_from(states).map_err(|_| err!(Structure, "expected two states"))?;
    Ok((out, h))
}
