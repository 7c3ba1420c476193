//! rule: logsigmoid
graph main(%x: f32[n, 4]) {
  %a = sigmoid(%x)
  %b = log(%a)
  %c = neg(%b)
  %d = softplus(%c)
  %e = neg(%d)
  return %e
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %a: f32[n, 4] = sigmoid(%x)
  %b: f32[n, 4] = log(%a)
  %logsigmoid: f32[n, 4] = logsigmoid(%b)
  return %logsigmoid
}
