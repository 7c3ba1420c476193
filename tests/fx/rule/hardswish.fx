//! rule: hardswish
graph main(%x: f32[n, 4]) {
  %a = add(%x, 3.0)
  %b = relu6(%a)
  %c = mul(%b, %x)
  %d = div(%c, 6.0)
  %e = hardsigmoid(%d)
  %f = mul(%d, %e)
  return %f
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %hardswish: f32[n, 4] = hardswish(%x)
  %e: f32[n, 4] = hardsigmoid(%hardswish)
  %f: f32[n, 4] = mul(%hardswish, %e)
  return %f
}
