//! Rotations of pairs of columns, written down while eigenvalues are found and applied to the vectors afterwards.

use fx_simd::{call, parallel, wide};

/// Columns `i` and `j` become `cos i + sin j` and `cos j - sin i`.
#[derive(Clone, Copy)]
pub(super) struct Rotation {
    i: u32,
    j: u32,
    cos: f64,
    sin: f64,
}

impl Rotation {
    pub(super) fn new(i: usize, j: usize, cos: f64, sin: f64) -> Rotation {
        Rotation { i: i as u32, j: j as u32, cos, sin }
    }
}

/// The rows of the matrix that are rotated at a time, so that they lie in the nearest cache.
const WIDTH: usize = 32;

/// The rotated elements below which a second thread does not pay.
const GRAIN: usize = 1 << 16;

/// Applies rotations to the columns of `a`, whose rows have `width` elements, and then brings each column that `places` tells a place
/// of there, times a sign.
pub(super) fn rotate_columns(a: &mut [f64], width: usize, rotations: &[Rotation], places: &[(usize, f64)]) {
    let at_once = GRAIN.div_ceil((rotations.len() * WIDTH).max(1));
    let scratch = || vec![[0.0; WIDTH]; places.len()];
    parallel::chunks_with(a, WIDTH * width.max(1), at_once, scratch, |columns, _, block| {
        for (i, row) in block.chunks_exact(width).enumerate() {
            columns.iter_mut().zip(row).for_each(|(column, &x)| column[i] = x);
        }
        call::<rotate, _>((columns, rotations));
        for (i, row) in block.chunks_exact_mut(width).enumerate() {
            columns.iter().zip(places).for_each(|(column, &(place, sign))| row[place] = sign * column[i]);
        }
    });
}

wide! {
    /// The second column of a rotation is mostly the first one of the next, and stays in registers.
    fn rotate[]((columns, rotations): (&mut [[f64; WIDTH]], &[Rotation])) {
        let Some(first) = rotations.first() else { return };
        let mut at = first.i as usize;
        let mut x = columns[at];
        for &Rotation { i, j, cos, sin } in rotations {
            let (i, j) = (i as usize, j as usize);
            if i != at {
                columns[at] = x;
                x = columns[i];
            }
            let y = columns[j];
            let mut out = [0.0; WIDTH];
            for l in 0..WIDTH {
                out[l] = cos * x[l] + sin * y[l];
            }
            columns[i] = out;
            for l in 0..WIDTH {
                x[l] = cos * y[l] - sin * x[l];
            }
            at = j;
        }
        columns[at] = x;
    }
}
