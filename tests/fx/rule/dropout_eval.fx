//! rule: dropout_eval
graph main(%x: f32[n, 4]) {
  %a = dropout(%x, 0.3, training=false)
  %b = dropout(%a, 0.3)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %b: f32[n, 4] = dropout(%x, 0.3)
  return %b
}
