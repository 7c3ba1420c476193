//! rule: sub_zero
graph main(%x: f32[n, 4]) {
  %a = sub(%x, 0)
  %b = sub(%a, -0.0)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %b: f32[n, 4] = sub(%x, -0.0)
  return %b
}
