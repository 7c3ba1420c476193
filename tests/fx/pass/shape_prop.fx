//! pass: shape_prop, simplify_sizes, dead_code
graph main(%x: f32[n, 4]) {
  %n = size(%x, 0)
  %m = size(%x, 1)
  %a = reshape(%x, [%n, 2, -1])
  %b = mul(%a, %m)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 2, 2] {
  %a: f32[n, 2, 2] = reshape(%x, [<n>, 2, -1])
  %b: f32[n, 2, 2] = mul(%a, 4)
  return %b
}
