//! Recurrent layers: [`LSTM`] and [`GRU`] over sequences, [`LSTMCell`] and [`GRUCell`] for one step.

use fx_core::module::{Field, Visitor, VisitorMut};
use fx_core::{Parameter, Tensor, call};
use fx_macros::{Module, forward};

use super::init;
use crate::ops::creation::new_zeros;
use crate::ops::recurrent::{gru, gru_cell, lstm, lstm_cell};

/// Makes the four parameters of a cell with this many gates.
fn cell(gates: usize, inputs: usize, hidden: usize) -> [Parameter; 4] {
    let rows = gates.saturating_mul(hidden);
    let shapes: [&[usize]; 4] = [&[rows, inputs], &[rows, hidden], &[rows], &[rows]];
    shapes.map(|shape| init::fan_in_uniform(shape, hidden))
}

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident, $gates:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Weights determine it; without stored biases it has none.
        #[derive(Module)]
        #[module(leaf, repr = "Self::repr")]
        pub struct $name {
            /// The gates' matrices for the input, one below the other.
            pub weight_ih: Parameter,
            /// The gates' matrices for the state.
            pub weight_hh: Parameter,
            /// The bias of the input.
            pub bias_ih: Option<Parameter>,
            /// The bias of the state.
            pub bias_hh: Option<Parameter>,
        }

        impl $name {
            /// Makes a cell with biases.
            pub fn new(input_size: usize, hidden_size: usize) -> Self {
                let [weight_ih, weight_hh, bias_ih, bias_hh] = cell($gates, input_size, hidden_size);
                $name { weight_ih, weight_hh, bias_ih: Some(bias_ih), bias_hh: Some(bias_hh) }
            }

            /// Removes the biases.
            #[must_use]
            pub fn without_bias(self) -> Self {
                $name { bias_ih: None, bias_hh: None, ..self }
            }

            /// Returns zeros for the state of each row of `x`.
            fn zeros(&self, x: &Tensor) -> Tensor {
                new_zeros(x, (x.dim(0), self.weight_hh.dim(1)))
            }

            fn repr(&self) -> String {
                let bias = if self.bias_ih.is_some() { "" } else { ", bias=false" };
                format!("{}, {}{bias}", init::size(&self.weight_ih, 1), init::size(&self.weight_hh, 1))
            }
        }
    )*};
}
cells! {
    /// One step of an [`LSTM`].
    LSTMCell, 4;
    /// One step of a [`GRU`].
    GRUCell, 3;
}

#[forward]
impl LSTMCell {
    /// Maps `[batch, input_size]` and the state `(h, c)`, each `[batch, hidden_size]`, to the next; none
    /// stands for zeros.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&(Tensor, Tensor)>) -> (Tensor, Tensor) {
        let (h, c) = state.cloned().unwrap_or_else(|| (self.zeros(x), self.zeros(x)));
        lstm_cell(x, h, c, &self.weight_ih, &self.weight_hh, &self.bias_ih, &self.bias_hh)
    }
}

#[forward]
impl GRUCell {
    /// Maps `[batch, input_size]` and the state `[batch, hidden_size]` to the next state; none stands for zeros.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> Tensor {
        let h = state.cloned().unwrap_or_else(|| self.zeros(x));
        gru_cell(x, h, &self.weight_ih, &self.weight_hh, &self.bias_ih, &self.bias_hh)
    }
}

/// The parameters of all layers and directions, by PyTorch's names: `weight_ih_l0`, `bias_hh_l1_reverse`.
#[derive(Clone)]
struct Layers {
    parameters: Vec<(String, Parameter)>,
    inputs: usize,
    hidden: usize,
    layers: usize,
    bidirectional: bool,
    bias: bool,
}

impl Layers {
    fn new(gates: usize, this: Layers) -> Self {
        let mut parameters = Vec::new();
        for layer in 0..this.layers {
            let inputs = if layer == 0 { this.inputs } else { this.hidden.saturating_mul(this.directions()) };
            for suffix in &["", "_reverse"][..this.directions()] {
                let names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"];
                let made = names.into_iter().zip(cell(gates, inputs, this.hidden));
                let kept = if this.bias { 4 } else { 2 };
                parameters.extend(made.take(kept).map(|(name, it)| (format!("{name}_l{layer}{suffix}"), it)));
            }
        }
        Layers { parameters, ..this }
    }

    fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }

    fn tensors(&self) -> Vec<&Tensor> {
        self.parameters.iter().map(|(_, parameter)| parameter.tensor()).collect()
    }

    /// Returns zeros for the states of all layers and directions.
    fn zeros(&self, x: &Tensor, batch_first: bool) -> Tensor {
        new_zeros(x, (self.layers * self.directions(), x.dim(if batch_first { 0 } else { 1 }), self.hidden))
    }

    fn repr(&self, batch_first: bool) -> String {
        let mut text = format!("{}, {}", self.inputs, self.hidden);
        if self.layers != 1 {
            text += &format!(", num_layers={}", self.layers);
        }
        for (name, set) in [
            ("bias=false", !self.bias),
            ("batch_first=true", batch_first),
            ("bidirectional=true", self.bidirectional),
        ] {
            if set {
                text += ", ";
                text += name;
            }
        }
        text
    }
}

/// The members are named by themselves, whatever the field is called.
impl Field for Layers {
    fn visit<'a>(&'a self, _: &str, visitor: &mut dyn Visitor<'a>) {
        for (name, parameter) in &self.parameters {
            visitor.parameter(name, parameter);
        }
    }

    fn visit_mut(&mut self, _: &str, visitor: &mut dyn VisitorMut) {
        for (name, parameter) in &mut self.parameters {
            visitor.parameter(name, parameter);
        }
    }
}

macro_rules! recurrent_layers {
    ($($(#[$doc:meta])* $name:ident, $gates:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// Weights alone do not make it, because they do not hold the order of the axes.
        #[derive(Module)]
        #[module(leaf, no_load, repr = "Self::repr")]
        pub struct $name {
            layers: Layers,
            /// Whether the batch is the first axis, before the sequence.
            #[module(skip)]
            pub batch_first: bool,
        }

        impl $name {
            /// Makes one layer of one direction with biases, for inputs `[length, batch, input_size]`.
            pub fn new(input_size: usize, hidden_size: usize) -> Self {
                let layers = Layers {
                    parameters: Vec::new(),
                    inputs: input_size,
                    hidden: hidden_size,
                    layers: 1,
                    bidirectional: false,
                    bias: true,
                };
                $name { layers: Layers::new($gates, layers), batch_first: false }
            }

            /// Sets the number of layers, each of which reads the one before, and makes new parameters.
            #[must_use]
            pub fn num_layers(self, layers: usize) -> Self {
                $name { layers: Layers::new($gates, Layers { layers, ..self.layers }), ..self }
            }

            /// Sets whether a second cell a layer reads backwards, and makes new parameters.
            #[must_use]
            pub fn bidirectional(self, bidirectional: bool) -> Self {
                $name { layers: Layers::new($gates, Layers { bidirectional, ..self.layers }), ..self }
            }

            /// Sets whether there are biases, and makes new parameters.
            #[must_use]
            pub fn bias(self, bias: bool) -> Self {
                $name { layers: Layers::new($gates, Layers { bias, ..self.layers }), ..self }
            }

            /// Sets whether inputs and outputs are `[batch, length, size]`; states are not affected.
            #[must_use]
            pub fn batch_first(self, batch_first: bool) -> Self {
                $name { batch_first, ..self }
            }

            fn repr(&self) -> String {
                self.layers.repr(self.batch_first)
            }
        }
    )*};
}
recurrent_layers! {
    /// Long short-term memory over a sequence: `LSTM::new(40, 128).num_layers(2).batch_first(true)`.
    LSTM, 4;
    /// Gated recurrent units over a sequence: `GRU::new(40, 128).bidirectional(true)`.
    GRU, 3;
}

#[forward]
impl LSTM {
    /// Reads a sequence from the state `(h, c)`, each `[layers * directions, batch, hidden_size]`; none
    /// stands for zeros.
    ///
    /// Returns the outputs of the last layer at every step, directions beside one another, and the last states.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&(Tensor, Tensor)>) -> (Tensor, (Tensor, Tensor)) {
        let zeros = || self.layers.zeros(x, self.batch_first);
        let (h, c) = state.cloned().unwrap_or_else(|| (zeros(), zeros()));
        let Layers { bias, layers, bidirectional, .. } = self.layers;
        let (y, h, c) = call!(lstm(
            x,
            h,
            c,
            self.layers.tensors(),
            has_biases = bias,
            num_layers = layers,
            bidirectional = bidirectional,
            batch_first = self.batch_first
        ));
        (y, (h, c))
    }
}

#[forward]
impl GRU {
    /// Reads a sequence from the state `[layers * directions, batch, hidden_size]`; none stands for zeros.
    ///
    /// Returns the outputs of the last layer at every step, directions beside one another, and the last states.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> (Tensor, Tensor) {
        let h = state.cloned().unwrap_or_else(|| self.layers.zeros(x, self.batch_first));
        let Layers { bias, layers, bidirectional, .. } = self.layers;
        call!(gru(
            x,
            h,
            self.layers.tensors(),
            has_biases = bias,
            num_layers = layers,
            bidirectional = bidirectional,
            batch_first = self.batch_first
        ))
    }
}
