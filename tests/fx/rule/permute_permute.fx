//! rule: permute_permute
graph main(%x: f32[n, 4, 3]) {
  %a = permute(%x, [2, 0, 1])
  %b = permute(%a, [-1, 0, 1])
  return %b
}
//! =>
graph main(%x: f32[n, 4, 3]) -> f32[4, 3, n] {
  %permute: f32[4, 3, n] = permute(%x, [1, 2, 0])
  return %permute
}
