//! rule: cat_one
graph main(%x: f32[n, 4]) {
  %a = cat([%x])
  %b = cat([%a, %a], dim=1)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 8] {
  %b: f32[n, 8] = cat([%x, %x], dim=1)
  return %b
}
