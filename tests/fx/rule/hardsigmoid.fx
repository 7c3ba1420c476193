//! rule: hardsigmoid
graph main(%x: f32[n, 4]) {
  %a = add(%x, 3)
  %b = relu6(%a)
  %c = div(%b, 6)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %hardsigmoid: f32[n, 4] = hardsigmoid(%x)
  return %hardsigmoid
}
