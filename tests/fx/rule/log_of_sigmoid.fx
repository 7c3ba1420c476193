//! rule: log_of_sigmoid
graph main(%x: f32[n, 4]) {
  %a = sigmoid(%x)
  %b = log(%a)
  return %b
}
