//! rule: permute_same
graph main(%x: f32[n, 4, 3]) {
  %a = permute(%x, [0, -2, 2])
  %b = permute(%a, [0, 2, 1])
  return %b
}
//! =>
graph main(%x: f32[n, 4, 3]) -> f32[n, 3, 4] {
  %b: f32[n, 3, 4] = permute(%x, [0, 2, 1])
  return %b
}
