//! rule: log_of_softmax
graph main(%x: f32[n, 4], %y: bf16[n, 4]) {
  %a = softmax(%x, -1)
  %b = log(%a)
  %c = softmax(%y, -1)
  %d = log(%c)
  return (%b, %d)
}
//! =>
graph main(%x: f32[n, 4], %y: bf16[n, 4]) -> (f32[n, 4], bf16[n, 4]) {
  %log_softmax: f32[n, 4] = log_softmax(%x, -1)
  %c: bf16[n, 4] = softmax(%y, -1)
  %d: bf16[n, 4] = log(%c)
  return (%log_softmax, %d)
}
