//! rule: flip_flip
graph main(%x: f32[n, 4]) {
  %a = flip(%x, [1])
  %b = flip(%a, [1])
  %c = flip(%b, [0])
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %c: f32[n, 4] = flip(%x, [0])
  return %c
}
