//! rule: to_to
graph main(%x: f16[n, 4]) {
  %a = to(%x, f32)
  %b = to(%a, f64)
  %c = to(%b, bf16)
  %d = to(%c, f64)
  return %d
}
//! =>
graph main(%x: f16[n, 4]) -> f64[n, 4] {
  %to_1: bf16[n, 4] = to(%x, bf16)
  %d: f64[n, 4] = to(%to_1, f64)
  return %d
}
