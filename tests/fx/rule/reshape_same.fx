//! rule: reshape_same
graph main(%x: f32[3, 4]) {
  %a = reshape(%x, [3, -1])
  %b = view(%a, [3, 4])
  %c = flatten(%b, 0, 0)
  %d = reshape(%c, [4, 3])
  return %d
}
//! =>
graph main(%x: f32[3, 4]) -> f32[4, 3] {
  %d: f32[4, 3] = reshape(%x, [4, 3])
  return %d
}
