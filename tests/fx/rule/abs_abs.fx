//! rule: abs_abs
graph main(%x: f32[n, 4], %k: u8[n]) {
  %a = abs(%x)
  %b = abs(%a)
  %c = neg(%b)
  %d = abs(%c)
  %e = neg(%k)
  %f = abs(%e)
  return (%d, %f)
}
//! =>
graph main(%x: f32[n, 4], %k: u8[n]) -> (f32[n, 4], u8[n]) {
  %abs_2: f32[n, 4] = abs(%x)
  %e: u8[n] = neg(%k)
  %f: u8[n] = abs(%e)
  return (%abs_2, %f)
}
