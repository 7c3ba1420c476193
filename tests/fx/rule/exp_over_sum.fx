//! rule: exp_over_sum
graph main(%x: f32[n, 4]) {
  %f = exp(%x)
  %g = sum(%f, [0], true)
  %h = div(%f, %g)
  return %h
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %softmax: f32[n, 4] = softmax(%x, 0)
  return %softmax
}
