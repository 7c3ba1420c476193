//! rule: sub_neg
graph main(%x: f32[n, 4], %y: f32[4]) {
  %a = neg(%y)
  %b = sub(%x, %a)
  return %b
}
//! =>
graph main(%x: f32[n, 4], %y: f32[4]) -> f32[n, 4] {
  %add: f32[n, 4] = add(%x, %y)
  return %add
}
