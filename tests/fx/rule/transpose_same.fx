//! rule: transpose_same
graph main(%x: f32[n, 4, 3]) {
  %a = transpose(%x, 1, -2)
  return %a
}
//! =>
graph main(%x: f32[n, 4, 3]) -> f32[n, 4, 3] {
  return %x
}
