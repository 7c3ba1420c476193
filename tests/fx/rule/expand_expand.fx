//! rule: expand_expand
graph main(%x: f32[1, 4]) {
  %a = expand(%x, [3, -1])
  %b = expand(%a, [2, -1, 4])
  return %b
}
//! =>
graph main(%x: f32[1, 4]) -> f32[2, 3, 4] {
  %expand: f32[2, 3, 4] = expand(%x, [2, 3, 4])
  return %expand
}
