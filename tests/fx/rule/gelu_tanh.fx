//! rule: gelu_tanh
graph main(%x: f32[n, 4]) {
  %a = mul(%x, 0.5)
  %b = pow(%x, 3.0)
  %c = mul(%b, 0.044715)
  %d = add(%x, %c)
  %e = mul(%d, 0.7978845608028654)
  %f = tanh(%e)
  %g = add(%f, 1.0)
  %h = mul(%a, %g)
  return %h
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %gelu_tanh: f32[n, 4] = gelu_tanh(%x)
  return %gelu_tanh
}
