//! rule: log_of_sigmoid
graph main(%x: f32[n, 4]) {
  %a = sigmoid(%x)
  %b = log(%a)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %logsigmoid: f32[n, 4] = logsigmoid(%x)
  return %logsigmoid
}
