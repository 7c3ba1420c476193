//! What a value of the graph is in generated code: a window on an input, a weight, or a buffer.

use fx_core::window::{Window, is_row_major};
pub(super) use fx_core::window::{collapse, row_major};
use fx_core::{Arg, DType, Dim, TensorType};

/// Whose memory a value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Input(usize),
    Weight(usize),
    Buffer(usize),
}

/// A tensor: a part of some memory, with the distances of its elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub(super) home: Home,
    pub(super) dtype: DType,
    pub(super) shape: Vec<Dim>,
    pub(super) strides: Vec<Dim>,
    pub(super) offset: Dim,
    pub(super) stands_for: StandsFor,
}

/// What a tensor of a program is in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StandsFor {
    Tensor,
    /// A number of the host, kept as a tensor of rank 0: its dtype takes no part in promotion.
    Number,
    /// A list of tensors of one type, as many as the first axis has.
    List,
}

/// A value of the graph.
pub(super) type Value = Arg<View>;

/// Returns the number of elements.
pub(super) fn count(shape: &[Dim]) -> Dim {
    shape.iter().fold(Dim::new(1), |n, size| n * size)
}

impl View {
    /// Makes a window on all of some memory.
    pub(super) fn whole(home: Home, dtype: DType, shape: &[Dim]) -> View {
        View {
            home,
            dtype,
            shape: shape.to_vec(),
            strides: row_major(shape),
            offset: Dim::new(0),
            stands_for: StandsFor::Tensor,
        }
    }

    /// Returns the same memory as something else.
    pub(super) fn standing_for(self, stands_for: StandsFor) -> View {
        View { stands_for, ..self }
    }

    /// Returns whether it is a list of tensors.
    pub(super) fn is_list(&self) -> bool {
        self.stands_for == StandsFor::List
    }

    pub(super) fn rank(&self) -> usize {
        self.shape.len()
    }

    pub(super) fn ty(&self) -> TensorType {
        TensorType { dtype: self.dtype, shape: self.shape.iter().cloned().collect() }
    }

    /// Returns it as a window on the memory of this number.
    pub(super) fn window(&self, base: usize) -> Window {
        let (shape, strides, offset) = (self.shape.clone(), self.strides.clone(), self.offset.clone());
        Window { base, shape, strides, offset }
    }

    /// Returns another window on the same memory.
    pub(super) fn at(&self, window: &Window) -> View {
        let Window { shape, strides, offset, .. } = window.clone();
        View { shape, strides, offset, ..self.clone() }
    }

    /// Returns whether the elements lie in row-major order without gaps.
    pub(super) fn is_contiguous(&self) -> bool {
        is_row_major(&self.shape, &self.strides)
    }

    /// Returns how many elements lie between the first and the last, both included.
    pub(super) fn span(&self) -> Dim {
        if self.is_contiguous() {
            return count(&self.shape);
        }
        if self.shape.contains(&Dim::new(0)) {
            return Dim::new(0);
        }
        let one = Dim::new(1);
        self.shape.iter().zip(&self.strides).fold(one, |span, (size, stride)| span + (size - 1) * stride)
    }

    /// Returns the distances with which the value is read in a larger shape: 0 along axes on which it is repeated.
    pub(super) fn broadcast(&self, shape: &[Dim]) -> Vec<Dim> {
        let missing = shape.len() - self.rank();
        let (zero, one) = (Dim::new(0), Dim::new(1));
        let own = self.shape.iter().zip(&self.strides).zip(&shape[missing..]);
        let own = own.map(
            |((size, stride), wide)| if *size == one && *wide != one { zero.clone() } else { stride.clone() },
        );
        std::iter::repeat_n(zero.clone(), missing).chain(own).collect()
    }

    /// Returns the same elements with axes in another order.
    pub(super) fn permute(&self, axes: &[usize]) -> View {
        self.at(&self.window(0).permute(axes))
    }
}
