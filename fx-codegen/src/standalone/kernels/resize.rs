//! Resizing of images `[channels, height, width]`.

/// Takes the nearest element of the input for each of the result.
pub fn nearest<T: Copy>(input: [usize; 2], output: [usize; 2], scale: [f64; 2], x: &[T], out: &mut [T]) {
    let (x_size, out_size) = (input[0] * input[1], output[0] * output[1]);
    if out_size == 0 {
        return;
    }
    let at = |axis: usize, i: usize| ((i as f32 * scale[axis] as f32) as usize).min(input[axis] - 1);
    for (x, out) in x.chunks_exact(x_size).zip(out.chunks_exact_mut(out_size)) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = x[at(0, i / output[1]) * input[1] + at(1, i % output[1])];
        }
    }
}

/// Computes each element of the result from the four next to it.
pub fn bilinear(
    input: [usize; 2],
    output: [usize; 2],
    scale: [f64; 2],
    align_corners: bool,
    x: &[f32],
    out: &mut [f32],
) {
    let (x_size, out_size) = (input[0] * input[1], output[0] * output[1]);
    if out_size == 0 {
        return;
    }
    let at = |axis: usize, i: usize| {
        let scale = scale[axis] as f32;
        let place = if align_corners { i as f32 * scale } else { ((i as f32 + 0.5) * scale - 0.5).max(0.0) };
        let below = (place as usize).min(input[axis] - 1);
        (below, (below + 1).min(input[axis] - 1), place - below as f32)
    };
    for (x, out) in x.chunks_exact(x_size).zip(out.chunks_exact_mut(out_size)) {
        for (i, out) in out.iter_mut().enumerate() {
            let ((y0, y1, fy), (x0, x1, fx)) = (at(0, i / output[1]), at(1, i % output[1]));
            let line = |y: usize| {
                let (a, b) = (x[y * input[1] + x0], x[y * input[1] + x1]);
                a + fx * (b - a)
            };
            let (a, b) = (line(y0), line(y1));
            *out = a + fy * (b - a);
        }
    }
}
