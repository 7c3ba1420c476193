//! Sizes of windows and shapes, as users write them: one number for every axis, or one an axis.

/// One number for each of `N` axes: the size, stride, padding or dilation of a window.
///
/// A single number stands for all axes: `Conv2d::new(16, 32, 3)` is `Conv2d::new(16, 32, [3, 3])`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent<const N: usize>(pub [usize; N]);

impl<const N: usize> From<usize> for Extent<N> {
    fn from(size: usize) -> Self {
        Extent([size; N])
    }
}

impl<const N: usize> From<[usize; N]> for Extent<N> {
    fn from(sizes: [usize; N]) -> Self {
        Extent(sizes)
    }
}

impl From<(usize, usize)> for Extent<2> {
    fn from((height, width): (usize, usize)) -> Self {
        Extent([height, width])
    }
}

impl<const N: usize> Extent<N> {
    /// Writes the numbers as PyTorch prints them: `(3, 3)`, `(3,)`.
    pub(super) fn repr(self) -> String {
        match self.0.as_slice() {
            [size] => format!("({size},)"),
            sizes => format!("({})", sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// The sizes of the last axes, of any number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<usize>);

impl From<usize> for Sizes {
    fn from(size: usize) -> Self {
        Sizes(vec![size])
    }
}

impl<const N: usize> From<[usize; N]> for Sizes {
    fn from(sizes: [usize; N]) -> Self {
        Sizes(sizes.into())
    }
}

impl From<Vec<usize>> for Sizes {
    fn from(sizes: Vec<usize>) -> Self {
        Sizes(sizes)
    }
}

impl From<&[usize]> for Sizes {
    fn from(sizes: &[usize]) -> Self {
        Sizes(sizes.into())
    }
}

impl Sizes {
    /// Writes the numbers as PyTorch prints them: `(10, 20)`.
    pub(super) fn repr(&self) -> String {
        match self.0.as_slice() {
            [size] => format!("({size},)"),
            sizes => format!("({})", sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
        }
    }
}
