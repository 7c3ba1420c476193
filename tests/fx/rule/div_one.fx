//! rule: div_one
graph main(%x: f32[n, 4], %i: i64[4]) {
  %a = div(%x, 1)
  %b = div(%i, 1)
  return (%a, %b)
}
//! =>
graph main(%x: f32[n, 4], %i: i64[4]) -> (f32[n, 4], f32[4]) {
  %b: f32[4] = div(%i, 1)
  return (%x, %b)
}
