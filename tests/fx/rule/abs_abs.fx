//! rule: abs_abs
graph main(%x: f32[n, 4]) {
  %a = abs(%x)
  %b = abs(%a)
  %c = neg(%b)
  %d = abs(%c)
  return %d
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %abs_2: f32[n, 4] = abs(%x)
  return %abs_2
}
