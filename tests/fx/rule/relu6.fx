//! rule: relu6
graph main(%x: f32[n, 4]) {
  %a = clamp(%x, 0.0, 6.0)
  %b = neg(%a)
  %c = hardtanh(%b, min_val=0.0, max_val=6.0)
  %d = relu(%x)
  %e = minimum(6, %d)
  return (%c, %e)
}
//! =>
graph main(%x: f32[n, 4]) -> (f32[n, 4], f32[n, 4]) {
  %relu6: f32[n, 4] = relu6(%x)
  %b: f32[n, 4] = neg(%relu6)
  %relu6_1: f32[n, 4] = relu6(%b)
  %relu6_2: f32[n, 4] = relu6(%x)
  return (%relu6_1, %relu6_2)
}
