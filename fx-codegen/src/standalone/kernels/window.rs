//! [`Window`]: the geometry of operations on windows over up to three axes; those with fewer have sizes of 1
//! in front.

/// How windows lie on an input; sizes of axes are those of depth, height and width.
#[derive(Clone, Copy)]
pub struct Window {
    /// The sizes of the input.
    pub input: [usize; 3],
    /// The sizes of a window.
    pub kernel: [usize; 3],
    /// The sizes of the result.
    pub output: [usize; 3],
    /// The distance between windows.
    pub stride: [usize; 3],
    /// The padding before the input.
    pub padding: [usize; 3],
    /// The distance between the elements of a window.
    pub dilation: [usize; 3],
}

impl Window {
    /// Returns how far an element of a window is from its first one, along each axis.
    #[inline(always)]
    pub fn shift(&self, tap: usize) -> [usize; 3] {
        let [depth, height, width] = self.kernel;
        [
            tap / (height * width) % depth * self.dilation[0],
            tap / width % height * self.dilation[1],
            tap % width * self.dilation[2],
        ]
    }
}

/// Returns the number of elements.
pub const fn product([a, b, c]: [usize; 3]) -> usize {
    a * b * c
}
