//! rule: slice_all
graph main(%x: f32[3, 4]) {
  %a = slice(%x, dim=0, start=0, end=9223372036854775807)
  %b = slice(%a, 1, 1)
  return %b
}
//! =>
graph main(%x: f32[3, 4]) -> f32[3, 3] {
  %b: f32[3, 3] = slice(%x, 1, 1)
  return %b
}
