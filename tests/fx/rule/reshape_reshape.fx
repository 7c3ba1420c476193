//! rule: reshape_reshape
graph main(%x: f32[n, 4, 3]) {
  %a = reshape(%x, [-1, 12])
  %b = view(%a, [-1, 2, 6])
  %c = unsqueeze(%b, 1)
  %d = reshape(%c, [-1, 3, 4])
  %e = flatten(%d, 1)
  %f = reshape(%e, [-1, 4, 3])
  return %f
}
//! =>
graph main(%x: f32[n, 4, 3]) -> f32[n, 4, 3] {
  %reshape: f32[n, 4, 3] = reshape(%x, [-1, 4, 3])
  return %reshape
}
