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
  %log_softmax: f32[n, 4] = log_softmax(%x, -1)
  %log_softmax_1: f32[n, 4] = log_softmax(%log_softmax, 1)
  return %log_softmax_1
}
