//! rule: pow_half
graph main(%x: f32[n, 4]) {
  %s = square(%x)
  %a = pow(%s, 0.5)
  return %a
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %s: f32[n, 4] = square(%x)
  %sqrt: f32[n, 4] = sqrt(%s)
  return %sqrt
}
