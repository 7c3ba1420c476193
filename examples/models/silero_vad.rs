//! Silero's voice activity detector for speech of 16 kHz: is there a voice in these 32 ms?

use fx::nn::{Conv1d, LSTMCell};
use fx::prelude::*;
use fx::weights::Weights;

/// A window is 64 samples of the one before and 512 new ones.
pub const WINDOW: usize = 64 + 512;
/// The size of the state.
pub const HIDDEN: usize = 128;

/// The detector: a Fourier transform as a convolution, four convolutions, an LSTM cell that remembers.
#[derive(Module)]
pub struct SileroVad {
    stft_conv: Conv1d,
    conv1: Conv1d,
    conv2: Conv1d,
    conv3: Conv1d,
    conv4: Conv1d,
    lstm_cell: LSTMCell,
    final_conv: Conv1d,
}

impl SileroVad {
    /// Makes the detector with the trained weights.
    pub fn load(weights: &Weights) -> Result<Self> {
        let mut model = SileroVad {
            stft_conv: Conv1d::new(1, 2 * 129, 256).stride(128).bias(false),
            conv1: Conv1d::new(129, 128, 3).padding(1),
            conv2: Conv1d::new(128, 64, 3).stride(2).padding(1),
            conv3: Conv1d::new(64, 64, 3).stride(2).padding(1),
            conv4: Conv1d::new(64, 128, 3).padding(1),
            lstm_cell: LSTMCell::new(128, HIDDEN),
            final_conv: Conv1d::new(HIDDEN, 1, 1),
        };
        model.load_state_dict(weights)?;
        Ok(model)
    }
}

#[fx::forward]
impl SileroVad {
    /// Maps windows `[batch, 576]` and the state after the windows before them, two `[batch, 128]`, to the
    /// probability of speech `[batch]` and the new state.
    pub fn forward(&self, window: &Tensor, state: &(Tensor, Tensor)) -> (Tensor, (Tensor, Tensor)) {
        let padded = window.unsqueeze(1).pad([0, 64], "reflect", 0.0);
        let spectrum = self.stft_conv.call(&padded);
        let (real, imaginary) = (spectrum.narrow(1, 0, 129), spectrum.narrow(1, 129, 129));
        let magnitude = (&real * &real + &imaginary * &imaginary).sqrt();

        let x = self.conv1.call(&magnitude).relu();
        let x = self.conv2.call(&x).relu();
        let x = self.conv3.call(&x).relu();
        let features = self.conv4.call(&x).relu().squeeze(-1);

        let (h, c) = self.lstm_cell.call(&features, Some(state));
        let score = self.final_conv.call(&h.relu().unsqueeze(-1)).sigmoid();
        (score.squeeze([1, 2]), (h, c))
    }
}
