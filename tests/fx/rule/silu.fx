//! rule: silu
graph main(%x: f32[n, 4]) {
  %a = sigmoid(%x)
  %b = mul(%a, %x)
  %c = neg(%b)
  %d = exp(%c)
  %e = add(%d, 1.0)
  %f = div(%b, %e)
  return %f
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %silu: f32[n, 4] = silu(%x)
  %silu_1: f32[n, 4] = silu(%silu)
  return %silu_1
}
