//! What a value of the graph is in generated code: a window on an input, a weight, or a buffer.

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

/// Returns the distances of elements that lie in row-major order without gaps.
pub(super) fn row_major(shape: &[Dim]) -> Vec<Dim> {
    let mut step = Dim::new(1);
    let mut strides: Vec<Dim> = shape
        .iter()
        .rev()
        .map(|size| {
            let stride = step.clone();
            step = &step * size;
            stride
        })
        .collect();
    strides.reverse();
    strides
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

    /// Returns whether the elements lie in row-major order without gaps.
    pub(super) fn is_contiguous(&self) -> bool {
        let one = Dim::new(1);
        let dense = row_major(&self.shape);
        let fits = |((size, stride), dense): ((&Dim, &Dim), &Dim)| *size == one || stride == dense;
        self.shape.iter().zip(&self.strides).zip(&dense).all(fits)
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
        View {
            shape: axes.iter().map(|&axis| self.shape[axis].clone()).collect(),
            strides: axes.iter().map(|&axis| self.strides[axis].clone()).collect(),
            ..self.clone()
        }
    }
}

/// A run of axes as one: sizes and, for each operand, distances. Axes that lie one inside the other in every
/// operand become one.
pub(super) fn collapse(shape: &[Dim], strides: &[Vec<Dim>]) -> (Vec<Dim>, Vec<Vec<Dim>>) {
    let one = Dim::new(1);
    let mut sizes: Vec<Dim> = Vec::new();
    let mut out: Vec<Vec<Dim>> = vec![Vec::new(); strides.len()];
    for (axis, size) in shape.iter().enumerate() {
        if *size == one {
            continue;
        }
        let joins =
            |(own, all): (&Vec<Dim>, &Vec<Dim>)| own.last().is_some_and(|last| *last == &all[axis] * size);
        if !sizes.is_empty() && out.iter().zip(strides).all(joins) {
            if let Some(last) = sizes.last_mut() {
                *last = &*last * size;
            }
            for (own, all) in out.iter_mut().zip(strides) {
                own.pop();
                own.push(all[axis].clone());
            }
        } else {
            sizes.push(size.clone());
            for (own, all) in out.iter_mut().zip(strides) {
                own.push(all[axis].clone());
            }
        }
    }
    (sizes, out)
}
