//! rule: logsumexp
graph main(%x: f32[n, 4]) {
  %a = exp(%x)
  %b = sum(%a, [1])
  %c = log(%b)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n] {
  %logsumexp: f32[n] = logsumexp(%x, [1])
  return %logsumexp
}
