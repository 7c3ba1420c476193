//! EfficientNet-Lite0: an image classifier of depthwise convolutions for small machines.

use fx::nn::{BatchNorm2d, Conv2d, Linear};
use fx::prelude::*;
use fx::weights::Weights;
use fx::{bail, nn};

/// Kernel, stride, expansion, channels and number of the blocks of each stage.
const STAGES: [(usize, usize, usize, usize, usize); 7] = [
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
];

/// The classifier.
#[derive(Module)]
pub struct EfficientNetLite0 {
    conv_stem: Conv2d,
    bn1: BatchNorm2d,
    blocks: Vec<Vec<Block>>,
    conv_head: Conv2d,
    bn2: BatchNorm2d,
    pool: nn::AdaptiveAvgPool2d,
    classifier: Linear,
}

fn norm(channels: usize) -> BatchNorm2d {
    BatchNorm2d::new(channels).eps(1e-3)
}

fn pointwise(inputs: usize, outputs: usize) -> Conv2d {
    Conv2d::new(inputs, outputs, 1).bias(false)
}

fn depthwise(channels: usize, kernel: usize, stride: usize) -> Conv2d {
    Conv2d::depthwise(channels, kernel).stride(stride).padding(same(kernel, stride)).bias(false)
}

/// Returns the padding on both sides of a convolution of stride 1. With stride 2 it is uneven, see [`padded`].
fn same(kernel: usize, stride: usize) -> usize {
    if stride == 1 { kernel / 2 } else { 0 }
}

/// Calls a convolution with TensorFlow's padding for even sizes: with stride 2 there is one more at the end.
fn padded(conv: &Conv2d, x: &Tensor) -> Tensor {
    let (kernel, stride) = (conv.kernel_size()[0], conv.stride[0]);
    if stride == 1 {
        return conv.call(x);
    }
    let before = (kernel - stride) / 2;
    let after = kernel - stride - before;
    conv.call(&x.pad([before, after, before, after], "constant", 0.0))
}

impl EfficientNetLite0 {
    /// Makes the network with the trained weights.
    pub fn load(weights: &Weights) -> Result<Self> {
        let mut inputs = 32;
        let mut stage =
            |&(kernel, stride, expand, outputs, repeats): &(usize, usize, usize, usize, usize)| {
                let mut block = |i| {
                    let block = Block::new(kernel, if i == 0 { stride } else { 1 }, expand, inputs, outputs);
                    inputs = outputs;
                    block
                };
                (0..repeats).map(&mut block).collect()
            };
        let mut model = EfficientNetLite0 {
            conv_stem: Conv2d::new(3, 32, 3).stride(2).bias(false),
            bn1: norm(32),
            blocks: STAGES.iter().map(&mut stage).collect(),
            conv_head: pointwise(320, 1280),
            bn2: norm(1280),
            pool: nn::AdaptiveAvgPool2d::new(1),
            classifier: Linear::new(1280, 1000),
        };
        let report = model.load_state_dict_lax(weights)?;
        // The file has no batch counters, which only training reads.
        let fits = report.missing.iter().all(|name| name.ends_with("num_batches_tracked"))
            && report.unexpected.is_empty()
            && report.mis_shaped.is_empty()
            && report.mis_typed.is_empty();
        if !fits {
            bail!(Load, "the weights are of another network: {report}");
        }
        Ok(model)
    }
}

#[fx::forward]
impl EfficientNetLite0 {
    /// Gives each class a score: `[batch, 3, 224, 224]` with pixels from -1 to 1 becomes `[batch, 1000]`.
    pub fn forward(&self, image: &Tensor) -> Tensor {
        let mut x = self.bn1.call(&padded(&self.conv_stem, image)).relu6();
        for block in self.blocks.iter().flatten() {
            x = block.call(&x);
        }
        let x = self.bn2.call(&self.conv_head.call(&x)).relu6();
        self.classifier.call(&self.pool.call(&x).flatten(1, -1))
    }
}

/// A block, whose depthwise convolution works on few channels or, between two others, on many.
#[derive(Module)]
#[allow(clippy::large_enum_variant, reason = "a network has few blocks")]
pub enum Block {
    /// Depthwise, then to the channels of the result.
    Separable { conv_dw: Conv2d, bn1: BatchNorm2d, conv_pw: Conv2d, bn2: BatchNorm2d },
    /// To many channels, depthwise, and back; added to the input if it has the same shape.
    Inverted {
        conv_pw: Conv2d,
        bn1: BatchNorm2d,
        conv_dw: Conv2d,
        bn2: BatchNorm2d,
        conv_pwl: Conv2d,
        bn3: BatchNorm2d,
        #[module(skip)]
        residual: bool,
    },
}

impl Block {
    fn new(kernel: usize, stride: usize, expand: usize, inputs: usize, outputs: usize) -> Self {
        let many = inputs * expand;
        let conv_dw = depthwise(many, kernel, stride);
        if expand == 1 {
            return Block::Separable {
                conv_dw,
                bn1: norm(many),
                conv_pw: pointwise(many, outputs),
                bn2: norm(outputs),
            };
        }
        Block::Inverted {
            conv_pw: pointwise(inputs, many),
            bn1: norm(many),
            conv_dw,
            bn2: norm(many),
            conv_pwl: pointwise(many, outputs),
            bn3: norm(outputs),
            residual: stride == 1 && inputs == outputs,
        }
    }
}

#[fx::forward]
impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Block::Separable { conv_dw, bn1, conv_pw, bn2 } => {
                let y = bn1.call(&padded(conv_dw, x)).relu6();
                bn2.call(&conv_pw.call(&y))
            }
            Block::Inverted { conv_pw, bn1, conv_dw, bn2, conv_pwl, bn3, residual } => {
                let y = bn1.call(&conv_pw.call(x)).relu6();
                let y = bn2.call(&padded(conv_dw, &y)).relu6();
                let y = bn3.call(&conv_pwl.call(&y));
                if *residual { x + y } else { y }
            }
        }
    }
}
