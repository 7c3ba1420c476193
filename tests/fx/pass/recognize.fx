//! pass: shape_prop, repeat(simplify, recognize, dead_code)
graph main(%x: f32[n, 5, 4]) {
  %w: f32[4] = self.w
  %a = pow(%x, 2)
  %b = mean(%a, [-1], keepdim=true)
  %c = add(%b, 1e-6)
  %d = rsqrt(%c)
  %e = mul(%x, %d)
  %f = mul(%w, %e)
  %g = neg(%f)
  %h = exp(%g)
  %i = add(1.0, %h)
  %j = div(%f, %i)
  return %j
}
//! =>
graph main(%x: f32[n, 5, 4]) -> f32[n, 5, 4] {
  %w: f32[4] = self.w
  %rms_norm_1: f32[n, 5, 4] = rms_norm(%x, [4], weight=%w, eps=1e-6)
  %silu: f32[n, 5, 4] = silu(%rms_norm_1)
  return %silu
}
