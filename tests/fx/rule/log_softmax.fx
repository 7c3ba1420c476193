//! rule: log_softmax
graph main(%x: f32[n, 4]) {
  %c = logsumexp(%x, [1], keepdim=true)
  %d = sub(%x, %c)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %log_softmax: f32[n, 4] = log_softmax(%x, 1)
  return %log_softmax
}
