//! rule: mish
graph main(%x: f32[n, 4]) {
  %a = softplus(%x)
  %b = tanh(%a)
  %c = mul(%x, %b)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %mish: f32[n, 4] = mish(%x)
  return %mish
}
