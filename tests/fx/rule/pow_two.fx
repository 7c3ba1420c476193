//! rule: pow_two
graph main(%x: f32[n, 4], %i: i64[3]) {
  %a = pow(%x, 2)
  %b = pow(%a, 2.0)
  %c = pow(%i, 2)
  return (%b, %c)
}
//! =>
graph main(%x: f32[n, 4], %i: i64[3]) -> (f32[n, 4], i64[3]) {
  %square: f32[n, 4] = square(%x)
  %square_1: f32[n, 4] = square(%square)
  %c: i64[3] = pow(%i, 2)
  return (%square_1, %c)
}
