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
