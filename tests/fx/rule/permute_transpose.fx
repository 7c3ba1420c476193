//! rule: permute_transpose
graph main(%x: f32[n, 4, 3]) {
  %a = transpose(%x, 0, -1)
  %b = permute(%a, [1, 2, 0])
  return %b
}
//! =>
graph main(%x: f32[n, 4, 3]) -> f32[4, n, 3] {
  %permute: f32[4, n, 3] = permute(%x, [1, 0, 2])
  return %permute
}
