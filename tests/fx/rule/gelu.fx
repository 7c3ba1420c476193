//! rule: gelu
graph main(%x: f32[n, 4]) {
  %a = div(%x, 1.4142135623730951)
  %b = erf(%a)
  %c = add(%b, 1.0)
  %d = mul(%x, %c)
  %e = mul(%d, 0.5)
  %f = mul(%e, 0.5)
  %g = mul(%e, 0.7071067811865476)
  %h = erf(%g)
  %i = add(1, %h)
  %j = mul(%f, %i)
  return %j
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %gelu: f32[n, 4] = gelu(%x)
  %gelu_1: f32[n, 4] = gelu(%gelu)
  return %gelu_1
}
