//! rule: narrow_all
graph main(%x: f32[3, 4]) {
  %a = narrow(%x, 1, 0, 4)
  %b = narrow(%a, 0, 1, 2)
  return %b
}
//! =>
graph main(%x: f32[3, 4]) -> f32[2, 4] {
  %b: f32[2, 4] = narrow(%x, 0, 1, 2)
  return %b
}
