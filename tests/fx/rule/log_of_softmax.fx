//! rule: log_of_softmax
graph main(%x: f32[n, 4], %y: bf16[n, 4]) {
  %a = softmax(%x, -1)
  %b = log(%a)
  %c = softmax(%y, -1)
  %d = log(%c)
  return (%b, %d)
}
