//! rule: pow_one
graph main(%x: f32[n, 4]) {
  %a = pow(%x, 1)
  return %a
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  return %x
}
