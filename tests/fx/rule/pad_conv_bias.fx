//! rule: pad_conv_bias
graph main(%x: f64[2, 3, 5, 6, 7], %w: f64[8, 3, 3, 3, 3], %b: f64[8]) {
  %p = pad(%x, [1, 1, 2, 2])
  %a = conv3d(%p, %w, %b, padding=[1, 0, 0])
  return %a
}
//! =>
graph main(%x: f64[2, 3, 5, 6, 7], %w: f64[8, 3, 3, 3, 3], %b: f64[8]) -> f64[2, 8, 5, 8, 7] {
  %conv3d: f64[2, 8, 5, 8, 7] = conv3d(%x, %w, bias=%b, padding=[1, 2, 1])
  return %conv3d
}
