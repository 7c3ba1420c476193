//! rule: mul_mul
graph main(%x: f32[n, 4], %y: f16[n]) {
  %a = mul(%x, 2.0)
  %b = mul(4, %a)
  %c = mul(%b, 0.25)
  %d = mul(%c, 1e-10)
  %e = mul(%d, 1e-30)
  %f = mul(%e, 0)
  %g = mul(%f, 1e20)
  %h = mul(%g, 1e20)
  %i = mul(%y, 300)
  %j = mul(%i, 300)
  return (%h, %j)
}
//! =>
graph main(%x: f32[n, 4], %y: f16[n]) -> (f32[n, 4], f16[n]) {
  %mul: f32[n, 4] = mul(%x, 8.0)
  %mul_1: f32[n, 4] = mul(%mul, 2.5e-11)
  %e: f32[n, 4] = mul(%mul_1, 1e-30)
  %f: f32[n, 4] = mul(%e, 0)
  %g: f32[n, 4] = mul(%f, 1e20)
  %h: f32[n, 4] = mul(%g, 1e20)
  %i: f16[n] = mul(%y, 300)
  %j: f16[n] = mul(%i, 300)
  return (%h, %j)
}
