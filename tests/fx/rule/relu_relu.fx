//! rule: relu_relu
graph main(%x: f32[n, 4]) {
  %a = relu(%x)
  %b = relu(%a)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %relu: f32[n, 4] = relu(%x)
  return %relu
}
