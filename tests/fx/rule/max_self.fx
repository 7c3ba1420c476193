//! rule: max_self
graph main(%x: f32[n, 4], %y: f32[4]) {
  %a = maximum(%x, %x)
  %b = minimum(%a, %a)
  %c = minimum(%b, %y)
  return %c
}
//! =>
graph main(%x: f32[n, 4], %y: f32[4]) -> f32[n, 4] {
  %c: f32[n, 4] = minimum(%x, %y)
  return %c
}
