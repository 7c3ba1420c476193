//! rule: mul_one
graph main(%x: f32[n, 4], %i: i64[4]) {
  %a = mul(%x, 1)
  %b = mul(1.0, %a)
  %c = mul(%i, 1.0)
  %d = mul(%i, 1)
  return (%b, %c, %d)
}
//! =>
graph main(%x: f32[n, 4], %i: i64[4]) -> (f32[n, 4], f32[4], i64[4]) {
  %c: f32[4] = mul(%i, 1.0)
  return (%x, %c, %i)
}
