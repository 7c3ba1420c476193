//! rule: add_neg
graph main(%x: f32[n, 4], %y: f32[4]) {
  %a = neg(%y)
  %b = add(%x, %a)
  %c = neg(%x)
  %d = add(%c, %y)
  return (%b, %d)
}
//! =>
graph main(%x: f32[n, 4], %y: f32[4]) -> (f32[n, 4], f32[n, 4]) {
  %sub: f32[n, 4] = sub(%x, %y)
  %sub_1: f32[n, 4] = sub(%y, %x)
  return (%sub, %sub_1)
}
