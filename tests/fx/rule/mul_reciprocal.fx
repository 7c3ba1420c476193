//! rule: mul_reciprocal
graph main(%x: f32[n, 4], %y: f32[4]) {
  %a = reciprocal(%y)
  %b = mul(%a, %x)
  return %b
}
//! =>
graph main(%x: f32[n, 4], %y: f32[4]) -> f32[n, 4] {
  %div: f32[n, 4] = div(%x, %y)
  return %div
}
