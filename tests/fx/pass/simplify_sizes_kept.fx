//! pass: simplify_sizes
graph main(%x: f32[min(4, n)]) -> f32[min(4, n)] {
  %s: <min(4, n)> = size(%x, 0)
  %y: f32[min(4, n)] = mul(%x, %s)
  return %y
}
//! =>
graph main(%x: f32[min(4, n)]) -> f32[min(4, n)] {
  %s: <min(4, n)> = size(%x, 0)
  %y: f32[min(4, n)] = mul(%x, %s)
  return %y
}
