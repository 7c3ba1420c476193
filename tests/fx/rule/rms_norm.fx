//! rule: rms_norm
graph main(%x: f32[n, 5, 4]) {
  %a = pow(%x, 2)
  %b = mean(%a, [-1], keepdim=true)
  %c = add(%b, 1e-6)
  %d = rsqrt(%c)
  %e = mul(%x, %d)
  return %e
}
//! =>
graph main(%x: f32[n, 5, 4]) -> f32[n, 5, 4] {
  %rms_norm: f32[n, 5, 4] = rms_norm(%x, [4], eps=1e-6)
  return %rms_norm
}
