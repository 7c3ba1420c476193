//! rule: neg_neg
graph main(%x: f32[n, 4]) {
  %a = neg(%x)
  %b = %a.neg()
  %c = neg(%b)
  return %c
}
//! =>
graph main(%x: f32[n, 4]) -> f32[n, 4] {
  %c: f32[n, 4] = neg(%x)
  return %c
}
