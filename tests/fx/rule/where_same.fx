//! rule: where_same
graph main(%p: bool[n, 4], %x: f32[n, 4], %y: f32[4]) {
  %a = where(%p, %x, %x)
  %b = where(%p, %y, %y)
  return (%a, %b)
}
//! =>
graph main(%p: bool[n, 4], %x: f32[n, 4], %y: f32[4]) -> (f32[n, 4], f32[n, 4]) {
  %b: f32[n, 4] = where(%p, %y, %y)
  return (%x, %b)
}
