//! rule: to_same
graph main(%x: f32[n, 4]) {
  %a = to(%x, f32)
  %b = to(%a, f64)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f64[n, 4] {
  %b: f64[n, 4] = to(%x, f64)
  return %b
}
