//! rule: relu
graph main(%x: f32[n, 4]) {
  %a = clamp(%x, min=0)
  %b = neg(%a)
  %c = maximum(%b, 0.0)
  %d = clamp_min(%c, 0.0)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %relu: f32[n, 4] = relu(%x)
  %b: f32[n, 4] = neg(%relu)
  %relu_1: f32[n, 4] = relu(%b)
  %relu_2: f32[n, 4] = relu(%relu_1)
  return %relu_2
}
