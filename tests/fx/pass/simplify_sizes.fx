//! pass: simplify_sizes
graph main(%x: f32[n, min(4, n)]) -> f32[n, min(4, n)] {
  %s: <min(4, n)> = size(%x, 1)
  %y: f32[n, min(4, n)] = mul(%x, %s)
  return %y
}
//! =>
graph main(%x: f32[n, min(4, n)]) -> f32[n, min(4, n)] {
  %y: f32[n, min(4, n)] = mul(%x, <min(4, n)>)
  return %y
}
