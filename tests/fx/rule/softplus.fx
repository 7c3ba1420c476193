//! rule: softplus
graph main(%x: f32[n, 4]) {
  %a = exp(%x)
  %b = add(%a, 1.0)
  %c = log(%b)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %softplus: f32[n, 4] = softplus(%x)
  return %softplus
}
