//! rule: not_eq
graph main(%x: f32[n, 4], %y: f32[4]) {
  %a = eq(%x, %y)
  %b = logical_not(%a)
  return %b
}
//! =>
graph main(%x: f32[n, 4], %y: f32[4]) -> bool[n, 4] {
  %ne: bool[n, 4] = ne(%x, %y)
  return %ne
}
