//! rule: add_neg
graph main(%x: f32[n, 4], %y: f32[4], %i: i64[], %k: u8[4], %l: i64[4]) {
  %a = neg(%y)
  %b = add(%x, %a)
  %c = neg(%x)
  %d = add(%c, %y)
  %e = neg(%i)
  %f = add(%x, %e)
  %g = neg(%k)
  %h = add(%l, %g)
  %j = add(%l, %e)
  return (%b, %d, %f, %h, %j)
}
//! =>
graph main(%x: f32[n, 4], %y: f32[4], %i: i64[], %k: u8[4], %l: i64[4]) -> (f32[n, 4], f32[n, 4], f32[n, 4], i64[4], i64[4]) {
  %sub: f32[n, 4] = sub(%x, %y)
  %sub_1: f32[n, 4] = sub(%y, %x)
  %e: i64[] = neg(%i)
  %f: f32[n, 4] = add(%x, %e)
  %g: u8[4] = neg(%k)
  %h: i64[4] = add(%l, %g)
  %j: i64[4] = add(%l, %e)
  return (%sub, %sub_1, %f, %h, %j)
}
