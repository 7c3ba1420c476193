//! lint
graph main(%x: f32[4, 2], %y: f32[3]) -> f32[4, 2] {
  %a: f32[4, 3] = neg(%x)
  %b = add(%x, %y)
  %c: i64[4, 2] = mul(%x, 2)
  return %c
}
//! =>
