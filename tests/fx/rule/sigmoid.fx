//! rule: sigmoid
graph main(%x: f32[n, 4]) {
  %a = neg(%x)
  %b = exp(%a)
  %c = add(1, %b)
  %d = reciprocal(%c)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %sigmoid: f32[n, 4] = sigmoid(%x)
  return %sigmoid
}
