//! rule: pow_minus_half
graph main(%x: f32[n, 4], %h: f16[n]) {
  %s = square(%x)
  %a = pow(%s, -0.5)
  %b = pow(%h, -0.5)
  return (%a, %b)
}
//! =>
graph main(%x: f32[n, 4], %h: f16[n]) -> (f32[n, 4], f16[n]) {
  %s: f32[n, 4] = square(%x)
  %rsqrt: f32[n, 4] = rsqrt(%s)
  %b: f16[n] = pow(%h, -0.5)
  return (%rsqrt, %b)
}
