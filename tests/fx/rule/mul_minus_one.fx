//! rule: mul_minus_one
graph main(%x: f32[n, 4]) {
  %a = mul(%x, -1)
  %b = mul(%a, -1.5)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %neg: f32[n, 4] = neg(%x)
  %b: f32[n, 4] = mul(%neg, -1.5)
  return %b
}
