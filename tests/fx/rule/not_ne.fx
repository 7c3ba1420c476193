//! rule: not_ne
graph main(%x: f32[n, 4], %y: f32[4]) {
  %a = ne(%x, %y)
  %b = logical_not(%a)
  return %b
}
//! =>
graph main(%x: f32[n, 4], %y: f32[4]) -> bool[n, 4] {
  %eq: bool[n, 4] = eq(%x, %y)
  return %eq
}
