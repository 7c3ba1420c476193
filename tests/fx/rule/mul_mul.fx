//! rule: mul_mul
graph main(%x: f32[n, 4]) {
  %a = mul(%x, 2.0)
  %b = mul(0.25, %a)
  %c = mul(%b, 1e-30)
  %d = mul(%c, 0)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %mul_1: f32[n, 4] = mul(%x, 5e-31)
  %d: f32[n, 4] = mul(%mul_1, 0)
  return %d
}
