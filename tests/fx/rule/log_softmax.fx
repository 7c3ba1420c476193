//! rule: log_softmax
graph main(%x: f32[n, 4]) {
  %a = softmax(%x, -1)
  %b = log(%a)
  %c = logsumexp(%b, [1], keepdim=true)
  %d = sub(%b, %c)
  return %d
}
