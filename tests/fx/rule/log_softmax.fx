//! rule: log_softmax
graph main(%x: f32[n, 4]) {
  %a = softmax(%x, -1)
  %b = log(%a)
  %c = logsumexp(%b, [1], keepdim=true)
  %d = sub(%b, %c)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %a: f32[n, 4] = softmax(%x, -1)
  %b: f32[n, 4] = log(%a)
  %log_softmax: f32[n, 4] = log_softmax(%b, 1)
  return %log_softmax
}
