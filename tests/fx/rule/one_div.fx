//! rule: one_div
graph main(%x: f32[n, 4]) {
  %a = div(1.0, %x)
  %b = div(2.0, %a)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %reciprocal: f32[n, 4] = reciprocal(%x)
  %b: f32[n, 4] = div(2.0, %reciprocal)
  return %b
}
