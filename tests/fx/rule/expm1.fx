//! rule: expm1
graph main(%x: f32[n, 4]) {
  %a = exp(%x)
  %b = sub(%a, 1)
  return %b
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %expm1: f32[n, 4] = expm1(%x)
  return %expm1
}
