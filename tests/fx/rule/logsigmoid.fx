//! rule: logsigmoid
graph main(%x: f32[n, 4]) {
  %a = sigmoid(%x)
  %b = log(%a)
  %c = neg(%b)
  %d = softplus(%c)
  %e = neg(%d)
  return %e
}
