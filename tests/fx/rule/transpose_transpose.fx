//! rule: transpose_transpose
graph main(%x: f32[n, 4, 3]) {
  %a = transpose(%x, 1, 2)
  %b = transpose(%a, -1, 1)
  %c = transpose(%b, 0, 1)
  %d = transpose(%c, 0, 2)
  return %d
}
//! =>
graph main(%x: f32[n, 4, 3]) -> f32[3, n, 4] {
  %c: f32[4, n, 3] = transpose(%x, 0, 1)
  %d: f32[3, n, 4] = transpose(%c, 0, 2)
  return %d
}
