//! rule: add_add
graph main(%x: i64[n, 4], %y: f32[4]) {
  %a = add(%x, 3)
  %b = add(4, %a)
  %c = add(%y, 3)
  %d = add(%c, 4)
  return (%b, %d)
}
//! =>
graph main(%x: i64[n, 4], %y: f32[4]) -> (i64[n, 4], f32[4]) {
  %add: i64[n, 4] = add(%x, 7)
  %c: f32[4] = add(%y, 3)
  %d: f32[4] = add(%c, 4)
  return (%add, %d)
}
