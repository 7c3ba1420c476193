//! rule: add_zero
graph main(%x: i64[n, 4], %y: f32[4]) {
  %a = add(%x, 0)
  %b = add(%x, 0.0)
  %c = add(%y, 0)
  %d = add(%y, -0.0)
  %e = add(%c, %d)
  return (%a, %b, %e)
}
//! =>
graph main(%x: i64[n, 4], %y: f32[4]) -> (i64[n, 4], f32[n, 4], f32[4]) {
  %b: f32[n, 4] = add(%x, 0.0)
  %c: f32[4] = add(%y, 0)
  %e: f32[4] = add(%c, %y)
  return (%x, %b, %e)
}
